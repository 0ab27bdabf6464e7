"""Screening decides nothing on its own: what it yields is what the float64 scores say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from meor.backbone import Geometry
from meor.search.counting import count_range
from meor.search.exact import exact_scores
from meor.search.outrankers import outrankers
from meor.search.queries import Known, Queries
from meor.search.screen import (
    LANES,
    TILE_CANDIDATES,
    Candidates,
    Coarse,
    coarse_products,
    integers_are_exact,
)

GEOMETRIES = list(Geometry)


@dataclass
class Questions:
    query: np.ndarray
    answer: np.ndarray
    known: Known

    def __len__(self) -> int:
        return len(self.query)

    def prepared(self, geometry: Geometry, threshold: np.ndarray, coarse: bool = False) -> Queries:
        return Queries.prepare(geometry, self.query, self.answer, self.known, threshold, coarse=coarse)


def questions_of(
    rng: np.random.Generator, n_queries: int, n_rows: int, width: int, scale: float
) -> Questions:
    known = [np.unique(rng.integers(0, n_rows, rng.integers(0, 6))) for _ in range(n_queries)]
    sizes = np.array([len(part) for part in known])
    end = np.cumsum(sizes)
    return Questions(
        rng.normal(0, scale, (n_queries, width)),
        rng.integers(0, n_rows, n_queries),
        Known(end - sizes, end, np.concatenate(known).astype(np.int64)),
    )


def all_scores(geometry: Geometry, query: np.ndarray, row: np.ndarray) -> np.ndarray:
    column = np.tile(np.arange(len(row)), len(query))
    return exact_scores(geometry, np.repeat(query, len(row), 0), row, column).reshape(len(query), len(row))


def competitors(asked: Questions, n_rows: int) -> np.ndarray:
    eligible = np.ones((len(asked), n_rows), bool)
    for q in range(len(asked)):
        eligible[q, asked.known.id[asked.known.start[q] : asked.known.end[q]]] = False
        eligible[q, asked.answer[q]] = False
    return eligible


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e12, 1e30])
@pytest.mark.parametrize("width", [1, 7, 40, 200])
def test_counts_are_those_of_the_float64_scores(geometry: Geometry, scale: float, width: int) -> None:
    rng = np.random.default_rng(width)
    row = rng.normal(0, scale, (300, width))
    row[50:60] = row[40:50]  # exact ties
    row[100:150] = row[99] * (1 + 1e-9 * rng.normal(size=(50, 1)))  # closer than float32 can tell
    asked = questions_of(rng, 40, 300, width, scale)
    asked.answer[:20] = rng.integers(40, 60, 20)
    asked.answer[20:30] = rng.integers(99, 150, 10)
    score = all_scores(geometry, asked.query, row)
    threshold = score[np.arange(40), asked.answer]
    eligible = competitors(asked, 300)
    for begin, end in ((0, 300), (0, 97), (97, 300), (0, 0), (64, 65)):
        tally, _ = count_range(
            Candidates.prepare(geometry, row, counted=True), asked.prepared(geometry, threshold), begin, end
        )
        inside = eligible.copy()
        inside[:, :begin] = inside[:, end:] = False
        tied = (score == threshold[:, None]) & inside
        before = np.arange(300) < asked.answer[:, None]
        np.testing.assert_array_equal(tally[:, 0], ((score > threshold[:, None]) & inside).sum(1))
        np.testing.assert_array_equal(tally[:, 1], (tied & before).sum(1))
        np.testing.assert_array_equal(tally[:, 2], (tied & ~before).sum(1))


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e12, 1e30])
@pytest.mark.parametrize("width", [24, 64, 400])
@pytest.mark.parametrize("coarse", [False, True])
def test_outrankers_are_exactly_those_above_the_threshold(
    geometry: Geometry, scale: float, width: int, coarse: bool
) -> None:
    rng = np.random.default_rng(3)
    offset = 1000
    row = rng.normal(0, scale, (150, width))
    row[10:20] = row[20:30]
    row[40:60] = row[39] * (1 + 1e-9 * rng.normal(size=(20, 1)))  # closer than any screen can tell
    row[60:70] *= np.exp(rng.normal(0, 3, (10, width)))  # a few coordinates far above the rest
    row[70] = 0
    asked = questions_of(rng, 30, 150, width, scale)
    asked.answer[:10] = rng.integers(39, 60, 10)
    score = all_scores(geometry, asked.query, row)
    threshold = score[np.arange(30), asked.answer]
    eligible = competitors(asked, 150)
    asked.known = Known(asked.known.start, asked.known.end, asked.known.id + offset)
    candidates = Candidates.prepare(geometry, row, coarse=coarse)
    found = outrankers(candidates, asked.prepared(geometry, threshold, coarse), offset=offset)
    for q in range(30):
        expected = np.flatnonzero((score[q] > threshold[q]) & eligible[q])
        mine = slice(found.start[q], found.start[q + 1])
        np.testing.assert_array_equal(found.column[mine], expected)
        np.testing.assert_array_equal(found.score[mine], score[q, expected])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_bytes_bound_every_score(scale: float) -> None:
    rng = np.random.default_rng(9)
    row, query = rng.normal(0, scale, (400, 200)), rng.standard_t(2, (70, 200))
    mine, theirs = Coarse.of(row), Coarse.of(query)
    score = query @ row.T
    product = (theirs.byte.double() @ mine.byte.double().T).numpy()
    rounded = theirs.step[:, None].astype(float) * mine.step * product
    slack = (theirs.size + theirs.error)[:, None] * mine.error + theirs.error[:, None] * mine.size
    assert (np.abs(score - rounded) <= slack).all()
    assert (slack < 0.1 * theirs.size[:, None] * mine.size).all()  # and it is worth something


def test_a_row_that_is_no_number_is_not_screened() -> None:
    row = np.random.default_rng(0).normal(size=(300, 64))
    for bad in (np.nan, np.inf):
        row[7, 5] = bad
        assert Candidates.prepare(Geometry.DOT, row, coarse=True).screened is None
        assert Candidates.prepare(Geometry.DOT, row).screened is None


@pytest.mark.skipif(not integers_are_exact(), reason="products of bytes are not exact or not fast here")
@pytest.mark.parametrize("shape", [(1, 64, 1), (1, 400, 300), (7, 65, 2), (186, 400, 1), (64, 1024, 33)])
def test_products_of_bytes_are_exact(shape: tuple[int, int, int]) -> None:
    n_queries, width, n_rows = shape
    rng = np.random.default_rng(1)
    query, row = (Coarse.of(rng.choice([-1.0, 1.0], (n, width))) for n in (n_queries, n_rows))
    out = torch.empty(n_queries, n_rows, dtype=torch.int32)
    expected = query.byte.int() @ row.byte.int().T
    assert (torch.from_numpy(coarse_products(query, row, out)) == expected).all()


@pytest.mark.parametrize("width", [8, 96])
def test_rows_that_move_are_narrowed_into_the_same_memory_at_every_step(width):
    """A tensor made from the array of the one before would keep all of them alive: 1 KB a step."""
    draw = np.random.default_rng(0)
    first = Candidates.prepare(Geometry.DOT, draw.normal(size=(20, width)), coarse=True)
    moved = draw.normal(size=(20, width))
    second = Candidates.prepare(Geometry.DOT, moved, coarse=True, into=first)
    assert second.screened is first.screened
    anew = Candidates.prepare(Geometry.DOT, moved, coarse=True)
    kept, made = (part.screened if width == 8 else part.screened.byte for part in (second, anew))
    assert torch.equal(kept, made)
    assert np.array_equal(second.size, anew.size)


def test_lanes_hold_the_rows_and_infinity_behind_them():
    row = np.random.default_rng(1).normal(size=(TILE_CANDIDATES + LANES + 5, 3))
    found = Candidates.prepare(Geometry.L1, row)
    side_by_side = found.screened.transpose(0, 2, 1).reshape(-1, 3)
    assert np.array_equal(side_by_side[: len(row)], row.astype(np.float32))
    assert np.isinf(side_by_side[len(row) :]).all()
    assert (found.size >= np.abs(row).sum(1)).all()  # a bound: rounding may not make it too small
    np.testing.assert_allclose(found.size, np.abs(row).sum(1), rtol=1e-11)
