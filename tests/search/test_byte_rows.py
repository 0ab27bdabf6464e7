"""L1 distances by sums of bytes: the sums are right, the band holds, and no count changes by them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from meor.backbone.base import Geometry
from meor.search.byte_rows import GROUP, LANES, ByteRows, sums_of_bytes
from meor.search.counting import count_range
from meor.search.exact import exact_scores
from meor.search.queries import Known, Queries
from meor.search.screen import Candidates

ROOT = Path(__file__).parents[2]


@numba.njit
def _sums(query, block, found):
    sums_of_bytes(query, block, found)


def rows_of(count: int, width: int, seed: int, spread: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.3, spread, (count, width))


@pytest.mark.parametrize("width", [1, 8, 13, 200, 333, 1025, 2100])
def test_sums_of_bytes_are_distances_on_the_grid(width: int) -> None:
    made = ByteRows.of(rows_of(LANES + 6, width, 0))
    words, _ = made.words_of(rows_of(5, width, 1, spread=9.0), np.arange(5))
    for query in words:
        for part in made.byte:
            found = np.empty(LANES, np.int64)
            _sums(query, part, found)
            block = part.reshape(-1, LANES, GROUP).transpose(1, 0, 2).reshape(LANES, -1).astype(int)
            assert (found == np.abs(block - query.view(np.uint8).astype(int)).sum(1)).all()


def test_a_machine_without_avx_512_adds_the_same() -> None:
    here = "tests/search/test_byte_rows.py::test_sums_of_bytes_are_distances_on_the_grid"
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "200 or 1025", here]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("spread", [1e-6, 1.0, 1e6])
def test_the_band_holds_whatever_the_rows_look_like(spread: float) -> None:
    row, query = rows_of(LANES, 50, 4), rows_of(20, 50, 5, spread)  # far queries leave the grid
    row[3] *= 1000.0
    made = ByteRows.of(row)
    words, error = made.words_of(query, np.arange(20))
    for q in range(20):
        found = np.empty(LANES, np.int64)
        _sums(words[q], made.byte[0], found)
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
