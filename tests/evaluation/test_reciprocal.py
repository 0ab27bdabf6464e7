from __future__ import annotations

import math

import numpy as np
import pytest

from meor.evaluation.reciprocal import sum_of_reciprocals


@pytest.mark.parametrize("highest", [1, 3, 50, 20_000])
@pytest.mark.parametrize("halves", [False, True])
def test_the_sum_is_that_of_fsum_to_the_bit(highest: int, halves: bool) -> None:
    rng = np.random.default_rng(highest)
    for size in (1, 2, 7, 1000, 4001):
        rank = rng.zipf(1.3, size).clip(1, highest)
        rank = rank / 2 + 1 if halves else rank
        assert sum_of_reciprocals(rank) == math.fsum((1.0 / rank).tolist())


def test_many_equal_ranks_are_added_exactly() -> None:
    """A plain product would round: 3 * fl(1/3) is 1, and the exact sum is less."""
    rank = np.repeat(np.array([3, 7, 11]), [99_999, 12_345, 77_777])
    assert sum_of_reciprocals(rank) == math.fsum((1.0 / rank).tolist())
