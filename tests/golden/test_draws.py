"""Ids drawn for pinned addresses, held against files that are written once."""

from __future__ import annotations

import json

import numba
import pytest
from tests.golden.drawn import DRAWN, path_of


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_a_pinned_address_draws_what_it_has_always_drawn(name: str) -> None:
    assert DRAWN[name]() == json.loads(path_of(name).read_text())


def test_threads_do_not_change_a_pinned_draw() -> None:
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        assert DRAWN["references"]() == json.loads(path_of("references").read_text())
        assert DRAWN["scale_samples"]() == json.loads(path_of("scale_samples").read_text())
    finally:
        numba.set_num_threads(before)


def test_the_pinned_references_include_exhausted_cells_and_every_level() -> None:
    found = json.loads(path_of("references").read_text())["matched"]
    levels = {level for row in found["level"] for level in row}
    assert levels >= {0, 1, 2}
    assert any(len(set(drawn)) < len(drawn) for row in found["id"] for drawn in row)
