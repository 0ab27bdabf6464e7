"""The k best candidates, against sorting everything."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from meor.backbone import Backbone, Geometry
from meor.backbone.base import Scoring
from meor.errors import NonFiniteError
from meor.search.exact import exact_columns
from meor.search.queries import Known
from meor.search.screen import Candidates
from meor.search.top import NOBODY, top
from meor.typing import Side


class L2(Backbone):
    name = "l2"

    def width(self, dim: int) -> int:
        return dim

    def query(self, anchor_QW: Tensor, relation_QW: Tensor, side: Side) -> Tensor:
        return anchor_QW + relation_QW if side is Side.TAIL else anchor_QW - relation_QW

    def compare(self, query_QW: Tensor, candidate_QW: Tensor) -> Tensor:
        return -torch.linalg.vector_norm(query_QW - candidate_QW, dim=-1)


def plain_top(
    scoring: Scoring, row: np.ndarray, query: np.ndarray, out: list[np.ndarray], k: int, universe: int
) -> np.ndarray:
    """What is meant: everyone scored exactly, sorted by score, then by id."""
    every = np.tile(np.arange(universe), (len(query), 1))
    score = exact_columns(scoring, query, row, every)
    found = np.full((len(query), k), NOBODY)
    for q in range(len(query)):
        ids = np.setdiff1d(np.arange(universe), out[q])
        order = ids[np.lexsort((ids, -score[q, ids]))][:k]
        found[q, : len(order)] = order
    return found


def known_of(out: list[np.ndarray]) -> Known:
    ends = np.cumsum([0, *map(len, out)])
    return Known(ends[:-1], ends[1:], np.concatenate([np.zeros(0, np.int64), *out]).astype(np.int64))


@pytest.mark.parametrize("scoring", [Geometry.DOT, Geometry.L1])
@pytest.mark.parametrize(("n", "width", "k"), [(5, 4, 9), (64, 8, 1), (700, 16, 10), (1500, 70, 33)])
@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e60])
def test_top_is_the_sorted_list(scoring: Geometry, n: int, width: int, k: int, scale: float) -> None:
    rng = np.random.default_rng([n, width, k])
    row = rng.normal(size=(n, width)) * scale
    row[n // 2 :: 3] = row[0]  # exact ties, decided by id
    row[1::7] = row[0] * (1 + 1e-12)  # and scores that float32 cannot tell apart
    query = rng.normal(size=(13, width)) * scale
    query[1] = row[0]
    out = [np.sort(rng.choice(n, size=rng.integers(0, n), replace=False)) for _ in query]
    made = Candidates.prepare(scoring, row)
    for universe in (n, n // 2 + 1):
        found, score = top(made, query, known_of(out), min(k, universe), universe)
        wanted = plain_top(scoring, row, query, out, min(k, universe), universe)
        np.testing.assert_array_equal(found, wanted)
        exactly = exact_columns(scoring, query, row, found)
        np.testing.assert_array_equal(score[found >= 0], exactly[found >= 0])
    alone, _ = top(made, query[4:5], known_of(out[4:5]), min(k, n), n)
    np.testing.assert_array_equal(alone[0], plain_top(scoring, row, query[4:5], out[4:5], min(k, n), n)[0])


def test_any_backbone_can_be_asked() -> None:
    rng = np.random.default_rng(0)
    row, query = rng.normal(size=(300, 6)), rng.normal(size=(5, 6))
    out = [np.arange(q) for q in range(5)]
    found, _ = top(Candidates.prepare(L2(), row), query, known_of(out), 7, 280)
    np.testing.assert_array_equal(found, plain_top(L2(), row, query, out, 7, 280))


def test_a_score_that_is_no_number_is_refused() -> None:
    row = np.ones((9, 4))
    row[3] = np.nan
    none = [np.zeros(0, np.int64)]
    with pytest.raises(NonFiniteError):
        top(Candidates.prepare(Geometry.DOT, row), np.ones((1, 4)), known_of(none), 9, 9)


def test_threads_change_nothing() -> None:
    from meor.compiled import set_threads

    rng = np.random.default_rng(1)
    row, query = rng.normal(size=(2000, 32)), rng.normal(size=(64, 32))
    made = Candidates.prepare(Geometry.DOT, torch.from_numpy(row).numpy())
    none = known_of([np.zeros(0, np.int64)] * 64)
    alone = top(made, query, none, 10, 2000)
    try:
        set_threads(2)
        shared = top(made, query, none, 10, 2000)
    finally:
        set_threads(1)
    np.testing.assert_array_equal(alone[0], shared[0])
    np.testing.assert_array_equal(alone[1], shared[1])
