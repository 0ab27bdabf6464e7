"""Paired effects and the frontier, as sections of a study's report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from meor.evaluation.endpoints import MARK
from meor.methods.calibration_grid import MARGIN
from meor.report import figures
from meor.report.figures import ForestGroup, ForestRow
from meor.report.page import Block, Figure, Prose, Section
from meor.report.study_data import UNADJUSTED, Setting, StudyData, labels, shared, where, with_sample
from meor.report.words import bound, bounds, listed, method_name, number, share
from meor.study.effects import PRESERVED, Effect, PairedComparison, effect_name
from meor.study.rows import ENDPOINTS
from meor.study.table import ABSENT, Column, Entry, Table

FOREST = ("H_cur", "D_MCI", "H_old", "A_TN", "A_QN")
FOREST_LEGEND = (
    ("fill-good", "one-sided lower bound above 0"),
    ("fill-neutral", "neither"),
    ("fill-bad", "one-sided upper bound below 0"),
    ("bound neutral", "one-sided 95 % lower bound"),
    ("margin", f"preservation margin {number(-MARGIN, 3)}"),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparisons of one method that stand together, each with the label of its rows."""

    head: str
    labelled: tuple[tuple[str, PairedComparison], ...]
    kind: str  # what labels name: "against" or "setting"
    other: str = "the other"  # whom all of them compare with, if it is one
    where: str = ""


def effects(data: StudyData) -> Section:
    compared = [setting for setting in data.settings if setting.comparisons]
    if data.head is None or not compared:
        why = ["No paired effect can be stated.", *_refused(data.head, data.settings)]
        return Section("effects", "Paired effects", (Prose(" ".join(why), "missing"),))
    blocks: list[Block] = []
    if data.merged:
        blocks += _shown(_across(data.head, compared), data.sample)
        blocks += [Prose(text, "missing") for text in _refused(data.head, data.settings)]
        return Section("effects", "Paired effects", tuple(blocks))
    for setting in compared:
        named = where(data, setting)
        blocks += _shown(_within(data.head, setting, named), data.sample)
        blocks += [Prose(text, "missing") for text in _refused(data.head, [setting])]
        active = setting.comparisons[0].active_share
        if active is not None:
            blocks.append(
                Prose(f"Active records of {method_name(data.head)}{named}: {share(active)}.", "note")
            )
    return Section("effects", "Paired effects", tuple(blocks))


def _refused(head: str | None, settings: Sequence[Setting]) -> list[str]:
    """Who is not compared and why: one sentence for all that have the same reason."""
    by_reason: dict[str, list[str]] = {}
    for setting in settings:
        for each in setting.uncompared:
            by_reason.setdefault(each.why, []).append(method_name(each.comparator))
    return [
        f"{method_name(str(head))} is not compared with {listed(list(dict.fromkeys(names)))}: {why}"
        for why, names in by_reason.items()
    ]


def _shown(compared: Compared, sample: int) -> list[Block]:
    tables = (paired_short(compared), paired(compared))
    return [_forest(compared), *(with_sample(table, sample) for table in tables)]


def _within(head: str, setting: Setting, named: str) -> Compared:
    """One row per comparator."""
    labelled = tuple((method_name(each.comparator), each) for each in setting.comparisons)
    return Compared(head, labelled, "against", where=named)


def _across(head: str, settings: Sequence[Setting]) -> Compared:
    """One row per setting, where each has the same comparison."""
    comparisons = [setting.comparisons[0] for setting in settings]
    labelled = tuple(zip(labels(settings), comparisons, strict=True))
    return Compared(head, labelled, "setting", method_name(comparisons[0].comparator), shared(settings))


def _tone(found: Effect) -> str:
    return "good" if found.improved else "bad" if found.worsened else "neutral"


def _forest_group(name: str, comparisons: Sequence[tuple[str, PairedComparison]]) -> ForestGroup:
    rows = tuple(
        ForestRow(f"{label}{e.mark}", e.mean, e.interval.low, e.interval.high, e.lower, _tone(e))
        for label, each in comparisons
        if (e := each.effects.get(name)) is not None
    )
    return ForestGroup(effect_name(name), rows, MARGIN if name in PRESERVED else None)


def _forest(compared: Compared) -> Figure:
    groups = [_forest_group(name, compared.labelled) for name in FOREST]
    shown = [group for group in groups if group.rows]
    alt = "; ".join(
        f"{group.title}, {compared.kind} {row.label}: {row.shown}" for group in shown for row in group.rows
    )
    against = "the others" if compared.kind == "against" else compared.other
    partly = f" {MARK} over the cells that exist." if MARK in alt else ""
    return figures.figure(
        "forest",
        f"{method_name(compared.head)} against {against}{compared.where}",
        alt,
        "Right of zero is better for every row. Diamonds are means over pairs, lines two-sided 95 % "
        f"intervals, upright ticks one-sided lower bounds. {UNADJUSTED}{partly}",
        partial(figures.forest, shown),
        FOREST_LEGEND,
    )


def paired(compared: Compared) -> Table:
    """All that is said about each paired effect."""
    columns = (
        *(Column(compared.kind), Column("effect"), Column("mean", "effect")),
        Column("lower bound", "bound", hint="one-sided 95 % Student t"),
        Column("two-sided 95 %, BCa below", "bound", sortable=False, hint="Student t; BCa bootstrap"),
        Column("W/T/L", "count", sortable=False, hint="pairs won, tied, lost at full precision"),
        Column("verdict"),
    )
    rows = tuple(
        (
            label,
            effect_name(name),
            Entry(found.mean, mark=found.mark),
            found.lower,
            Entry(
                None,
                text=bounds(found.interval.low, found.interval.high),
                below=bounds(found.bca.low, found.bca.high),
            ),
            found.wtl,
            verdict(name, found),
        )
        for label, each in compared.labelled
        for name, found in each.effects.items()
    )
    note = (
        f"{UNADJUSTED} For D_MCI the effect is the reduction, so up is good everywhere. An exact tie usually "
        "means that the penalty never acted."
    )
    title = f"Every paired effect of {method_name(compared.head)}{compared.where}"
    return Table(title, columns, rows, (note,), folded=True)


def paired_short(compared: Compared) -> Table:
    """One row per comparison: means, with one-sided lower bounds below them."""
    won = "pairs won, tied, lost on H_cur at full precision"
    columns = (
        Column(compared.kind),
        *(Column(effect_name(name), "effect") for name in ENDPOINTS),
        Column("W/T/L", "count", sortable=False, hint=won),
    )
    rows = tuple(
        (
            label,
            *(_short_effect(name, each.effects.get(name)) for name in ENDPOINTS),
            each["H_cur"].wtl if "H_cur" in each.effects else ABSENT,
        )
        for label, each in compared.labelled
    )
    minus = f"{method_name(compared.head)} minus {compared.other}"
    note = (
        "Green: better, or preserved where that is the question (H_old, A_TN). Red: worse, or not shown "
        f"to be preserved. {UNADJUSTED}"
    )
    return Table(f"{minus}, one-sided 95 % lower bound below{compared.where}", columns, rows, (note,))


def _short_effect(name: str, found: Effect | None) -> Entry | None:
    if found is None:
        return None
    return Entry(found.mean, verdict(name, found).tone, f"≥ {bound(found.lower)}", found.mark)


def verdict(name: str, found: Effect) -> Entry:
    """What the one-sided bounds say; never more."""
    if found.improved:
        return Entry(2, "good", text="better")
    if found.worsened:
        worse = "worse, within the margin" if name in PRESERVED and found.preserved else "worse"
        return Entry(0, "bad", text=worse)
    if name not in PRESERVED:
        return Entry(1, "muted", text="no difference shown")
    if found.preserved:
        return Entry(1, "good", text="preserved")
    return Entry(0, "bad", text="not shown to be preserved")
