"""How many candidates stand above, or tie with, each answer: the inner loop of every rank.

Queries and candidates are screened in float32; pairs that float32 cannot decide are scored again by
`exact.exact`. For a backbone without a geometry all scores are computed (`_count_tiles`).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meor.backbone.base import Backbone, Geometry
from meor.compiled import fast_kernel, kernel, kernel_part, share
from meor.search.dot_tiles import DotTiles, leave_out
from meor.search.exact import Array, exact, first_from, is_known, tiles
from meor.search.queries import Queries
from meor.search.screen import LANES, Candidates, band
from meor.typing import Ids

GREATER, TIED_BEFORE, TIED_AFTER = 0, 1, 2
GROUP = 16  # queries that walk the blocks of an L1 universe together: a block stays in cache meanwhile


class Universe(NamedTuple):
    """A range of candidates as kernels see it."""

    row: Array  # [E, W], all of them
    begin: int
    end: int


class Band(NamedTuple):
    """Screened scores below `low` or above `high` are decided."""

    low: Array  # [Q] float32
    high: Array


def count_range(
    candidates: Candidates, queries: Queries, begin: int, end: int
) -> tuple[Ids, NDArray[np.bool_] | None]:
    """[Q, 3] how many candidates of begin..end-1 are greater, tied before, tied after the answer.

    The second value is None, or says for each query whether all of its scores were finite (known beforehand
    where rows are moderate).
    """
    tally = np.zeros((len(queries), 3), np.int64)
    if end <= begin or not len(queries):
        return tally, None
    if isinstance(candidates.scoring, Backbone):
        return tally, _count_tiles(candidates.scoring, candidates.row[begin:end], queries, begin, tally)
    universe = Universe(candidates.row, begin, end)
    is_dot = candidates.scoring is Geometry.DOT
    if candidates.screened is None or queries.screened is None:
        healthy = np.ones(len(queries), np.bool_)
        share(_count_unscreened, len(queries), is_dot, queries.asked, universe, tally, healthy)
        return tally, healthy
    bounds = Band(*band(candidates, queries.size, queries.threshold, begin, end))
    if is_dot:
        _count_dot(candidates, queries, universe, bounds, tally)
    else:
        groups, narrow = -(-len(queries) // GROUP), (candidates.screened, queries.screened)
        share(_count_l1, groups, *narrow, queries.asked, universe, bounds, tally)
    return tally, None


def _count_tiles(
    backbone: Backbone, row: Array, queries: Queries, begin: int, tally: Ids
) -> NDArray[np.bool_]:
    """Count by any score function: every score is computed."""
    healthy = np.ones(len(queries), np.bool_)
    for own, part, score in tiles(backbone, queries.row.take(queries.place, 0), row):
        # A tile is too little work to share.
        _count_scores(0, len(score), own.start, begin + part.start, score, queries.asked, tally, healthy)
    return healthy


def _count_dot(
    candidates: Candidates, queries: Queries, universe: Universe, bounds: Band, tally: Ids
) -> None:
    walk = DotTiles.of(candidates, queries, universe.begin, universe.end)
    for query, first, tile in walk:
        found = universe.row, bounds, walk.cursor, tally
        share(_count_dot_tile, len(tile), query, first, tile, queries.asked, *found)


@kernel_part
def _judge(is_dot, query, row, threshold, answer, candidate, tally):
    """Redo one undecided pair in float64 and tally it. False if the score is not finite."""
    score = exact(is_dot, query, row)
    if score > threshold:
        tally[GREATER] += 1
    elif score == threshold:
        tally[TIED_BEFORE if candidate < answer else TIED_AFTER] += 1
    return np.isfinite(score)


@kernel
def _count_unscreened(begin, end, is_dot, asked, universe, tally, healthy):
    for q in range(begin, end):
        query, answer = asked.row[asked.place[q]], asked.answer[q]
        for e in range(universe.begin, universe.end):
            if e == answer or is_known(asked.known_id, asked.known_start[q], asked.known_end[q], e):
                continue
            healthy[q] &= _judge(is_dot, query, universe.row[e], asked.threshold[q], answer, e, tally[q])


@kernel
def _count_scores(begin, end, query, first, tile, asked, tally, healthy):
    """Tally a tile [Q, C] of scores of queries query.. against candidates first..first+C-1."""
    for line in range(begin, end):
        q = query + line
        answer, threshold = asked.answer[q], asked.threshold[q]
        known, last = asked.known_start[q], asked.known_end[q]
        known += np.searchsorted(asked.known_id[known:last], first)
        for column in range(tile.shape[1]):
            candidate, score = first + column, tile[line, column]
            known = first_from(asked.known_id, known, last, candidate)
            if candidate == answer or (known < last and asked.known_id[known] == candidate):
                continue
            healthy[q] &= np.isfinite(score)
            if score > threshold:
                tally[q, GREATER] += 1
            elif score == threshold:
                tally[q, TIED_BEFORE if candidate < answer else TIED_AFTER] += 1


@kernel_part
def _tally_lanes(score, low, high, first, query, row, threshold, answer, tally):
    """Count a few screened scores side by side; look closer only where one of them is undecided."""
    above = possible = np.int32(0)
    for c in range(score.shape[0]):
        above += np.int32(score[c] > high)
        possible += np.int32(score[c] >= low)
    tally[GREATER] += above
    if possible > above:
        for c in range(score.shape[0]):
            if low <= score[c] <= high:
                _judge(True, query, row[first + c], threshold, answer, first + c, tally)


@kernel
def _count_dot_tile(begin, end, query, first, tile, asked, row, bounds, cursor, tally):
    """Tally one float32 tile [Q, C] of queries query.. against candidates first..first+C-1."""
    n_columns = tile.shape[1]
    for line_number in range(begin, end):
        line, q = tile[line_number], query + line_number
        leave_out(line, q, first, asked, cursor)
        answer = asked.answer[q]
        own, threshold = asked.row[asked.place[q]], asked.threshold[q]
        low, high = bounds.low[q], bounds.high[q]
        for lane in range(0, n_columns, LANES):
            some = line[lane : lane + LANES]
            _tally_lanes(some, low, high, first + lane, own, row, threshold, answer, tally[q])


@fast_kernel
def _measure_block(query, block, limit, distance):
    """Float32 L1 distances of LANES candidates; False as soon as all of them are beyond `limit`."""
    width = query.shape[0]
    distance[:] = 0
    i = 0
    while i + 8 <= width:
        q0, q1, q2, q3 = query[i], query[i + 1], query[i + 2], query[i + 3]
        q4, q5, q6, q7 = query[i + 4], query[i + 5], query[i + 6], query[i + 7]
        for lane in range(LANES):
            distance[lane] += (
                (abs(q0 - block[i, lane]) + abs(q1 - block[i + 1, lane]))
                + (abs(q2 - block[i + 2, lane]) + abs(q3 - block[i + 3, lane]))
            ) + (
                (abs(q4 - block[i + 4, lane]) + abs(q5 - block[i + 5, lane]))
                + (abs(q6 - block[i + 6, lane]) + abs(q7 - block[i + 7, lane]))
            )
        i += 8
        # Distances only grow with the coordinates: a block may be given up before its end.
        if i >= width // 2 and i % 24 == 0:
            within = np.int32(0)
            for lane in range(LANES):
                within += np.int32(distance[lane] <= limit)
            if within == 0:
                return False
    for j in range(i, width):
        for lane in range(LANES):
            distance[lane] += abs(query[j] - block[j, lane])
    return True


@kernel_part
def _tally_block(distance, first, q, asked, universe, bounds, known_at, tally):
    """Tally one measured block of candidates first..first+LANES-1."""
    # Lanes of another range, the answer and what is known do not count.
    answer = asked.answer[q]
    distance[: max(0, universe.begin - first)] = np.inf
    distance[min(LANES, universe.end - first) :] = np.inf
    if first <= answer < first + LANES:
        distance[answer - first] = np.inf
    while known_at < asked.known_end[q] and asked.known_id[known_at] < first + LANES:
        distance[asked.known_id[known_at] - first] = np.inf
        known_at += 1
    low, high = bounds.low[q], bounds.high[q]
    nearer = possible = np.int32(0)
    for lane in range(LANES):
        nearer += np.int32(distance[lane] < low)
        possible += np.int32(distance[lane] <= high)
    tally[GREATER] += nearer
    if possible == nearer:
        return
    query, threshold = asked.row[asked.place[q]], asked.threshold[q]
    for lane in range(LANES):
        if low <= distance[lane] <= high:
            _judge(False, query, universe.row[first + lane], threshold, answer, first + lane, tally)


@kernel
def _count_l1(begin, end, blocks, narrow, asked, universe, bounds, tally):
    """Tally a universe for groups begin..end-1 of queries."""
    distance = np.empty(LANES, np.float32)
    cursor = asked.known_start.copy()
    for group in range(begin, end):
        last = min((group + 1) * GROUP, narrow.shape[0])
        for b in range(universe.begin // LANES, -(-universe.end // LANES)):
            first = b * LANES
            for q in range(group * GROUP, last):
                while cursor[q] < asked.known_end[q] and asked.known_id[cursor[q]] < first:
                    cursor[q] += 1
                if _measure_block(narrow[q], blocks[b], bounds.high[q], distance):
                    _tally_block(distance, first, q, asked, universe, bounds, cursor[q], tally[q])
