"""P6: bounds against scipy and statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from meor.errors import NonFiniteError, StudyError
from meor.random import generator
from meor.study.bounds import bca_interval, holm, lower_bound, p_greater, t_interval

CASES = range(200)


def sample(case: int) -> list[float]:
    """Effects of every size a study may meet, of any sign, for 2 to 12 pairs."""
    rng = np.random.default_rng(case)
    n = 2 + case % 11
    scale = 10.0 ** rng.integers(-6, 2)
    return list(rng.normal(rng.normal() * scale, scale, n))


@pytest.mark.parametrize("case", CASES)
def test_t_bounds_agree_with_scipy_and_statsmodels(case: int) -> None:
    values = sample(case)
    size = max(abs(value) for value in values)
    described = DescrStatsW(values)
    interval = t_interval(values)
    assert lower_bound(values) == pytest.approx(
        described.tconfint_mean(alpha=0.05, alternative="larger")[0], rel=1e-12, abs=1e-12 * size
    )
    test = stats.ttest_1samp(values, 0.0, alternative="greater")
    assert lower_bound(values) == pytest.approx(
        test.confidence_interval(0.95).low, rel=1e-12, abs=1e-12 * size
    )
    assert p_greater(values) == pytest.approx(test.pvalue, rel=1e-11)
    assert (interval.low, interval.high) == pytest.approx(
        described.tconfint_mean(alpha=0.05), rel=1e-12, abs=1e-12 * size
    )


@pytest.mark.parametrize("case", CASES)
def test_bca_agrees_with_scipy_for_the_same_draws(case: int) -> None:
    values = sample(case)
    ours = bca_interval(values, resamples=499, rng=np.random.default_rng(case))
    found = stats.bootstrap(
        (np.asarray(values),), np.mean, n_resamples=499, method="BCa", rng=np.random.default_rng(case)
    ).confidence_interval
    if math.isfinite(found.low) and math.isfinite(found.high):
        assert (ours.low, ours.high) == (found.low, found.high)
    else:
        assert (ours.low, ours.high) == (min(values), max(values))


def bca_by_hand(values: list[float], resamples: int, rng: np.random.Generator) -> tuple[float, float]:
    """Efron's formulas, term by term."""
    x, n = np.asarray(values), len(values)
    means = x[rng.integers(0, n, (resamples, n))].mean(1)
    at = x.mean()
    z0 = stats.norm.ppf(((means < at).sum() + (means <= at).sum()) / (2 * resamples))
    left_out = np.array([np.delete(x, i).mean() for i in range(n)])
    away = left_out.mean() - left_out
    acceleration = (away**3).sum() / (6 * (away**2).sum() ** 1.5)
    ends = []
    for alpha in (0.025, 0.975):
        z = z0 + stats.norm.ppf(alpha)
        ends.append(np.percentile(means, 100 * stats.norm.cdf(z0 + z / (1 - acceleration * z))))
    return ends[0], ends[1]


def test_bca_is_efrons_interval() -> None:
    values = [0.004, 0.0051, 0.0049, 0.0063, 0.0072, 0.0039, 0.0055, 0.0058]
    ours = bca_interval(values, rng=generator("bca", 8, 9999))
    assert (ours.low, ours.high) == pytest.approx(
        bca_by_hand(values, 9999, generator("bca", 8, 9999)), rel=1e-9
    )


def test_bca_is_the_same_whenever_it_is_asked() -> None:
    values = sample(7)
    assert bca_interval(values) == bca_interval(list(values))


@pytest.mark.parametrize("value", [0.0, 0.0057, -1e-9, 0.1])
@pytest.mark.parametrize("n", [2, 3, 8])
def test_constant_effects_have_no_width(value: float, n: int) -> None:
    values = [value] * n
    assert lower_bound(values) == value
    assert (t_interval(values).low, t_interval(values).high) == (value, value)
    assert (bca_interval(values).low, bca_interval(values).high) == (value, value)
    assert p_greater(values) == (0.0 if value > 0 else 1.0)


def test_two_pairs_give_wide_bounds_and_never_a_nan() -> None:
    values = [0.001, 0.002]
    assert lower_bound(values) == pytest.approx(0.0015 - stats.t.ppf(0.95, 1) * 0.0005, rel=1e-12)
    found = bca_interval(values)
    assert 0.001 <= found.low <= found.high <= 0.002


@pytest.mark.parametrize("function", [lower_bound, t_interval, bca_interval, p_greater])
def test_a_nan_raises_and_so_do_too_few(function) -> None:  # type: ignore[no-untyped-def]
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(NonFiniteError):
            function([0.1, bad, 0.2])
    for few in ([], [0.1]):
        with pytest.raises(StudyError, match="at least 2"):
            function(few)


@pytest.mark.parametrize("case", range(50))
def test_holm_agrees_with_statsmodels(case: int) -> None:
    rng = np.random.default_rng(case)
    p_values = list(rng.random(1 + case % 9) ** 3)
    if case % 3 == 0:
        p_values.append(p_values[0])
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]), abs=1e-15)


def test_holm_of_no_comparison_is_nothing() -> None:
    assert holm([]) == []
