"""Bounds of a mean from few paired effects: Student t, the BCa bootstrap, Holm's adjustment."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from meor.errors import NonFiniteError, StudyError
from meor.random import generator
from meor.typing import Floats

CONFIDENCE = 0.95
RESAMPLES = 9999


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def lower_bound(values: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """The one-sided Student t lower bound of the mean."""
    mean, error, freedom = moments(values)
    return mean - float(stats.t.ppf(confidence, freedom)) * error


def t_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The two-sided Student t interval of the mean."""
    mean, error, freedom = moments(values)
    half = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * error
    return Interval(mean - half, mean + half)


def p_greater(values: Sequence[float]) -> float:
    """One-sided t test against a mean of 0 or less; equal effects decide by their sign alone."""
    mean, error, freedom = moments(values)
    if error == 0.0:
        return 0.0 if mean > 0 else 1.0
    return float(stats.t.sf(mean / error, freedom))


def bca_interval(
    values: Sequence[float],
    confidence: float = CONFIDENCE,
    *,
    resamples: int = RESAMPLES,
    rng: np.random.Generator | None = None,
) -> Interval:
    """The bias-corrected accelerated bootstrap interval of the mean; the draws are addressed by n."""
    sample = _checked(values)
    if np.ptp(sample) == 0.0:
        # Every resample is the same: the bootstrap has nothing to correct.
        return Interval(float(sample[0]), float(sample[0]))
    rng = generator("bca", len(sample), resamples) if rng is None else rng
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap(
            (sample,), np.mean, confidence_level=confidence, n_resamples=resamples, method="BCa", rng=rng
        )
    low, high = float(found.confidence_interval.low), float(found.confidence_interval.high)
    if not (math.isfinite(low) and math.isfinite(high)):
        # With two or three pairs the correction may not exist: then the widest thing the data supports.
        return Interval(float(sample.min()), float(sample.max()))
    return Interval(low, high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: p-values valid for the whole family at once."""
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted


def moments(values: Sequence[float]) -> tuple[float, float, int]:
    """Mean, standard error of the mean, degrees of freedom."""
    sample = _checked(values)
    n = len(sample)
    mean = math.fsum(sample.tolist()) / n
    if np.ptp(sample) == 0.0:
        return float(sample[0]), 0.0, n - 1
    square = math.fsum(((sample - mean) ** 2).tolist()) / (n - 1)
    return mean, math.sqrt(square / n), n - 1


def _checked(values: Sequence[float]) -> Floats:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or len(sample) < 2:
        raise StudyError(f"An interval needs at least 2 paired effects, but there are {sample.size}.")
    if not np.isfinite(sample).all():
        raise NonFiniteError(
            "A paired effect is NaN or infinite: no bound was computed. Make its runs again."
        )
    return sample
