"""Clumps rule rows out together; what remains is, to the bit, what the plain screen finds."""

from __future__ import annotations

import numpy as np
import pytest

from meor.backbone import Geometry
from meor.search.clumps import Clumps
from meor.search.outrankers import outrankers
from meor.search.queries import Known, Queries
from meor.search.screen import Candidates

WIDTH = 96


def clumped(rng: np.random.Generator, n_rows: int, n_clumps: int, noise: float, dtype: type) -> np.ndarray:
    lead = rng.normal(0, 0.4, (n_clumps, WIDTH)) * rng.uniform(0.2, 2, (n_clumps, 1))
    row = lead[rng.integers(0, n_clumps, n_rows)]
    return (row + noise * rng.normal(0, 0.4, row.shape)).astype(dtype)


def asked(rng: np.random.Generator, row: np.ndarray, n_queries: int = 40):
    query = rng.normal(0, 1, (n_queries, WIDTH))
    score = query @ row.T.astype(np.float64)
    threshold = np.quantile(score, rng.uniform(0.5, 1.0, n_queries), axis=1).diagonal().copy()
    threshold[:5] = score[:5].max(1)  # nobody is above
    known = [np.unique(rng.integers(0, len(row), rng.integers(0, 30))) for _ in range(n_queries)]
    end = np.cumsum([len(part) for part in known])
    start = end - [len(part) for part in known]
    of = Known(start, end, np.concatenate(known) + 7)
    return Queries.prepare(Geometry.DOT, query, np.zeros(n_queries, np.int64), of, threshold, coarse=True)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("room", [2**20, 3_000])
def test_outrankers_are_those_of_the_plain_screen(noise: float, dtype: type, room: int) -> None:
    rng = np.random.default_rng(int(100 * noise))
    row = clumped(rng, 6_000, 150, noise, dtype)
    query = asked(rng, row)
    clumps = Clumps.find(row)
    assert clumps is not None
    expected = outrankers(Candidates.prepare(Geometry.DOT, row, coarse=True), query, offset=7)
    for _ in range(2):  # the second search uses the centres that the first one left
        found = clumps.outrankers(row, query, offset=7, room=room)
        assert found is not None
        np.testing.assert_array_equal(found.start, expected.start)
        np.testing.assert_array_equal(found.column, expected.column)
        np.testing.assert_array_equal(found.score, expected.score)
        row = row + dtype(1e-3) * rng.normal(0, 1, row.shape).astype(dtype)  # rows move, clumps stay
        expected = outrankers(Candidates.prepare(Geometry.DOT, row, coarse=True), query, offset=7)


def test_most_pairs_are_never_scored() -> None:
    rng = np.random.default_rng(5)
    row = clumped(rng, 6_000, 150, 0.02, np.float32)
    query = asked(rng, row)
    query = query.asking(np.full(len(query), 3 * np.sqrt(WIDTH) * 0.4))
    clumps = Clumps.find(row)
    assert clumps is not None
    assert clumps.outrankers(row, query, offset=7) is not None
    assert clumps.looked < 0.1
    assert clumps.pays


def test_every_row_is_in_one_clump() -> None:
    row = clumped(np.random.default_rng(6), 6_000, 150, 0.05, np.float32)
    clumps = Clumps.find(row)
    assert clumps is not None
    np.testing.assert_array_equal(np.sort(clumps.member), np.arange(6_000))
    assert clumps.start[-1] == 6_000
    assert len(clumps.centre) < 1_000


def test_scattered_rows_have_no_clumps() -> None:
    assert Clumps.find(np.random.default_rng(7).normal(size=(5_000, WIDTH))) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_rows_that_cannot_be_screened_are_left_to_the_plain_path(bad: float) -> None:
    rng = np.random.default_rng(8)
    row = clumped(rng, 6_000, 150, 0.02, np.float64)
    query = asked(rng, row)
    clumps = Clumps.find(row)
    assert clumps is not None
    row[77, 3] = bad
    assert clumps.outrankers(row, query, offset=7) is None
