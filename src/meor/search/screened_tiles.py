"""Screened scores of queries against candidates, and who among them cannot outrank the answer.

In bytes (inner products: `Coarse`, L1 distances: `ByteRows`) or in float32. What passes is scored exactly.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from meor.backbone.base import Geometry
from meor.compiled import fast_kernel, kernel, kernel_part, share
from meor.search.byte_rows import LANES, ByteRows, sums_of_bytes
from meor.search.exact import Array
from meor.search.queries import Queries
from meor.search.screen import Candidates, Coarse, band, coarse_products, narrow_towards

_buffer = torch.empty(0)
"""The last score tile's memory: fresh pages for every tile would cost as much as its product."""


class Bound(NamedTuple):
    """A candidate with `tile * step + over_error * error + over_norm * norm < low` cannot outrank."""

    step: Array  # [C] float32, of the columns
    error: Array
    norm: Array
    over_error: Array  # [Q] float32
    over_norm: Array
    low: Array


@kernel_part
def may_outrank(score, c, bound, over_error, over_norm, low):
    return np.float32(score) * bound.step[c] + over_error * bound.error[c] + over_norm * bound.norm[c] >= low


def bound_of(candidates: Candidates, queries: Queries, screened: bool) -> Bound:
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
            narrow_towards(queries.threshold / theirs.step, -np.inf),
        )
    if isinstance(candidates.screened, ByteRows):
        rows, needed = candidates.screened, -queries.threshold
        _, error = rows.words_of(queries.row, queries.place)
        farthest = needed + rows.slack(error, queries.size, candidates.size.max(), needed)
        return Bound(
            one_C, none_C, none_C, none_Q, none_Q, narrow_towards(-farthest / rows.grid.step, -np.inf)
        )
    low, high = band(candidates, queries.size, queries.threshold, 0, n_columns)
    return Bound(one_C, none_C, none_C, none_Q, none_Q, low if candidates.scoring is Geometry.DOT else -high)


def screened_tile(candidates: Candidates, queries: Queries, part: slice, screened: bool) -> Array:
    """[Q, C] screened scores; zeros, which pass any -inf bound, where nothing is screened."""
    shape = part.stop - part.start, len(candidates.row)
    if not screened:
        return np.zeros(shape, np.float32)
    mine, theirs = candidates.screened, queries.screened
    if isinstance(mine, Coarse) and isinstance(theirs, Coarse):
        some = theirs if shape[0] == len(queries) else theirs.take(np.arange(part.start, part.stop))
        return coarse_products(some, mine, _memory(*shape).view(torch.int32))
    narrow = theirs[part]  # type: ignore[index]
    if isinstance(mine, torch.Tensor):
        return torch.mm(torch.from_numpy(narrow), mine.T, out=_memory(*shape)).numpy()
    tile = _memory(shape[0], -(-shape[1] // LANES) * LANES).numpy()
    if isinstance(mine, ByteRows):
        words, _ = mine.words_of(queries.row, queries.place[part])
        share(_negated_sums, shape[0], mine.byte, words, tile)
    else:
        share(negated_distances, shape[0], mine, narrow, tile)
    return tile[:, : shape[1]]


def _memory(n_queries: int, n_columns: int) -> torch.Tensor:
    global _buffer  # noqa: PLW0603  (a cache of memory, not of results)
    if _buffer.numel() < n_queries * n_columns:
        _buffer = torch.empty(n_queries * n_columns)
    return _buffer[: n_queries * n_columns].view(n_queries, n_columns)


@fast_kernel
def negated_distances(begin, end, blocks, query, tile):
    for q in range(begin, end):
        for b in range(blocks.shape[0]):
            line = tile[q, b * LANES : (b + 1) * LANES]
            line[:] = 0
            for i in range(query.shape[1]):
                value = query[q, i]
                for lane in range(LANES):
                    line[lane] -= abs(value - blocks[b, i, lane])


@kernel
def _negated_sums(begin, end, blocks, words, tile):
    """Distances in steps of the grid: whole numbers that float32 holds exactly."""
    total = np.empty(LANES, np.int64)
    for q in range(begin, end):
        for b in range(blocks.shape[0]):
            sums_of_bytes(words[q], blocks[b], total)
            for lane in range(LANES):
                tile[q, b * LANES + lane] = -total[lane]
