"""H_cur against A_TN along the curves of a study, and who is ahead of whom at equal A_TN.

Every control is a trade: what it keeps of old answers it may take from newcomers, and training less is one
too. So competitors are compared where they have the same A_TN. A competitor is a curve, or a family of curves
(the host trained less at two learning rates), of which the best counts: whoever tunes takes the best place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from meor.methods import METHODS
from meor.study.curve import Curve
from meor.study.effects import LEAST, Effect, Level, check_pair, effect, level
from meor.study.rows import Group, Row

PLACES = 33
"""Values of A_TN, evenly spread over what both competitors reach, at which they are compared in a pair."""

Curves = Mapping[str, Curve]


@dataclass(frozen=True, slots=True)
class Point:
    """One run on a curve."""

    A_TN: float
    H_cur: float
    D_MCI: float


Line = list[Point]
"""A curve in one pair, in the order of its values."""

Competitors = Mapping[str, Sequence[Mapping[int, Line]]]
"""The curves of each competitor, by pair."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """Means of a curve at one value, over pairs."""

    group: Group
    curve: str
    method: str
    at: float
    pairs: tuple[int, ...]
    coefficient: float
    H_cur: Level
    A_TN: Level


@dataclass(frozen=True, slots=True)
class Verdict:
    """Ours minus theirs at equal A_TN: the mean over what both reach in a pair, then over pairs."""

    group: Group
    ours: str
    theirs: str
    low: float  # of the A_TN that both reach, over pairs
    high: float
    pairs: tuple[int, ...]
    H_cur: Effect
    D_MCI: Effect

    @property
    def word(self) -> str:
        low, high = self.H_cur.interval.low, self.H_cur.interval.high
        if (low > 0 or high < 0) and not self.H_cur.is_none:
            return "ahead" if low > 0 else "behind"
        return "no difference" if max(-low, high) < LEAST else "undecided"


def families(curves: Curves) -> dict[str, tuple[str, ...]]:
    """The competitors, each with its curves."""
    found: dict[str, tuple[str, ...]] = {}
    for name, curve in curves.items():
        of = curve.family or name
        found[of] = (*found.get(of, ()), name)
    return found


def frontier_points(rows: Sequence[Row], group: Group, name: str, curve: Curve) -> Iterator[FrontierPoint]:
    """Every value of a curve; one that begins at the host alone has a point at 0."""
    for at in _values(curve):
        runs = _runs(rows, group, name, curve, at)
        pairs = tuple(sorted(runs))
        values = {
            key: [value for pair in pairs if (value := runs[pair].shown(key)) is not None]
            for key in ("H_cur", "A_TN")
        }
        if not pairs or any(len(each) < len(pairs) for each in values.values()):
            continue
        cur, acquired = (level(key, values[key]) for key in ("H_cur", "A_TN"))
        coefficient = math.fsum(runs[pair].coefficient for pair in pairs) / len(pairs)
        yield FrontierPoint(group, name, curve.method, at, pairs, coefficient, cur, acquired)


def lines(rows: Sequence[Row], group: Group, name: str, curve: Curve) -> dict[int, Line]:
    """By pair, for pairs that have every point of the curve."""
    values = _values(curve)
    runs = [_runs(rows, group, name, curve, at) for at in values]
    found: dict[int, Line] = {}
    for pair in sorted(set.intersection(*(set(each) for each in runs))):
        here = [each[pair] for each in runs]
        for row in here[1:]:
            check_pair(row, here[0], references=not curve.varies_references)
        points = [_point(row) for row in here]
        line = [point for point in points if point is not None]
        if len(line) == len(values):
            found[pair] = line
    return found


def competitors(rows: Sequence[Row], group: Group, curves: Curves) -> Competitors:
    return {
        name: [lines(rows, group, each, curves[each]) for each in members]
        for name, members in families(curves).items()
    }


def verdicts(rows: Sequence[Row], group: Group, curves: Curves) -> list[Verdict]:
    """Every two competitors that reach the same A_TN in at least two pairs."""
    known = competitors(rows, group, curves)
    found = (verdict(group, ours, theirs, known) for ours, theirs in combinations(known, 2))
    return [each for each in found if each is not None]


def verdict(group: Group, ours: str, theirs: str, known: Competitors) -> Verdict | None:
    my_curves, their_curves = known[ours], known[theirs]
    cur: dict[int, float] = {}
    lost: dict[int, float] = {}
    reached: list[float] = []
    for pair in sorted(_pairs(my_curves) & _pairs(their_curves)):
        mine, other = ([curve[pair] for curve in each if pair in curve] for each in (my_curves, their_curves))
        both = [(a, b) for at in _common(mine, other) if (a := best(mine, at)) and (b := best(other, at))]
        if both:
            reached += [a.A_TN for a, _ in both]
            cur[pair] = math.fsum(a.H_cur - b.H_cur for a, b in both) / len(both)
            lost[pair] = math.fsum(a.D_MCI - b.D_MCI for a, b in both) / len(both)
    if len(cur) < 2:
        return None
    effects = effect("H_cur", list(cur.values())), effect("D_MCI", list(lost.values()))
    return Verdict(group, ours, theirs, min(reached), max(reached), tuple(cur), *effects)


def best(competitor: Sequence[Line], acquisition: float) -> Point | None:
    """Where a competitor has this A_TN at the highest H_cur; None where it never does.

    Linear between neighbours on a curve. A curve may pass the same A_TN several times, first gaining
    acquisition and then losing it.
    """
    found = [point for line in competitor for point in line if acquisition == point.A_TN]
    for line in competitor:
        for one, following in pairwise(line):
            if min(one.A_TN, following.A_TN) < acquisition < max(one.A_TN, following.A_TN):
                share = (acquisition - one.A_TN) / (following.A_TN - one.A_TN)
                cur = one.H_cur + share * (following.H_cur - one.H_cur)
                found.append(Point(acquisition, cur, one.D_MCI + share * (following.D_MCI - one.D_MCI)))
    return max(found, key=lambda point: point.H_cur, default=None)


def _common(mine: Sequence[Line], other: Sequence[Line]) -> list[float]:
    """The A_TN at which two competitors are compared: all over what both reach."""
    reached = [[point.A_TN for line in each for point in line] for each in (mine, other)]
    low, high = max(min(each) for each in reached), min(max(each) for each in reached)
    if low > high:
        return []
    if low == high:
        return [low]
    return [low + (high - low) * at / (PLACES - 1) for at in range(PLACES)]


def _pairs(curves: Sequence[Mapping[int, Line]]) -> set[int]:
    return {pair for curve in curves for pair in curve}


def _values(curve: Curve) -> list[float]:
    return [*([0.0] if curve.starts_alone else []), *sorted(curve.values)]


def _runs(rows: Sequence[Row], group: Group, name: str, curve: Curve, at: float) -> dict[int, Row]:
    if at == 0.0 and curve.starts_alone:
        start = METHODS[curve.method].start
        return {row.pair: row for row in rows if (row.group, row.method, row.curve) == (group, start, None)}
    return {row.pair: row for row in rows if (row.group, row.curve, row.at) == (group, name, at)}


def _point(row: Row) -> Point | None:
    values = [row.shown(name) for name in ("A_TN", "H_cur", "D_MCI")]
    known = [value for value in values if value is not None]
    return Point(*known) if len(known) == len(values) else None
