"""Which candidates score above a threshold, and by how much: what the penalty and displacement need.

An entity at or below the answer adds nothing to the pressure and has no gradient (decision 29), so
only outrankers are ever scored in float64.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numba import njit, prange

from meor.backbone.base import Geometry
from meor.backbone.kernels import FAST
from meor.backbone.screen import LANES, Array, Candidates, band, exact, is_known
from meor.typing import Floats, Ids

TILE_BYTES = 2**25

_buffer = torch.empty(0)
"""The last score tile's memory: fresh pages for every tile would cost as much as its product."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Query rows with what screening needs of them; made once where the same ones come again and again."""

    row: Floats  # [Q, W] float64
    narrow: Array  # [Q, W] float32
    size: Floats  # [Q] norms
    screenable: bool  # may all of them be screened?

    @classmethod
    def prepare(cls, geometry: Geometry, row: Array) -> Queries:
        narrowed = Candidates.prepare(geometry, row, lanes=False)
        narrow = np.empty(0, np.float32) if narrowed.screened is None else narrowed.screened
        return cls(narrowed.row, np.asarray(narrow), narrowed.size, narrowed.screened is not None)

    def select(self, index: Ids) -> Queries:
        narrow = self.narrow.take(index, 0) if self.screenable else self.narrow
        return Queries(self.row.take(index, 0), narrow, self.size.take(index), self.screenable)

    def __len__(self) -> int:
        return len(self.row)


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
    queries = query if isinstance(query, Queries) else Queries.prepare(candidates.geometry, query)
    screened = candidates.screened is not None and queries.screenable
    low = _low(candidates, queries, threshold, screened)
    block = max(1, min(len(queries), TILE_BYTES // (4 * max(n_rows, LANES))))
    parts: list[tuple[Ids, Ids, Floats]] = []
    for first in range(0, len(queries), block):
        part = slice(first, first + block)
        tile = _tile(candidates, queries, part, screened)
        parts.append(
            _collect(
                candidates.geometry is Geometry.DOT,
                tile,
                queries.row[part],
                candidates.row,
                threshold[part],
                low[part],
                excluded_start[part],
                excluded_end[part],
                excluded_id,
                offset,
            )
        )
    if not parts:
        return Outrankers(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0))
    size, column, score = (np.concatenate(group) for group in zip(*parts, strict=True))
    return Outrankers(np.append(0, np.cumsum(size)), column, score)


def _low(candidates: Candidates, queries: Queries, threshold: Floats, screened: bool) -> Array:
    """A screened score below this cannot outrank; for L1 the screened score is minus the distance."""
    if not (screened and len(candidates.row)):
        return np.full(len(queries), -np.inf, np.float32)
    low, high = band(candidates, queries.size, threshold, 0, len(candidates.row))
    return low if candidates.geometry is Geometry.DOT else -high


def _tile(candidates: Candidates, queries: Queries, part: slice, screened: bool) -> Array:
    """[Q, C] float32 screened scores; zeros, which pass any -inf bound, where nothing is screened."""
    if not screened:
        return np.zeros((len(queries.row[part]), len(candidates.row)), np.float32)
    narrow = queries.narrow[part]
    if isinstance(candidates.screened, torch.Tensor):
        shape = len(narrow), len(candidates.row)
        return torch.mm(torch.from_numpy(narrow), candidates.screened.T, out=_memory(*shape)).numpy()
    tile = np.empty((len(narrow), len(candidates.screened) * LANES), np.float32)  # type: ignore[arg-type]
    _negated_distances(candidates.screened, narrow, tile)
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


def _collect(is_dot, tile, query, row, threshold, low, start, end, excluded, offset):
    possible = np.empty(len(query), np.int64)
    _count_possible(tile, low, possible)
    at = np.append(0, np.cumsum(possible))
    column, score = np.empty(at[-1], np.int64), np.empty(at[-1])
    size = np.empty(len(query), np.int64)
    _fill(is_dot, tile, query, row, threshold, low, start, end, excluded, offset, at, column, score, size)
    if size.sum() < at[-1]:
        # Each query wrote its outrankers to the front of its share.
        keep = np.arange(at[-1]) - np.repeat(at[:-1], possible) < np.repeat(size, possible)
        column, score = column[keep], score[keep]
    return size, column, score


@njit(cache=True, parallel=True)
def _count_possible(tile, low, possible):
    for q in prange(tile.shape[0]):
        number = np.int32(0)
        for c in range(tile.shape[1]):
            number += np.int32(tile[q, c] >= low[q])
        possible[q] = number


@njit(cache=True, parallel=True)
def _fill(is_dot, tile, query, row, threshold, low, start, end, excluded, offset, at, column, score, size):
    for q in prange(tile.shape[0]):
        slot = at[q]
        if at[q + 1] > slot:
            for c in range(tile.shape[1]):
                if tile[q, c] >= low[q] and not is_known(excluded, start[q], end[q], c + offset):
                    value = exact(is_dot, query[q], row[c])
                    if not value <= threshold[q]:  # a NaN is kept, so that its owner can refuse it
                        column[slot] = c
                        score[slot] = value
                        slot += 1
        size[q] = slot - at[q]
