"""The score of a pair, exactly, and who does not compete.

Where a geometry is declared, the score is *defined* as a float64 sum in one fixed order (`_exact_dot`,
`_exact_distance`), so it depends on the two rows alone, never on a tile's shape. Any other backbone is called
with tiles of one fixed, padded shape, for answers and candidates alike: so the shape cannot make or hide a
tie there either (decision 10).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from meor.backbone.base import Backbone, Geometry, Scoring
from meor.compiled import fast_part, kernel, kernel_part, share
from meor.typing import Floats, Ids

Array = NDArray[Any]

TILE_ROWS: Final = 256  # candidates of a tile: few, because a tile of answers is filled up to as many
CACHED_NUMBERS: Final = 2**17  # coordinates of the rows that a core keeps at hand
TILE_NUMBERS: Final = 2**21  # coordinates that a plain comparison of a tile's pairs takes


@fast_part
def _exact_dot(query, row):
    total = 0.0
    for i in range(query.shape[0]):
        total += query[i] * row[i]
    return total


@fast_part
def _exact_distance(query, row):
    total = 0.0
    for i in range(query.shape[0]):
        total += abs(query[i] - row[i])
    return total


@kernel_part
def exact(is_dot, query, row):
    """The score of a pair, up to TransE's constant."""
    return _exact_dot(query, row) if is_dot else -_exact_distance(query, row)


@kernel
def _exact_pairs(begin, end, is_dot, query, row, column, score):
    for q in range(begin, end):
        score[q] = exact(is_dot, query[q], row[column[q]])


@kernel
def _exact_columns(begin, end, is_dot, query_QW, row_EW, column_QK, score_QK):
    # Some rows at a time, which then stay in the cache: to look through the columns again is much cheaper
    # than to fetch the same row for every query.
    tile = max(1, CACHED_NUMBERS // max(row_EW.shape[1], 1))
    for first in range(0, row_EW.shape[0], tile):
        for q in range(begin, end):
            for k in range(column_QK.shape[1]):
                if first <= column_QK[q, k] < first + tile:
                    score_QK[q, k] = exact(is_dot, query_QW[q], row_EW[column_QK[q, k]])


def exact_scores(scoring: Scoring, query: Array, row: Array, column: Ids) -> Floats:
    """Defined float64 scores (TransE: minus the distance) of each query against its own candidate."""
    score = np.empty(len(query), np.float64)
    if isinstance(scoring, Geometry):
        share(_exact_pairs, len(query), scoring is Geometry.DOT, query, row, column, score)
        return score
    size, _ = _tile_shape(row.shape[1])
    for first in range(0, len(query), size):
        part = slice(first, first + size)
        score[part] = np.diagonal(_tile(scoring, query[part], row[column[part]]))
    return score


def exact_columns(scoring: Scoring, query_QW: Array, row_EW: Array, column_QK: Array) -> Floats:
    """Scores of each query against its own list of candidates; an id of -1 means none and scores 0.

    No rank depends on them, so a backbone without a geometry need not use the fixed tiles.
    """
    score_QK = np.zeros(column_QK.shape)
    if isinstance(scoring, Geometry):
        is_dot = scoring is Geometry.DOT
        share(_exact_columns, len(query_QW), is_dot, query_QW, row_EW, column_QK, score_QK)
        return score_QK
    size = max(1, TILE_NUMBERS // max(1, column_QK.shape[1] * row_EW.shape[1]))
    for first in range(0, len(query_QW), size):
        part = slice(first, first + size)
        rows = torch.from_numpy(row_EW[np.maximum(column_QK[part], 0)])
        with torch.no_grad():
            found = scoring.compare(torch.from_numpy(query_QW[part])[:, None], rows).numpy()
        score_QK[part] = np.where(column_QK[part] >= 0, found, 0.0)
    return score_QK


def tiles(backbone: Backbone, query_QW: Array, row_EW: Array) -> Iterator[tuple[slice, slice, Floats]]:
    """The scores of all pairs: slices of queries and of rows, and their scores, by queries first."""
    n_queries, n_rows = _tile_shape(row_EW.shape[1])
    query_QW = _aligned(query_QW)
    for query in range(0, len(query_QW), n_queries):
        own = slice(query, min(query + n_queries, len(query_QW)))
        for first in range(0, len(row_EW), n_rows):
            part = slice(first, min(first + n_rows, len(row_EW)))
            yield own, part, _tile(backbone, query_QW[own], row_EW[part])


def _tile_shape(width: int) -> tuple[int, int]:
    return int(np.clip(TILE_NUMBERS // (TILE_ROWS * max(width, 1)), 1, 256)), TILE_ROWS


def _aligned(rows: Array) -> Array:
    """A copy where torch wants it: rows that numpy has placed take half as long again to compare."""
    return np.asarray(torch.from_numpy(rows).clone().numpy())


def _filled_up(rows: Array, size: int) -> torch.Tensor:
    """As many rows as asked for, the last ones being copies of the first."""
    given = torch.from_numpy(rows)
    missing = size - len(rows)
    return torch.cat([given, given[:1].expand(missing, -1)]) if missing else given


def _tile(backbone: Backbone, query_QW: Array, row_EW: Array) -> Floats:
    """[Q, E] scores, computed in the fixed shape."""
    shape = _tile_shape(row_EW.shape[1])
    query, row = (_filled_up(rows, size) for rows, size in zip((query_QW, row_EW), shape, strict=True))
    with torch.no_grad():
        score = backbone.compare_all(query, row).double().numpy()
    if score.shape != shape:
        raise TypeError(
            f"{backbone.name} gave scores of shape {score.shape} for {shape[0]} queries and {shape[1]} "
            "candidates. Return one row per query and one column per candidate."
        )
    return np.asarray(score[: len(query_QW), : len(row_EW)])


@kernel_part
def is_known(known_id, begin, end, candidate):
    while begin < end:
        middle = (begin + end) // 2
        if known_id[middle] < candidate:
            begin = middle + 1
        elif known_id[middle] > candidate:
            end = middle
        else:
            return True
    return False


@kernel_part
def first_from(known_id, known, last, candidate):
    """The first known answer that is not below a candidate. Both ascend, so a cursor replaces a search."""
    while known < last and known_id[known] < candidate:
        known += 1
    return known
