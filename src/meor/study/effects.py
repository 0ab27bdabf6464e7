"""Paired effects: what a method changes, with bounds from the full-precision differences of its pairs.

Bounds are Student t on the paired effects (decision 39) and are not adjusted for the number of comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from meor.errors import StudyError
from meor.evaluation.endpoints import MARK
from meor.methods import METHODS, calibration_grid
from meor.study.bounds import Interval, bca_interval, lower_bound, moments, p_greater, t_interval
from meor.study.rows import ENDPOINTS, IDENTITY_TOLERANCE, Group, Row, select

MARGIN = calibration_grid.MARGIN
"""Preservation: the lower bound stays above -MARGIN."""

REDUCTION = "D_MCI"
"""Its effect is a reduction: comparator minus method, so that up is good everywhere."""

PRESERVED = ("H_old", "A_TN")

LEAST = 5e-5
"""Below it, four decimals call a difference 0: it is none, however sure its sign is."""


class TooFewPairsError(StudyError):
    """Two methods share less than the two pairs an effect needs: nothing is wrong, only not enough."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The paired effect of one endpoint, method minus comparator (for D_MCI the reduction)."""

    endpoint: str
    values: tuple[float, ...]  # one per pair, in the order of the comparison's pairs
    mean: float
    lower: float  # one-sided 95 % t bound
    interval: Interval  # two-sided 95 % t
    bca: Interval  # two-sided 95 % bias-corrected accelerated bootstrap
    p_value: float  # one-sided, against "no improvement"
    partial: bool = False  # over the cells that exist, of an endpoint that is undefined

    @property
    def mark(self) -> str:
        return MARK if self.partial else ""

    @property
    def wins(self) -> int:
        return sum(value > 0 for value in self.values)

    @property
    def ties(self) -> int:
        return sum(value == 0 for value in self.values)

    @property
    def losses(self) -> int:
        return sum(value < 0 for value in self.values)

    @property
    def wtl(self) -> str:
        return f"{self.wins}/{self.ties}/{self.losses}"

    @property
    def preserved(self) -> bool:
        """Does the lower bound stay above -MARGIN?"""
        return self.lower > -MARGIN

    @property
    def is_none(self) -> bool:
        """Too small to be told."""
        return abs(self.mean) < LEAST

    @property
    def improved(self) -> bool:
        return self.lower > 0 and not self.is_none

    @property
    def worsened(self) -> bool:
        """The same evidence as for `improved`: t bounds lie alike on both sides of the mean."""
        return 2 * self.mean - self.lower < 0 and not self.is_none


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """A method against a comparator over the pairs that have both."""

    group: Group
    coefficient_rule: str
    method: str
    comparator: str
    pairs: tuple[int, ...]
    effects: dict[str, Effect]  # by endpoint; one undefined on the stream is absent
    active_share: float | None  # mean share of active penalty records of the method
    comparator_active_share: float | None

    def __getitem__(self, endpoint: str) -> Effect:
        return self.effects[endpoint]


@dataclass(frozen=True, slots=True)
class Level:
    """The mean of an endpoint over a method's runs, with a two-sided t interval."""

    endpoint: str
    values: tuple[float, ...]
    mean: float
    interval: Interval | None  # None for a single run
    partial: bool = False  # over the cells that exist, of an endpoint that is undefined

    @property
    def mark(self) -> str:
        return MARK if self.partial else ""

    @property
    def ends(self) -> tuple[float, float]:
        """Of the interval; a single run is both."""
        return (self.interval.low, self.interval.high) if self.interval else (self.mean, self.mean)


@dataclass(frozen=True, slots=True)
class MethodLevels:
    """Absolute endpoints of a method in a group."""

    group: Group
    coefficient_rule: str
    method: str
    pairs: tuple[int, ...]
    levels: dict[str, Level]
    coefficient: float  # mean over pairs
    active_share: float | None


def effect_name(name: str) -> str:
    """An effect by the endpoint it is about; for D_MCI up is good as well."""
    return f"{name} reduction" if name == "D_MCI" else f"Δ{name}"


def effect(endpoint: str, values: Sequence[float]) -> Effect:
    """Everything said about the paired differences of one endpoint."""
    return _effect(endpoint, tuple(float(value) for value in values))


@lru_cache(maxsize=4096)
def _effect(endpoint: str, values: tuple[float, ...]) -> Effect:
    """Kept, because the bootstrap takes its time and several tables show the same effect."""
    mean, _, _ = moments(values)
    intervals = t_interval(values), bca_interval(values)
    return Effect(endpoint, values, mean, lower_bound(values), *intervals, p_greater(values))


def compare(rows: Sequence[Row], group: Group, rule: str, method: str, comparator: str) -> PairedComparison:
    """A method against a comparator under one coefficient rule, over the pairs that have both."""
    ours, theirs = select(rows, group, method, rule), select(rows, group, comparator, rule)
    pairs = tuple(sorted(set(ours) & set(theirs)))
    if len(pairs) < 2:
        raise TooFewPairsError(
            f"{method} and {comparator} share {len(pairs)} pairs in {group} ({rule}); an effect needs 2. "
            "Raise --pairs, or see why cells failed."
        )
    for pair in pairs:
        check_pair(ours[pair], theirs[pair])
    effects = {}
    for name in ENDPOINTS:
        values = [_difference(name, ours[pair], theirs[pair]) for pair in pairs]
        defined = [value for value in values if value is not None]
        if len(defined) == len(pairs):
            partial = any(row.is_partial(name) for pair in pairs for row in (ours[pair], theirs[pair]))
            effects[name] = replace(effect(name, defined), partial=partial)
    return PairedComparison(
        group,
        rule,
        method,
        comparator,
        pairs,
        effects,
        _mean_share(ours[pair] for pair in pairs),
        _mean_share(theirs[pair] for pair in pairs),
    )


def level(endpoint: str, values: Sequence[float]) -> Level:
    """The mean of runs; a single one has no interval."""
    interval = t_interval(values) if len(values) > 1 else None
    return Level(endpoint, tuple(values), math.fsum(values) / len(values), interval)


def levels(rows: Sequence[Row], group: Group, rule: str, method: str) -> MethodLevels | None:
    """The absolute endpoints of a method; None where it has no run."""
    found = select(rows, group, method, rule)
    if not found:
        return None
    pairs = tuple(sorted(found))
    built: dict[str, Level] = {}
    for name in ENDPOINTS:
        values = [value for pair in pairs if (value := found[pair].shown(name)) is not None]
        if len(values) == len(pairs):
            partial = any(row.is_partial(name) for row in found.values())
            built[name] = replace(level(name, values), partial=partial)
    coefficient = math.fsum(found[pair].coefficient for pair in pairs) / len(pairs)
    return MethodLevels(group, rule, method, pairs, built, coefficient, _mean_share(found.values()))


def check_pair(ours: Row, theirs: Row, *, references: bool = True) -> None:
    """Paired means paired, and delta H_cur = delta H_old + reduction of D_MCI (decision 40)."""
    for what, key in (("what they start from", "pair_hash"), ("how they were trained", "schedule_hash")):
        mine, other = getattr(ours, key), getattr(theirs, key)
        if mine and other and mine != other:
            raise _no_pair(ours, theirs, f"{what} differs ({mine[:12]} and {other[:12]})")
    same = references and _reference(ours) == _reference(theirs)
    if same and ours.reference_hash != theirs.reference_hash:
        raise _no_pair(ours, theirs, "they should share their references and do not")
    parts = [_difference(name, ours, theirs) for name in ("H_cur", "H_old", REDUCTION)]
    defined = [part for part in parts if part is not None]
    if len(defined) == len(parts) and abs(defined[0] - (defined[1] + defined[2])) > IDENTITY_TOLERANCE:
        raise StudyError(
            f"{ours.run} against {theirs.run}: the gain in H_cur {defined[0]!r} is not the gain in H_old "
            f"{defined[1]!r} plus the reduction of D_MCI {defined[2]!r}. A row was changed; make it again."
        )


def _no_pair(ours: Row, theirs: Row, reason: str) -> StudyError:
    return StudyError(f"{ours.run} and {theirs.run} are no pair: {reason}. Make both again.")


def _reference(row: Row) -> str | None:
    """What kind of old entities a method compares with."""
    variant = METHODS[row.method].variant if row.method in METHODS else None
    return None if variant is None else variant.reference


def _difference(name: str, ours: Row, theirs: Row) -> float | None:
    a, b = ours.shown(name), theirs.shown(name)
    if a is None or b is None:
        return None
    return b - a if name == REDUCTION else a - b


def _mean_share(rows: Iterable[Row]) -> float | None:
    shares = [row.active_share for row in rows if row.active_share is not None]
    return math.fsum(shares) / len(shares) if shares else None
