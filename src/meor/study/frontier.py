"""H_cur against A_TN along each method's grid of coefficients, and H_cur compared at equal A_TN.

A method's grid is a curve that begins at the host alone (coefficient 0) and goes through its multiples in
order; a larger coefficient trades acquisition for old ranks sooner or later. At one shared coefficient two
methods may only stand at different places of the same trade, so they are compared at the same A_TN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from meor.methods import NONE, is_penalized
from meor.study.effects import Effect, Level, check_pair, effect, level
from meor.study.plan import BALANCE
from meor.study.rows import Group, Row, select

STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
MOST_STEPS = 8
"""Methods are compared a round step of A_TN apart, as small as leaves a table a person can read."""

Point = tuple[float, float]
"""A_TN and H_cur of one run."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """Means of a method at one multiple, over pairs."""

    group: Group
    method: str
    multiple: float  # 0 is the host alone
    pairs: tuple[int, ...]
    coefficient: float
    H_cur: Level
    A_TN: Level


@dataclass(frozen=True, slots=True)
class EqualAcquisition:
    """The paired effect on H_cur of a method against a comparator where both have the same A_TN."""

    group: Group
    method: str
    comparator: str
    offset: float  # that A_TN, relative to that of the pair's host alone
    pairs: tuple[int, ...]
    effect: Effect


def frontier_points(rows: Sequence[Row], group: Group, method: str) -> list[FrontierPoint]:
    """Every multiple of a method, smallest first; the host alone is the point at 0."""
    found = []
    for multiple in (0.0, *_multiples(rows, group, method)):
        runs = _runs(rows, group, method, multiple)
        pairs = tuple(sorted(runs))
        values = {
            name: [value for pair in pairs if (value := runs[pair].shown(name)) is not None]
            for name in ("H_cur", "A_TN")
        }
        if pairs and all(len(each) == len(pairs) for each in values.values()):
            coefficient = sum(runs[pair].coefficient for pair in pairs) / len(pairs)
            cur, acquired = (level(name, values[name]) for name in ("H_cur", "A_TN"))
            found.append(FrontierPoint(group, method, multiple, pairs, coefficient, cur, acquired))
    return found


def at_equal_acquisition(
    rows: Sequence[Row], group: Group, method: str, comparator: str
) -> list[EqualAcquisition]:
    """Paired differences of H_cur at the host's A_TN plus an offset, where at least 2 pairs reach it."""
    ours, theirs = curves(rows, group, method), curves(rows, group, comparator)
    found = []
    for offset in offsets(rows, group):
        effects: dict[int, float] = {}
        compared = False
        for pair in sorted(set(ours) & set(theirs)):
            alone = ours[pair][0]
            acquisition = alone[0] + offset
            mine, other = best_at(ours[pair], acquisition), best_at(theirs[pair], acquisition)
            if mine is not None and other is not None:
                effects[pair] = mine - other
                compared |= not (offset == 0.0 and mine == other == alone[1])
        # Where both take the host alone in every pair, it would be compared with itself.
        if len(effects) >= 2 and compared:
            made = effect("H_cur", list(effects.values()))
            found.append(EqualAcquisition(group, method, comparator, offset, tuple(effects), made))
    return found


def offsets(rows: Sequence[Row], group: Group) -> list[float]:
    """Round steps of A_TN from the host's over what two methods or more reach in some pair, highest first."""
    methods = {row.method for row in rows if row.group == group and is_penalized(row.method)}
    lows, highs = [], []
    for method in methods:
        reached = [
            point[0] - curve[0][0] for curve in curves(rows, group, method).values() for point in curve
        ]
        if reached:
            lows.append(min(reached))
            highs.append(max(reached))
    if len(lows) < 2:
        return []
    low, high = sorted(lows)[1], sorted(highs)[-2]
    step = next((each for each in STEPS if high - low <= MOST_STEPS * each), STEPS[-1])
    # Rounded, so that a whole number of steps is the same number whoever writes it.
    return [round(at * step, 3) for at in range(math.floor(high / step), math.ceil(low / step) - 1, -1)]


def curves(rows: Sequence[Row], group: Group, method: str) -> dict[int, list[Point]]:
    """By pair: the points of a method from the host alone (itself one point) through its multiples."""
    alone = select(rows, group, NONE, BALANCE)
    grid = [0.0] if method == NONE else [0.0, *_multiples(rows, group, method)]
    runs = {multiple: _runs(rows, group, method, multiple) for multiple in grid}
    found: dict[int, list[Point]] = {}
    for pair, start in alone.items():
        here = [runs[multiple][pair] for multiple in grid if pair in runs[multiple]]
        for row in here[1:]:
            check_pair(row, start)
        points = [(row.shown("A_TN"), row.shown("H_cur")) for row in here]
        if len(here) == len(grid) and all(a is not None and h is not None for a, h in points):
            found[pair] = points  # type: ignore[assignment]
    return found


def best_at(curve: Sequence[Point], acquisition: float) -> float | None:
    """The highest H_cur at which the curve has this A_TN; None where it never does.

    Linear between neighbours of the grid, in the order of the coefficient. A curve may pass the same A_TN
    several times, first gaining and then losing acquisition: whoever tunes the coefficient takes the best
    of these places.
    """
    found = [h for a, h in curve if a == acquisition]
    for (a, h), (next_a, next_h) in pairwise(curve):
        if min(a, next_a) < acquisition < max(a, next_a):
            share = (acquisition - a) / (next_a - a)
            found.append(h + share * (next_h - h))
    return max(found, default=None)


def _multiples(rows: Sequence[Row], group: Group, method: str) -> list[float]:
    return sorted(
        {
            row.multiple
            for row in rows
            if row.group == group
            and row.method == method
            and row.coefficient_rule == BALANCE
            and row.multiple
        }
    )


def _runs(rows: Sequence[Row], group: Group, method: str, multiple: float) -> dict[int, Row]:
    if multiple == 0.0:
        return select(rows, group, NONE, BALANCE)
    return select(rows, group, method, BALANCE, multiple=multiple)
