"""The gate's rules: a value, the limit it is held against, and the interval where it is an estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from meor.typing import Floats, Ids

Outcome = Literal["held", "uncertain", "broken"]
Verdict = Literal["admitted", "flagged", "refused"]
EXIT = {"admitted": 0, "flagged": 4, "refused": 3}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as it was found. `low` and `high` are the value itself where it is no estimate."""

    name: str
    limit: float
    at_most: bool  # else at least
    value: float
    low: float
    high: float
    queries: int

    @property
    def outcome(self) -> Outcome:
        """Broken where even the kinder end of the interval is beyond the limit, held where no end is."""
        worse, kinder = (self.high, self.low) if self.at_most else (self.low, self.high)
        if self._beyond(kinder):
            return "broken"
        return "uncertain" if self._beyond(worse) else "held"

    def _beyond(self, value: float) -> bool:
        return value > self.limit if self.at_most else value < self.limit

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.name,
            "limit": self.limit,
            "kind": "at most" if self.at_most else "at least",
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "queries": self.queries,
            "outcome": self.outcome,
        }


def verdict_of(rules: Sequence[Rule]) -> Verdict:
    outcomes = {rule.outcome for rule in rules}
    return "refused" if "broken" in outcomes else "flagged" if "uncertain" in outcomes else "admitted"


def interval(value: Floats, weight: Floats, cluster: Ids, confidence: float) -> tuple[float, float, float]:
    """Weighted mean with its two-sided Student t interval, queries of one cluster varying together.

    With equal weights and clusters of one query each it is the usual interval of a mean.
    """
    total = math.fsum(weight.tolist())
    share = weight / total
    mean = math.fsum((share * value).tolist())
    _, of = np.unique(cluster, return_inverse=True)
    parts = np.bincount(of, weights=share * (value - mean))
    if len(parts) < 2:
        return mean, mean, mean
    error = math.sqrt(math.fsum((parts**2).tolist()) * len(parts) / (len(parts) - 1))
    half = float(stats.t.ppf(0.5 + confidence / 2, len(parts) - 1)) * error
    return mean, mean - half, mean + half
