"""The k best candidates of each query, exactly.

A product in float32 screens: whoever is further below the k-th screened score than rounding can explain is
out. The few that are left are scored in float64, as everywhere, and ordered by score, then by id.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from meor.backbone.base import Backbone, Geometry
from meor.compiled import kernel, share
from meor.errors import NonFiniteError
from meor.search.byte_rows import LANES
from meor.search.exact import Array, exact, tiles
from meor.search.queries import Known
from meor.search.screen import UNIT32, Candidates, sizes_fit_float32
from meor.search.screened_tiles import negated_distances
from meor.typing import Floats, Ids

TILE_BYTES: Final = 2**25
NOBODY: Final = -1


def top(candidates: Candidates, query_QW: Array, known: Known, k: int, universe: int) -> tuple[Ids, Floats]:
    """[Q, k] ids among the first `universe` rows and their scores, best first; -1 where nobody is left.

    `known` answers do not compete. Scores are those of `exact`: inner products, or minus the L1 distance.
    """
    query_QW = np.ascontiguousarray(query_QW, np.float64)
    best = np.full((len(query_QW), k), NOBODY, np.int64)
    score = np.full((len(query_QW), k), -np.inf)
    if isinstance(candidates.scoring, Backbone):
        _plainly(candidates, query_QW, known, universe, best, score)
    else:
        size = max(1, TILE_BYTES // (4 * max(universe, LANES)))
        for first in range(0, len(query_QW), size):
            part = slice(first, first + size)
            _screened(candidates, query_QW[part], known.select(part), universe, best[part], score[part])
    if np.isnan(score).any() or np.isinf(score[best != NOBODY]).any():
        raise NonFiniteError("A score is NaN or infinite. No answer was given; look at the model's rows.")
    return best, score


def _screened(
    candidates: Candidates, query_QW: Floats, known: Known, universe: int, best: Ids, score: Floats
) -> None:
    is_dot = candidates.scoring is Geometry.DOT
    tile, slack = _tile(candidates, query_QW, universe)
    share(_select, len(query_QW), is_dot, tile, slack, query_QW, candidates.row, known, best, score)


def _tile(candidates: Candidates, query_QW: Floats, universe: int) -> tuple[Array, Floats]:
    """[Q, E] screened scores, and how far each query's may be from the exact ones."""
    size = (
        np.square(query_QW).sum(1) ** 0.5 if candidates.scoring is Geometry.DOT else np.abs(query_QW).sum(1)
    ) * (1 + 1e-12)
    width, rows = query_QW.shape[1], candidates.screened
    if rows is None or not universe or not sizes_fit_float32(size.max(initial=0.0), width):
        return np.zeros((len(query_QW), universe), np.float32), np.full(len(query_QW), np.inf)
    largest = candidates.size[:universe].max()
    roundings = (width + 4) * UNIT32
    relative = roundings / (1 - roundings)
    underflow = 2.0**-120 * (width + size + largest)
    narrow = query_QW.astype(np.float32)
    if isinstance(rows, torch.Tensor):
        return _products(rows[:universe], narrow), relative * size * largest + underflow
    tile = np.empty((len(query_QW), len(rows) * LANES), np.float32)  # type: ignore[arg-type]
    share(negated_distances, len(query_QW), rows, narrow, tile)
    slack = (UNIT32 * 1.01 + 2 * relative) * (size + largest) + underflow
    return np.ascontiguousarray(tile[:, :universe]), slack


def _products(rows: torch.Tensor, narrow: Array) -> Array:
    if len(narrow) == 1:
        return np.asarray(rows.numpy() @ narrow[0])[None]
    return torch.mm(torch.from_numpy(narrow), rows.T).numpy()


def _plainly(
    candidates: Candidates, query_QW: Floats, known: Known, universe: int, best: Ids, score: Floats
) -> None:
    """Any score function: every pair, then the best of them."""
    found = np.full((len(query_QW), universe), -np.inf)
    for own, part, scores in tiles(candidates.scoring, query_QW, candidates.row[:universe]):  # type: ignore[arg-type]
        found[own, part] = scores
    for q in range(len(found)):
        out = known.id[known.start[q] : known.end[q]]
        ids = np.setdiff1d(np.arange(universe), out)
        order = ids[np.lexsort((ids, -found[q, ids]))][: best.shape[1]]
        best[q, : len(order)], score[q, : len(order)] = order, found[q, order]


@kernel
def _exact_order(score, best, size, value, candidate):
    """Insert into the best so far. Candidates come by id, so among equals the earlier stays first."""
    k = len(best)
    if size == k and not value > score[k - 1]:
        return size
    at = size if size < k else k - 1
    while at > 0 and score[at - 1] < value:
        score[at], best[at] = score[at - 1], best[at - 1]
        at -= 1
    score[at], best[at] = value, candidate
    return min(size + 1, k)


@kernel
def _sift(heap, size):
    """Bring the root of a heap whose smallest is first to its place."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[at] <= heap[child]:
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@kernel
def _rise(heap, at):
    """Bring the last of a heap to its place."""
    while at > 0 and heap[(at - 1) // 2] > heap[at]:
        heap[at], heap[(at - 1) // 2] = heap[(at - 1) // 2], heap[at]
        at = (at - 1) // 2


@kernel
def _has(line, begin, end, low):
    """Whether a block holds anything from `low` on: counted side by side, because few do."""
    number = np.int32(0)
    for c in range(begin, end):
        number += np.int32(line[c] >= low)
    return number > 0


@kernel
def _kth(line, k, heap):
    """The k-th largest of a line; minus infinity where it has fewer."""
    size, low = 0, np.float32(-np.inf)
    for begin in range(0, len(line), LANES):
        end = min(begin + LANES, len(line))
        if not _has(line, begin, end, low):
            continue
        for c in range(begin, end):
            if not line[c] > low:
                continue
            if size < k:
                heap[size] = line[c]
                _rise(heap, size)
                size += 1
            else:
                heap[0] = line[c]
                _sift(heap, size)
            low = heap[0] if size == k else low
    return low


@kernel
def _leave_out(line, begin, end, ids):
    for p in range(begin, end):
        if ids[p] < len(line):
            line[ids[p]] = -np.inf


@kernel
def _select(begin, end, is_dot, tile, slack, query, row, known, best, score):
    k, nothing = best.shape[1], np.float32(-np.inf)
    heap = np.empty(k, np.float32)
    for q in range(begin, end):
        line = tile[q]
        _leave_out(line, known.start[q], known.end[q], known.id)
        # Twice the slack for the two scores, once more for rounding the bound itself.
        bound = np.float32(np.float64(_kth(line, k, heap)) - 3 * slack[q])
        size = 0
        for first in range(0, len(line), LANES):
            last = min(first + LANES, len(line))
            if _has(line, first, last, bound):
                for c in range(first, last):
                    if line[c] >= bound and line[c] > nothing:
                        value = exact(is_dot, query[q], row[c])
                        size = _exact_order(score[q], best[q], size, value, c)
