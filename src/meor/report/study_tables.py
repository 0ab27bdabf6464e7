"""Tables of a study: levels, paired effects, and the paper's printed cells beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from meor.evaluation.endpoints import MARK
from meor.report.page import Cell, Column, Table
from meor.report.words import (
    ABSENT,
    bound,
    bounds,
    effect,
    effect_name,
    interval,
    listed,
    method_name,
    number,
    share,
    short,
    signed,
)
from meor.stream.occurrence import sample_note
from meor.study.effects import EFFECTS, PRESERVED, Comparison, Effect, Level, MethodLevels
from meor.study.frontier import EqualAcquisition

UNADJUSTED = "Bounds and intervals are not adjusted for the number of comparisons."
ABSOLUTE = ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")


def marked(found: Level | Effect) -> str:
    """The mark of a mean over the cells that exist."""
    return MARK if found.partial else ""


def with_sample(table: Table, sample: int) -> Table:
    """The table, with a footnote where not every fact was ranked."""
    return replace(table, note=f"{table.note} {sample_note(sample)}".strip())


def absolute(levels: Sequence[MethodLevels], where: str) -> Table:
    """One row a method."""
    over = "mean over pairs with a two-sided 95 % interval" if _have_intervals(levels) else "one pair"
    rows = tuple(_absolute_row(each, interval) for each in levels)
    return Table(f"Endpoints, {over}{where}", _ABSOLUTE_COLUMNS, rows, _absolute_note(levels))


def absolute_of_settings(levels: Sequence[tuple[str, MethodLevels]], where: str) -> Table:
    """One row a method and setting; half widths in place of intervals, so that a page is wide enough."""
    found = [each for _, each in levels]
    over = "mean over pairs ± half a two-sided 95 % interval" if _have_intervals(found) else "one pair"
    rows = tuple((Cell(label), *_absolute_row(each, _half_width)) for label, each in levels)
    columns = (Column("setting"), *_ABSOLUTE_COLUMNS)
    return Table(f"Endpoints, {over}{where}", columns, rows, _absolute_note(found))


_ABSOLUTE_COLUMNS = (
    Column("method"),
    *(Column(name, numeric=True) for name in ABSOLUTE),
    Column("λ", numeric=True, hint="what multiplies the penalty; below, its active records"),
)


def _have_intervals(levels: Sequence[MethodLevels]) -> bool:
    return any(level.interval is not None for each in levels for level in each.levels.values())


def _half_width(low: float, high: float) -> str:
    return f"± {number((high - low) / 2)}"


def _absolute_note(levels: Sequence[MethodLevels]) -> str:
    size = listed([str(pairs) for pairs in sorted({len(each.pairs) for each in levels})])
    return f"λ multiplies the penalty; active is the share of its records with an excess. Pairs: {size}."


def _absolute_row(found: MethodLevels, spread: Callable[[float, float], str]) -> tuple[Cell, ...]:
    cells = []
    for name in ABSOLUTE:
        level = found.levels.get(name)
        if level is None:
            cells.append(Cell(ABSENT, None, "muted"))
            continue
        below = "" if level.interval is None else spread(level.interval.low, level.interval.high)
        cells.append(Cell(f"{number(level.mean)}{marked(level)}", level.mean, below=below))
    return (
        Cell(method_name(found.method)),
        *cells,
        Cell(short(found.coefficient), found.coefficient, below=_active(found.active_share)),
    )


def _active(found: float | None) -> str:
    return "" if found is None else f"{share(found)} active"


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparisons of one method that stand together, each with the label of its rows."""

    head: str
    labelled: tuple[tuple[str, Comparison], ...]
    kind: str  # what labels name: "against" or "setting"
    other: str = "the other"  # whom all of them compare with, if it is one
    where: str = ""


def paired(compared: Compared) -> Table:
    """All that is said about each paired effect."""
    columns = (
        Column(compared.kind),
        Column("effect"),
        Column("mean", numeric=True),
        Column("lower bound", numeric=True, hint="one-sided 95 % Student t"),
        Column("two-sided 95 %, BCa below", numeric=True, sortable=False, hint="Student t; BCa bootstrap"),
        Column("W/T/L", numeric=True, sortable=False, hint="pairs won, tied, lost at full precision"),
        Column("verdict"),
    )
    rows = tuple(
        (
            Cell(label),
            Cell(effect_name(name)),
            Cell(f"{effect(found.mean)}{marked(found)}", found.mean),
            Cell(bound(found.lower), found.lower),
            Cell(
                bounds(found.interval.low, found.interval.high),
                below=bounds(found.bca.low, found.bca.high),
            ),
            Cell(found.wtl),
            verdict(name, found),
        )
        for label, each in compared.labelled
        for name in EFFECTS
        if (found := each.effects.get(name)) is not None
    )
    note = (
        f"{UNADJUSTED} For D_MCI the effect is the reduction, so up is good everywhere. An exact tie usually "
        "means that the penalty never acted."
    )
    title = f"Every paired effect of {method_name(compared.head)}{compared.where}"
    return Table(title, columns, rows, note, folded=True)


SHORT = ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")


def paired_short(compared: Compared) -> Table:
    """One row a comparison: means, with one-sided lower bounds below them."""
    columns = (
        Column(compared.kind),
        *(Column(effect_name(name), numeric=True) for name in SHORT),
        Column(
            "W/T/L", numeric=True, sortable=False, hint="pairs won, tied, lost on H_cur at full precision"
        ),
    )
    rows = tuple(
        (
            Cell(label),
            *(_short_effect(name, each.effects.get(name)) for name in SHORT),
            Cell(each["H_cur"].wtl if "H_cur" in each.effects else ABSENT),
        )
        for label, each in compared.labelled
    )
    minus = f"{method_name(compared.head)} minus {compared.other}"
    title = f"{minus}, one-sided 95 % lower bound below{compared.where}"
    note = (
        "Green: better, or preserved where that is the question (H_old, A_TN). Red: worse, or not shown "
        f"to be preserved. {UNADJUSTED}"
    )
    return Table(title, columns, rows, note)


def _short_effect(name: str, found: Effect | None) -> Cell:
    if found is None:
        return Cell(ABSENT, None, "muted")
    shown = f"{effect(found.mean)}{marked(found)}"
    return Cell(shown, found.mean, verdict(name, found).tone, f"≥ {bound(found.lower)}")


def verdict(name: str, found: Effect) -> Cell:
    """What the one-sided bounds say; never more."""
    if found.improved:
        return Cell("better", 2, "good")
    if found.worsened:
        worse = "worse, within the margin" if name in PRESERVED and found.preserved else "worse"
        return Cell(worse, 0, "bad")
    if name in PRESERVED:
        return (
            Cell("preserved", 1, "good") if found.preserved else Cell("not shown to be preserved", 0, "bad")
        )
    return Cell("no difference shown", 1, "muted")


def equal_acquisition(found: Sequence[EqualAcquisition], where: str) -> Table:
    columns = (
        Column("against"),
        Column("A_TN against host alone", numeric=True),
        Column("ΔH_cur", numeric=True),
        Column("lower bound", numeric=True),
        Column("two-sided 95 %", numeric=True, sortable=False),
        Column("W/T/L", numeric=True, sortable=False),
        Column("pairs", numeric=True),
    )
    rows = tuple(
        (
            Cell(method_name(each.comparator)),
            Cell(signed(each.offset, 3), each.offset),
            Cell(effect(each.effect.mean), each.effect.mean),
            Cell(bound(each.effect.lower), each.effect.lower),
            Cell(bounds(each.effect.interval.low, each.effect.interval.high)),
            Cell(each.effect.wtl),
            Cell(str(len(each.pairs)), len(each.pairs)),
        )
        for each in found
    )
    note = (
        "Each method at its best coefficient that reaches this A_TN, linear between grid points. "
        + UNADJUSTED
    )
    return Table(f"H_cur at equal A_TN{where}", columns, rows, note)
