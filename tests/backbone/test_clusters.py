"""Pruning skips only what cannot outrank: the result is the unpruned one, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from meor.backbone import Geometry
from meor.backbone.clusters import Clusters, pruned_outrankers
from meor.backbone.outrankers import outrankers
from meor.backbone.screen import Candidates, exact_scores


def crowd(
    rng: np.random.Generator, width: int, copies: int = 30, kinds: int = 40, noise: float = 0.05
) -> np.ndarray:
    rows = np.repeat(rng.normal(size=(kinds, width)), copies, 0)
    return rng.permutation(rows + noise * rng.normal(size=rows.shape))


@pytest.mark.parametrize("geometry", list(Geometry))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pruned_outrankers_are_the_unpruned_ones(geometry: Geometry, dtype: type) -> None:
    scored = total = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        row = crowd(rng, 12, noise=(0.0, 0.05, 1.0)[seed % 3]).astype(dtype)
        clusters = Clusters.build(row, leaf=16)
        if seed % 2:  # rows move after membership was fixed
            row = (row + rng.normal(0, 0.2, row.shape)).astype(dtype)
        wide = row.astype(np.float64)
        query = rng.normal(size=(25, 12))
        every = exact_scores(geometry, np.repeat(query, len(row), 0), wide, np.tile(np.arange(len(row)), 25))
        # An answer that stands high, as learned ones do, and ties with a row exactly.
        threshold = np.sort(every.reshape(25, -1), 1)[:, -rng.integers(1, 20)]
        known = np.sort(rng.choice(len(row), 40, replace=False)) + 500
        bounds = np.zeros(25, np.int64), np.full(25, 40)
        mine, pairs = pruned_outrankers(clusters, geometry, row, query, threshold, *bounds, known, offset=500)
        plain = outrankers(Candidates.prepare(geometry, wide), query, threshold, *bounds, known, offset=500)
        np.testing.assert_array_equal(mine.start, plain.start)
        np.testing.assert_array_equal(mine.column, plain.column)
        np.testing.assert_array_equal(mine.score, plain.score)
        scored, total = scored + pairs, total + len(row) * 25
    assert scored < 0.7 * total  # and something was skipped


def test_every_row_is_in_one_small_ball() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 5, 64, 65, 1000):
        clusters = Clusters.build(rng.normal(size=(n, 6)), leaf=16)
        np.testing.assert_array_equal(np.sort(clusters.member), np.arange(n))
        assert np.diff(clusters.start).max() <= 16
        assert np.diff(clusters.start).min() >= 1
