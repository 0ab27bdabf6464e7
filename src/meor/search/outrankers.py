"""Which candidates score above a threshold, and by how much: what the penalty and displacement need.

Entities at or below the answer do not matter (decision 29), so only outrankers are scored in float64.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from meor.backbone.base import Backbone, Geometry
from meor.compiled import kernel, share
from meor.search.byte_rows import LANES
from meor.search.exact import Array, exact, first_from, tiles
from meor.search.queries import Queries
from meor.search.screen import Candidates
from meor.search.screened_tiles import Bound, bound_of, may_outrank, screened_tile
from meor.typing import Floats, Ids

TILE_BYTES = 2**25


class Place(NamedTuple):
    """Where a tile stands: its first query, and the entity id of its first column."""

    query: int
    entity: int


class Room(NamedTuple):
    """Where the outrankers of a tile go: each query has a share, of which it fills the front."""

    at: Ids  # [Q + 1] where the shares begin
    size: Ids  # [Q] how much of its share a query has filled
    column: Ids
    score: Floats


@dataclass(frozen=True, slots=True)
class Outrankers:
    """For query q the columns `column[start[q]:start[q + 1]]`, ascending, and their float64 scores.

    Scores are those of `exact.exact`: inner products, or minus the L1 distance.
    """

    start: Ids
    column: Ids
    score: Floats

    @classmethod
    def one_after_another(cls, parts: Sequence[Outrankers]) -> Outrankers:
        """Join the outrankers of consecutive queries."""
        if len(parts) == 1:
            return parts[0]
        size = np.concatenate([np.zeros(0, np.int64), *(np.diff(part.start) for part in parts)])
        column = np.concatenate([np.zeros(0, np.int64), *(part.column for part in parts)])
        score = np.concatenate([np.zeros(0), *(part.score for part in parts)])
        return cls(np.append(0, np.cumsum(size)), column, score)

    @classmethod
    def of_tiles(cls, tiles: Sequence[tuple[int, Outrankers]]) -> Outrankers:
        """Join the outrankers of the same queries in tiles, given in order with their first columns."""
        if len(tiles) == 1 and tiles[0][0] == 0:
            return tiles[0][1]
        sizes = [np.diff(found.start) for _, found in tiles]
        of = np.concatenate([np.repeat(np.arange(len(size)), size) for size in sizes])
        order = np.argsort(of, kind="stable")
        column = np.concatenate([found.column + first for first, found in tiles])[order]
        score = np.concatenate([found.score for _, found in tiles])[order]
        return cls(np.append(0, np.cumsum(sum(sizes))), column, score)


def outrankers(candidates: Candidates, queries: Queries, *, offset: int = 0) -> Outrankers:
    """Every candidate whose exact score exceeds its query's threshold and who is no known answer.

    The entity id of a column is `column + offset`. The answer itself never exceeds its own score.
    """
    n_rows = len(candidates.row)
    if isinstance(candidates.scoring, Backbone):
        return _plainly(candidates.scoring, candidates.row, queries, offset)
    screened = candidates.screened is not None and queries.screened is not None
    bound = bound_of(candidates, queries, screened)
    block = max(1, min(len(queries), TILE_BYTES // (4 * max(n_rows, LANES))))
    parts = []
    for first in range(0, len(queries), block):
        part = slice(first, min(first + block, len(queries)))
        tile = screened_tile(candidates, queries, part, screened)
        parts.append(_collect(candidates, queries, tile, bound, Place(first, offset)))
    return Outrankers.one_after_another(parts)


def _plainly(backbone: Backbone, row: Array, queries: Queries, offset: int) -> Outrankers:
    """Any score function. A score that is not finite is kept, so that its owner can refuse it."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    for own, part, score in tiles(backbone, queries.row.take(queries.place, 0), row):
        ids = range(offset + part.start, offset + part.stop)
        above = ~(score <= queries.threshold[own, None]) | ~np.isfinite(score)
        above &= ~queries.left_out(own, ids)
        line, place = np.nonzero(above)
        parts.append((own.start + line, part.start + place, score[line, place]))
    of, column, found = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(of, kind="stable")  # tiles of a query come in order, so its columns ascend
    start = np.append(0, np.cumsum(np.bincount(of, minlength=len(queries))))
    return Outrankers(start, column[order], found[order])


def _collect(candidates: Candidates, queries: Queries, tile: Array, bound: Bound, place: Place) -> Outrankers:
    """The outrankers of the queries of one tile: count who may be one, make room, score those exactly."""
    possible = np.empty((len(tile), -(-tile.shape[1] // LANES)), np.int32)
    share(_count_possible, len(tile), tile, bound, place, possible)
    at = np.append(0, np.cumsum(possible.sum(1)))
    room = Room(at, np.empty(len(tile), np.int64), np.empty(at[-1], np.int64), np.empty(at[-1]))
    is_dot = candidates.scoring is Geometry.DOT
    share(_fill, len(tile), is_dot, tile, bound, place, possible, queries.asked, candidates.row, room)
    start = np.append(0, np.cumsum(room.size))
    if start[-1] < at[-1]:
        _close_up(room)
    return Outrankers(start, room.column[: start[-1]], room.score[: start[-1]])


@kernel
def _count_possible(begin, end, tile, bound, place, possible):
    """How many columns of each block of LANES may outrank: counted side by side, because few do."""
    for line in range(begin, end):
        q = place.query + line
        over_error, over_norm, low = bound.over_error[q], bound.over_norm[q], bound.low[q]
        for block in range(possible.shape[1]):
            number = np.int32(0)
            for c in range(block * LANES, min(block * LANES + LANES, tile.shape[1])):
                number += np.int32(may_outrank(tile[line, c], c, bound, over_error, over_norm, low))
            possible[line, block] = number


@kernel
def _fill(begin, end, is_dot, tile, bound, place, possible, asked, row, room):
    at, column, score = room.at, room.column, room.score
    for line in range(begin, end):
        q, slot = place.query + line, at[line]
        query, threshold = asked.row[asked.place[q]], asked.threshold[q]
        over_error, over_norm, low = bound.over_error[q], bound.over_norm[q], bound.low[q]
        known, last = asked.known_start[q], asked.known_end[q]
        for block in range(possible.shape[1] if at[line + 1] > slot else 0):
            if possible[line, block] == 0:
                continue
            for c in range(block * LANES, min(block * LANES + LANES, tile.shape[1])):
                if not may_outrank(tile[line, c], c, bound, over_error, over_norm, low):
                    continue
                known = first_from(asked.known_id, known, last, c + place.entity)
                if known < last and asked.known_id[known] == c + place.entity:
                    continue
                value = exact(is_dot, query, row[c])
                if not value <= threshold:  # a NaN is kept, so that its owner can refuse it
                    column[slot] = c
                    score[slot] = value
                    slot += 1
        room.size[line] = slot - at[line]


@kernel
def _close_up(room):
    """Each query wrote its outrankers to the front of its share: move the shares together."""
    column, score, slot = room.column, room.score, 0
    for q in range(len(room.size)):
        for p in range(room.at[q], room.at[q] + room.size[q]):
            column[slot] = column[p]
            score[slot] = score[p]
            slot += 1
