"""P1 and G2: the aggregates, property by property, and against 50 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from tests.properties.lengths import Lengths

from meor.methods.equations import maximum, smooth_pressure

TOLERANCE = 1e-12

number = st.floats(-50, 50, allow_subnormal=False)
gap_lists = st.lists(number, min_size=1, max_size=8)
betas = st.floats(0.01, 20)
holds = Lengths(short=2000, long=20_000)


def smooth(gaps: list[float], beta: float) -> float:
    return float(smooth_pressure(torch.tensor(gaps, dtype=torch.float64), beta))


def tail(gaps: list[float]) -> np.ndarray:
    return np.maximum(np.array(gaps), 0)


@holds(gap_lists, betas)
def test_smooth_lies_between_mean_and_maximum(gaps, beta):
    value = smooth(gaps, beta)
    assert value >= 0
    assert tail(gaps).mean() <= value * (1 + TOLERANCE) + 1e-300
    assert value <= tail(gaps).max() * (1 + TOLERANCE)


@holds(gap_lists, betas)
def test_smooth_is_at_most_log_n_over_beta_below_the_maximum(gaps, beta):
    assert smooth(gaps, beta) >= tail(gaps).max() - np.log(len(gaps)) / beta - TOLERANCE * 50


@holds(gap_lists, betas, st.randoms(use_true_random=False))
def test_order_does_not_matter(gaps, beta, random):
    turned = list(gaps)
    random.shuffle(turned)
    assert smooth(turned, beta) == pytest.approx(smooth(gaps, beta), rel=TOLERANCE, abs=0)


@holds(gap_lists, betas, st.integers(2, 5))
def test_replication_of_the_whole_multiset_does_not_matter(gaps, beta, times):
    assert smooth(gaps * times, beta) == pytest.approx(smooth(gaps, beta), rel=TOLERANCE, abs=0)


@holds(gap_lists, betas, st.data())
def test_smooth_grows_with_each_gap(gaps, beta, data):
    at = data.draw(st.integers(0, len(gaps) - 1))
    raised = list(gaps)
    raised[at] += data.draw(st.floats(0, 10))
    assert smooth(raised, beta) >= smooth(gaps, beta) * (1 - TOLERANCE)


@holds(gap_lists, betas, st.floats(1, 10))
def test_smooth_grows_with_beta(gaps, beta, factor):
    assert smooth(gaps, beta * factor) >= smooth(gaps, beta) * (1 - TOLERANCE)


@holds(gap_lists)
def test_a_small_beta_gives_the_mean(gaps):
    assert smooth(gaps, 1e-9) == pytest.approx(tail(gaps).mean(), rel=1e-5, abs=0)


@holds(gap_lists)
def test_a_large_beta_gives_the_maximum(gaps):
    assert smooth(gaps, 1e9) == pytest.approx(tail(gaps).max(), rel=1e-6, abs=1e-8)


@holds(gap_lists, betas)
def test_zero_exactly_when_nobody_outranks(gaps, beta):
    assert (smooth(gaps, beta) == 0) == (max(gaps) <= 0)
    value = float(maximum(torch.tensor(gaps, dtype=torch.float64)))
    assert (value == 0) == (max(gaps) <= 0)


@holds(gap_lists, betas, st.data())
def test_places_that_hold_nobody_count_for_nothing(gaps, beta, data):
    extra = data.draw(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
    member = torch.tensor([True] * len(gaps) + [False] * len(extra))
    padded = torch.tensor(gaps + extra, dtype=torch.float64)
    found = float(smooth_pressure(padded, beta, member))
    assert found == pytest.approx(smooth(gaps, beta), rel=TOLERANCE, abs=0)
    assert float(maximum(padded, member)) == tail(gaps).max()


@pytest.mark.parametrize("n", [1, 2, 3, 10, 999, 5000])
def test_zero_is_exact_for_any_size(n):
    assert smooth([-1.0] * n, 5.0) == 0.0


def fifty_digits(gaps: list[float], beta: float) -> mpmath.mpf:
    with mpmath.workdps(50):
        grown = [mpmath.exp(mpmath.mpf(beta) * max(mpmath.mpf(gap), 0)) for gap in gaps]
        return mpmath.log(mpmath.fsum(grown) / len(gaps)) / mpmath.mpf(beta)


@pytest.mark.parametrize("seed", range(200))
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-14), (torch.float32, 1e-6)])
def test_smooth_equals_fifty_digits_from_tiny_to_huge_gaps(seed, dtype, bound):
    draw = np.random.default_rng(seed)
    size = int(draw.integers(1, 200))
    reach = 10.0 ** draw.integers(-8, 9)
    gaps = torch.tensor(draw.normal(size=size) * reach, dtype=dtype)
    beta = float(draw.choice([0.5, 1.0, 5.0]))
    exact = fifty_digits(gaps.tolist(), beta)
    found = float(smooth_pressure(gaps, beta))
    if exact == 0:
        assert found == 0
    else:
        assert abs(found - exact) / exact < bound


@pytest.mark.long
@pytest.mark.parametrize("name", holds.known)
def test_the_same_at_length(name):
    holds.at_length(name)
