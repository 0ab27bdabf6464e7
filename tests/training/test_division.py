"""A division by fused multiply-adds has the bits of a division."""

from __future__ import annotations

import numpy as np

from meor.compiled import fast_kernel
from meor.training.division import divided


@fast_kernel
def _by_one(number, by, out):  # type: ignore[no-untyped-def]
    inverse = 1.0 / by
    for i in range(number.shape[0]):
        out[i] = divided(number[i], by, inverse)


def test_it_is_the_division_of_the_processor_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    number = np.exp(rng.normal(0, 20, 20_000)) * rng.choice([-1, 1], 20_000)
    out = np.empty_like(number)
    # Divisors just below and above a power of 2 have reciprocals that are hard to round.
    near_two = 2.0 - np.arange(1, 30) * 2.0**-52
    for by in (1.0, 3.0, 1e-12, 0.0316, *near_two, *(near_two - 0.5), *np.exp(rng.normal(0, 20, 200))):
        _by_one(number, by, out)
        assert (out == number / by).all(), by


def test_zero_stays_zero() -> None:
    out = np.ones(3)
    _by_one(np.zeros(3), 7.0, out)
    assert (out == 0).all()
