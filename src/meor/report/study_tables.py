"""Tables of a study: levels, paired effects, and the paper's printed cells beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meor.report.page import Cell, Column, Table
from meor.report.study_data import Setting
from meor.report.words import ABSENT, effect_name, interval, listed, method_name, number, share, short, signed
from meor.stream.sample import sample_note
from meor.study.effects import EFFECTS, PRESERVED, Comparison, Effect, MethodLevels
from meor.study.frontier import EqualAcquisition

ABSOLUTE = ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")


def with_sample(table: Table, sample: int) -> Table:
    """The table, with a footnote where not every fact was ranked."""
    return replace(table, note=f"{table.note} {sample_note(sample)}".strip())


def absolute(setting: Setting, where: str) -> Table:
    columns = (
        Column("method"),
        *(Column(name, numeric=True) for name in ABSOLUTE),
        Column("λ", numeric=True, hint="what multiplies the penalty; below, its active records"),
    )
    sizes = {len(each.pairs) for each in setting.levels}
    size = listed([str(number) for number in sorted(sizes)])
    return Table(
        f"Endpoints, mean over pairs with a two-sided 95 % interval{where}",
        columns,
        tuple(_absolute_row(each) for each in setting.levels),
        f"λ multiplies the penalty; active is the share of its records with an excess. Pairs: {size}.",
    )


def _absolute_row(found: MethodLevels) -> tuple[Cell, ...]:
    cells = []
    for name in ABSOLUTE:
        level = found.levels.get(name)
        if level is None:
            cells.append(Cell(ABSENT, None, "muted"))
            continue
        spread = "" if level.interval is None else interval(level.interval.low, level.interval.high)
        cells.append(Cell(number(level.mean), level.mean, below=spread))
    return (
        Cell(method_name(found.method)),
        *cells,
        Cell(short(found.coefficient), found.coefficient, below=_active(found.active_share)),
    )


def _active(found: float | None) -> str:
    return "" if found is None else f"{share(found)} active"


def paired(comparisons: Sequence[Comparison], head: str, where: str) -> Table:
    """All that is said about each paired effect."""
    columns = (
        Column("against"),
        Column("effect"),
        Column("mean", numeric=True),
        Column("lower bound", numeric=True, hint="one-sided 95 % Student t"),
        Column("two-sided 95 %, BCa below", numeric=True, sortable=False, hint="Student t; BCa bootstrap"),
        Column("W/T/L", numeric=True, sortable=False, hint="pairs won, tied, lost at full precision"),
        Column("verdict"),
    )
    rows = tuple(
        (
            Cell(method_name(each.comparator)),
            Cell(effect_name(name)),
            Cell(signed(found.mean), found.mean),
            Cell(signed(found.lower), found.lower),
            Cell(
                interval(found.interval.low, found.interval.high),
                below=interval(found.bca.low, found.bca.high),
            ),
            Cell(found.wtl),
            verdict(name, found),
        )
        for each in comparisons
        for name in EFFECTS
        if (found := each.effects.get(name)) is not None
    )
    note = (
        "Intervals are not adjusted for the number of comparisons. For D_MCI the effect is the "
        "reduction, so up is good everywhere. An exact tie usually means that the penalty never acted."
    )
    return Table(f"Every paired effect of {method_name(head)}{where}", columns, rows, note, folded=True)


SHORT = ("H_cur", "H_old", "D_MCI", "A_TN")


def paired_short(comparisons: Sequence[Comparison], head: str, where: str) -> Table:
    """One row a comparator: means, with one-sided lower bounds below them."""
    columns = (
        Column("against"),
        *(Column(effect_name(name), numeric=True) for name in SHORT),
        Column(
            "W/T/L", numeric=True, sortable=False, hint="pairs won, tied, lost on H_cur at full precision"
        ),
    )
    rows = tuple(
        (
            Cell(method_name(each.comparator)),
            *(_short_effect(name, each.effects.get(name)) for name in SHORT),
            Cell(each["H_cur"].wtl if "H_cur" in each.effects else ABSENT),
        )
        for each in comparisons
    )
    title = f"{method_name(head)} minus the other, one-sided 95 % lower bound below{where}"
    note = (
        "Green: better, or preserved where that is the question (H_old, A_TN). Red: worse, or not shown "
        "to be preserved."
    )
    return Table(title, columns, rows, note)


def _short_effect(name: str, found: Effect | None) -> Cell:
    if found is None:
        return Cell(ABSENT, None, "muted")
    return Cell(signed(found.mean), found.mean, verdict(name, found).tone, f"≥ {signed(found.lower)}")


def verdict(name: str, found: Effect) -> Cell:
    """What the lower bound says; never more."""
    if found.improved:
        return Cell("better", 2, "good")
    if found.interval.high < 0:
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
        Column("A_TN against replay's", numeric=True),
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
            Cell(signed(each.effect.mean), each.effect.mean),
            Cell(signed(each.effect.lower), each.effect.lower),
            Cell(interval(each.effect.interval.low, each.effect.interval.high)),
            Cell(each.effect.wtl),
            Cell(str(len(each.pairs)), len(each.pairs)),
        )
        for each in found
    )
    note = "Each method at its best coefficient that reaches this A_TN, linear between grid points."
    return Table(f"H_cur at equal A_TN{where}", columns, rows, note)
