"""Sides and splits by name."""

from __future__ import annotations

import pytest

from meor.errors import ConfigError
from meor.typing import SIDES, SPLITS, Side, Split


def test_a_side_or_split_is_found_by_its_name_and_stays_what_it_is() -> None:
    assert [Side.of(name) for name in ("head", "TAIL")] == list(SIDES)
    assert [Side.of(side) for side in SIDES] == list(SIDES)
    assert Split.each(["train", Split.VALID, "test"]) == SPLITS
    assert Split.each("valid") == (Split.VALID,)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'left'.*head or tail"):
        Side.of("left")
    with pytest.raises(ConfigError, match=r"'dev'.*train, valid or test"):
        Split.of("dev")
