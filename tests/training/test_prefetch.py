"""Asking for a row changes nothing, of whatever width and type it is."""

from __future__ import annotations

import numpy as np
import pytest

from meor.compiled import kernel
from meor.training.prefetch import prefetch


@kernel
def _ask_for(table):  # type: ignore[no-untyped-def]
    for row in range(table.shape[0]):
        prefetch(table[row])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("width", [0, 1, 7, 200])
def test_rows_stay_as_they_are(width: int, dtype: type) -> None:
    table = np.random.default_rng(0).normal(size=(5, width)).astype(dtype)
    before = table.copy()
    _ask_for(table)
    assert (table == before).all()
