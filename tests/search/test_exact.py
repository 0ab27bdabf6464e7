"""Any score function: asked in tiles of one shape, and what it gives is what counts."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch

from meor.backbone import Backbone, Geometry, TransE
from meor.search.counting import count_range
from meor.search.exact import TILE_ROWS, exact_columns, exact_scores, tiles
from meor.search.outrankers import outrankers
from meor.search.queries import Known, Queries
from meor.search.screen import Candidates


class Euclid(TransE):
    name = "euclid"
    shapes: ClassVar[set[tuple[int, ...]]] = set()

    def compare(self, query_QW: torch.Tensor, candidate_QW: torch.Tensor) -> torch.Tensor:
        return -torch.linalg.vector_norm(query_QW - candidate_QW, dim=-1)

    def compare_all(self, query_QW: torch.Tensor, candidate_EW: torch.Tensor) -> torch.Tensor:
        self.shapes.add((len(query_QW), len(candidate_EW)))
        return super().compare_all(query_QW, candidate_EW)


class Plain(TransE):
    """TransE by its formula, not by its geometry."""

    def compare(self, query_QW: torch.Tensor, candidate_QW: torch.Tensor) -> torch.Tensor:
        return -(query_QW - candidate_QW).abs().sum(-1)


def small_numbers(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, (n, 3)) / 2.0  # dyadic: every sum is exact


def asked(scoring: Geometry | Backbone, row: np.ndarray) -> tuple[Candidates, Queries]:
    query, answer = small_numbers(90, 1), np.arange(90) * 11
    known = Known(np.zeros(90, np.int64), np.full(90, 3), np.array([4, 700, 1500]))
    threshold = exact_scores(scoring, query, row, answer)
    return Candidates.prepare(scoring, row), Queries.prepare(scoring, query, answer, known, threshold)


def test_a_formula_gives_what_its_geometry_gives() -> None:
    row = small_numbers(7 * TILE_ROWS + 32, 0)
    (by_kernel, kernel_asks), (by_formula, formula_asks) = asked(Geometry.L1, row), asked(Plain(), row)
    assert Plain().scoring is not Geometry.L1
    for begin, end in ((0, len(row)), (500, 1400), (7, 7)):
        counted = Candidates.prepare(Geometry.L1, row, counted=True)
        expected, _ = count_range(counted, kernel_asks, begin, end)
        found, healthy = count_range(by_formula, formula_asks, begin, end)
        assert (found == expected).all()
        assert healthy is None or healthy.all()
    expected, found = outrankers(by_kernel, kernel_asks), outrankers(by_formula, formula_asks)
    for name in ("start", "column", "score"):
        assert (getattr(expected, name) == getattr(found, name)).all()
    column = np.random.default_rng(2).integers(-1, len(row), (90, 5))
    scores = [exact_columns(each, small_numbers(90, 1), row, column) for each in (Geometry.L1, Plain())]
    assert (scores[0] == scores[1]).all()


def test_every_tile_has_the_same_shape_and_every_pair_one_score() -> None:
    backbone = Euclid()
    query, row = (np.random.default_rng(seed).normal(size=(n, 7)) for seed, n in ((0, 130), (1, 1100)))
    score = np.empty((130, 1100))
    for own, part, found in tiles(backbone, query, row):
        score[own, part] = found
    column = np.random.default_rng(3).integers(0, 1100, 130)
    assert (exact_scores(backbone, query, row, column) == score[np.arange(130), column]).all()
    assert len(backbone.shapes) == 1


def test_scores_that_are_no_numbers_are_reported() -> None:
    row = small_numbers(50, 0)
    row[20] = np.inf
    query, answer = small_numbers(4, 1), np.arange(4)
    nothing = Known(np.zeros(4, np.int64), np.zeros(4, np.int64), np.empty(0, np.int64))
    queries = Queries.prepare(Euclid(), query, answer, nothing, np.zeros(4))
    candidates = Candidates.prepare(Euclid(), row)
    _, healthy = count_range(candidates, queries, 0, 50)
    assert healthy is not None
    assert not healthy.any()
    assert 20 in outrankers(candidates, queries).column  # kept, so that its owner can refuse it


def test_scores_of_another_shape_are_refused() -> None:
    class Wrong(Euclid):
        def compare_all(self, query_QW: torch.Tensor, candidate_EW: torch.Tensor) -> torch.Tensor:
            return query_QW[:, 0]

    with pytest.raises(TypeError, match="one column per candidate"):
        list(tiles(Wrong(), small_numbers(3, 0), small_numbers(3, 0)))
