"""L1 distances by sums of bytes: the band holds, both ways of adding agree, and no count changes by them."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from meor.backbone.base import Geometry
from meor.search.byte_rows import GROUP, LANES, ByteRows, is_wide, plain_sums, wide_sums
from meor.search.counting import count_range
from meor.search.exact import exact_scores
from meor.search.queries import Known, Queries
from meor.search.screen import Candidates


@numba.njit
def _plain(query, block, found):
    plain_sums(query, block, found)


@numba.njit
def _wide(query, block, found):
    wide_sums(query, block, found)


def rows_of(count: int, width: int, seed: int, spread: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.3, spread, (count, width))


def test_sums_of_bytes_are_distances_on_the_grid() -> None:
    made = ByteRows.of(rows_of(70, 13, 0))
    words, _ = made.words_of(rows_of(3, 13, 1), np.arange(3))
    found = np.empty(LANES, np.int64)
    _plain(words[2], made.byte[1], found)
    block = made.byte[1].reshape(-1, LANES, GROUP).transpose(1, 0, 2).reshape(LANES, -1).astype(int)
    asked = words[2].view(np.uint8).astype(int)
    assert (found == np.abs(block - asked).sum(1)).all()


@pytest.mark.skipif(not is_wide(), reason="this machine has no AVX-512BW, so the plain loop is what is used")
@pytest.mark.parametrize("width", [1, 8, 200, 333])
def test_the_wide_instruction_adds_what_the_plain_loop_adds(width: int) -> None:
    made = ByteRows.of(rows_of(2 * LANES, width, 2))
    words, _ = made.words_of(rows_of(5, width, 3, spread=9.0), np.arange(5))
    for query in words:
        for block in made.byte:
            plain, wide = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
            _plain(query, block, plain)
            _wide(query, block, wide)
            assert (plain == wide).all()


@pytest.mark.parametrize("spread", [1e-6, 1.0, 1e6])
def test_the_band_holds_whatever_the_rows_look_like(spread: float) -> None:
    row, query = rows_of(LANES, 50, 4), rows_of(20, 50, 5, spread)  # far queries leave the grid
    row[3] *= 1000.0
    made = ByteRows.of(row)
    words, error = made.words_of(query, np.arange(20))
    for q in range(20):
        found = np.empty(LANES, np.int64)
        _plain(words[q], made.byte[0], found)
        distance = np.abs(query[q] - row).sum(1)
        assert (np.abs(distance - made.grid.step * found) <= (error[q] + made.error) * (1 + 1e-9)).all()


@pytest.mark.parametrize("noise", [0.0, 0.5, 3.0])
def test_counts_are_those_of_exact_scores(noise: float) -> None:
    row = rows_of(300, 40, 6)
    row[200:220] = row[:20]  # ties
    answer = np.arange(150)
    query = row[answer] + noise * rows_of(150, 40, 7)
    known = Known(np.zeros(150, np.int64), np.full(150, 2), np.array([11, 250]))
    threshold = exact_scores(Geometry.L1, query, row, answer)
    asked = Queries.prepare(Geometry.L1, query, answer, known, threshold)
    candidates = Candidates.prepare(Geometry.L1, row, counted=True)
    assert isinstance(candidates.screened, ByteRows)
    for begin, end in ((0, 300), (17, 230), (299, 300)):
        found, _ = count_range(candidates, asked, begin, end)
        plain, _ = count_range(Candidates.prepare(Geometry.L1, row, screen=False), asked, begin, end)
        assert (found == plain).all()
    assert noise or found.sum() == 0
