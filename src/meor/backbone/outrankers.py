"""Which candidates score above a threshold, and by how much: what the penalty and displacement need.

An entity at or below the answer adds nothing to the pressure and has no gradient (decision 29), so
only outrankers are ever scored in float64.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from meor.backbone.base import Geometry
from meor.backbone.coarse import Coarse, coarse_products
from meor.backbone.kernels import FAST
from meor.backbone.screen import LANES, Array, Candidates, band, exact, is_known, narrow_towards
from meor.compiled import njit, prange
from meor.typing import Floats, Ids

TILE_BYTES = 2**25

_buffer = torch.empty(0)
"""The last score tile's memory: fresh pages for every tile would cost as much as its product."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Query rows with what screening needs of them; made once where the same ones come again and again."""

    row: Floats  # [X, W] float64, of which `place` are asked
    place: Ids  # [Q]
    screened: Array | Coarse | None  # [Q, W] float32, or bytes; None: not to be screened
    size: Floats  # [Q] norms

    @classmethod
    def prepare(cls, geometry: Geometry, row: Array, *, coarse: bool = False) -> Queries:
        made = Candidates.prepare(geometry, row, lanes=False, coarse=coarse)
        screened = made.screened.numpy() if isinstance(made.screened, torch.Tensor) else made.screened
        return cls(made.row, np.arange(len(made.row)), screened, made.size)

    def select(self, index: Ids) -> Queries:
        screened = None if self.screened is None else self.screened.take(index, 0)
        return Queries(self.row, self.place.take(index), screened, self.size.take(index))

    def __len__(self) -> int:
        return len(self.place)


@dataclass(frozen=True, slots=True)
class Bound:
    """Where `tile * step + over_error * error + over_norm * norm` is below `low`, nobody outranks."""

    step: Array  # [C] float32, of the columns
    error: Array
    norm: Array
    over_error: Array  # [Q] float32
    over_norm: Array
    low: Array

    def of(self, part: slice) -> tuple[Array, ...]:
        own = (self.over_error[part], self.over_norm[part], self.low[part])
        return self.step, self.error, self.norm, *own


@dataclass(frozen=True, slots=True)
class Outrankers:
    """For query q the columns `column[start[q]:start[q + 1]]`, ascending, and their float64 scores.

    Scores are those of `screen.exact`: inner products, or minus the L1 distance.
    """

    start: Ids
    column: Ids
    score: Floats


def outrankers(
    candidates: Candidates,
    query: Array | Queries,
    threshold: Floats,
    excluded_start: Ids,
    excluded_end: Ids,
    excluded_id: Ids,
    *,
    offset: int = 0,
) -> Outrankers:
    """Every candidate whose exact score exceeds its query's threshold.

    `excluded_id[excluded_start:excluded_end]` are sorted ids that do not count; the id of a column is
    `column + offset`.
    """
    n_rows = len(candidates.row)
    coarse = isinstance(candidates.screened, Coarse)
    queries = (
        query if isinstance(query, Queries) else Queries.prepare(candidates.geometry, query, coarse=coarse)
    )
    screened = candidates.screened is not None and queries.screened is not None
    bound = _bound(candidates, queries, threshold, screened)
    block = max(1, min(len(queries), TILE_BYTES // (4 * max(n_rows, LANES))))
    parts: list[tuple[Ids, Ids, Floats]] = []
    for first in range(0, len(queries), block):
        part = slice(first, first + block)
        some = queries.select(np.arange(*part.indices(len(queries)))) if block < len(queries) else queries
        parts.append(
            _collect(
                candidates.geometry is Geometry.DOT,
                _tile(candidates, some, screened),
                bound.of(part),
                some.row,
                some.place,
                candidates.row,
                threshold[part],
                excluded_start[part],
                excluded_end[part],
                excluded_id,
                offset,
            )
        )
    if not parts:
        return Outrankers(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0))
    size, column, score = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    return Outrankers(np.append(0, np.cumsum(size)), column, score)


def _bound(candidates: Candidates, queries: Queries, threshold: Floats, screened: bool) -> Bound:
    """For L1 the screened score is minus the distance."""
    n_columns, none_Q = len(candidates.row), np.zeros(len(queries), np.float32)
    one_C, none_C = np.ones(n_columns, np.float32), np.zeros(n_columns, np.float32)
    if not (screened and n_columns):
        return Bound(one_C, none_C, none_C, none_Q, none_Q, np.full(len(queries), -np.inf, np.float32))
    if isinstance(candidates.screened, Coarse) and isinstance(queries.screened, Coarse):
        mine, theirs = candidates.screened, queries.screened
        # Everything in steps of the query; a hair more, since this sum is made in float32.
        inverse = (1 + 1e-6) / theirs.step.astype(np.float64)
        over_error = inverse * (theirs.size + theirs.error)
        over_norm = inverse * (theirs.error + 1e-6 * theirs.size)
        return Bound(
            mine.step,
            mine.error,
            mine.size,
            narrow_towards(over_error, np.inf),
            narrow_towards(over_norm, np.inf),
            narrow_towards(threshold / theirs.step, -np.inf),
        )
    low, high = band(candidates, queries.size, threshold, 0, n_columns)
    return Bound(one_C, none_C, none_C, none_Q, none_Q, low if candidates.geometry is Geometry.DOT else -high)


def _tile(candidates: Candidates, queries: Queries, screened: bool) -> Array:
    """[Q, C] screened scores; zeros, which pass any -inf bound, where nothing is screened."""
    shape = len(queries), len(candidates.row)
    if not screened:
        return np.zeros(shape, np.float32)
    mine, theirs = candidates.screened, queries.screened
    if isinstance(mine, Coarse) and isinstance(theirs, Coarse):
        return coarse_products(theirs, mine, _memory(*shape).view(torch.int32))
    if isinstance(mine, torch.Tensor):
        return torch.mm(torch.from_numpy(theirs), mine.T, out=_memory(*shape)).numpy()
    tile = np.empty((len(queries), len(mine) * LANES), np.float32)  # type: ignore[arg-type]
    _negated_distances(mine, theirs, tile)
    return tile[:, : len(candidates.row)]


def _memory(n_queries: int, n_columns: int) -> torch.Tensor:
    global _buffer  # noqa: PLW0603  (a cache of memory, not of results)
    if _buffer.numel() < n_queries * n_columns:
        _buffer = torch.empty(n_queries * n_columns)
    return _buffer[: n_queries * n_columns].view(n_queries, n_columns)


@njit(cache=True, parallel=True, fastmath=FAST)
def _negated_distances(blocks, query, tile):
    for q in prange(query.shape[0]):
        for b in range(blocks.shape[0]):
            line = tile[q, b * LANES : (b + 1) * LANES]
            line[:] = 0
            for i in range(query.shape[1]):
                value = query[q, i]
                for lane in range(LANES):
                    line[lane] -= abs(value - blocks[b, i, lane])


def _collect(is_dot, tile, bound, query, place, row, threshold, start, end, excluded, offset):
    possible = np.empty((len(place), -(-tile.shape[1] // LANES)), np.int32)
    _count_possible(tile, *bound, possible)  # type: ignore[call-arg]
    at = np.append(0, np.cumsum(possible.sum(1)))
    column, score = np.empty(at[-1], np.int64), np.empty(at[-1])
    size = np.empty(len(place), np.int64)
    asked = query, place, row, threshold, start, end, excluded, offset
    _fill(is_dot, tile, *bound, possible, *asked, at, column, score, size)  # type: ignore[call-arg]
    total = size.sum()
    if total < at[-1]:
        _close_up(at, size, column, score)
    return size, column[:total], score[:total]


@njit(cache=True)
def _may_outrank(tile, step, error, norm, over_error, over_norm, low):
    return np.float32(tile) * step + over_error * error + over_norm * norm >= low


@njit(cache=True)
def _number(tile, step, error, norm, over_error, over_norm, low):
    """How many columns may outrank: counted side by side, because few do."""
    number = np.int32(0)
    for c in range(tile.shape[0]):
        number += np.int32(_may_outrank(tile[c], step[c], error[c], norm[c], over_error, over_norm, low))
    return number


@njit(cache=True, parallel=True)
def _count_possible(tile, step, error, norm, over_error, over_norm, low, possible):
    for q in prange(tile.shape[0]):
        for block in range(possible.shape[1]):
            own = slice(block * LANES, block * LANES + LANES)
            possible[q, block] = _number(
                tile[q, own], step[own], error[own], norm[own], over_error[q], over_norm[q], low[q]
            )


@njit(cache=True, parallel=True)
def _fill(
    is_dot,
    tile,
    step,
    error,
    norm,
    over_error,
    over_norm,
    low,
    possible,
    query,
    place,
    row,
    threshold,
    start,
    end,
    excluded,
    offset,
    at,
    column,
    score,
    size,
):
    for q in prange(tile.shape[0]):
        slot = at[q]
        for block in range(possible.shape[1] if at[q + 1] > slot else 0):
            if possible[q, block] == 0:
                continue
            for c in range(block * LANES, min(block * LANES + LANES, tile.shape[1])):
                if _may_outrank(
                    tile[q, c], step[c], error[c], norm[c], over_error[q], over_norm[q], low[q]
                ) and not is_known(excluded, start[q], end[q], c + offset):
                    value = exact(is_dot, query[place[q]], row[c])
                    if not value <= threshold[q]:  # a NaN is kept, so that its owner can refuse it
                        column[slot] = c
                        score[slot] = value
                        slot += 1
        size[q] = slot - at[q]


@njit(cache=True)
def _close_up(at, size, column, score):
    """Each query wrote its outrankers to the front of its share: move the shares together."""
    slot = 0
    for q in range(len(size)):
        for p in range(at[q], at[q] + size[q]):
            column[slot] = column[p]
            score[slot] = score[p]
            slot += 1
