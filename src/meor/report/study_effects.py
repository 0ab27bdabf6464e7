"""Paired effects and the frontier, as sections of a study's report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from meor.evaluation.endpoints import MARK
from meor.methods import METHODS
from meor.methods.calibration_grid import MARGIN
from meor.report import figures, study_tables
from meor.report.figures import ForestGroup, ForestRow, FrontierLine, FrontierPoint
from meor.report.page import Block, Figure, Prose, Section
from meor.report.setting_names import labels, shared, where
from meor.report.study_data import Setting, StudyData
from meor.report.study_tables import Compared
from meor.report.words import effect_name, listed, method_name, number, share
from meor.study.effects import PRESERVED, Comparison, Effect
from meor.study.frontier import at_equal_acquisition, frontier_points
from meor.study.rows import Group

FOREST = ("H_cur", "D_MCI", "H_old", "A_TN", "A_QN")
FOREST_LEGEND = (
    ("fill-good", "one-sided lower bound above 0"),
    ("fill-neutral", "neither"),
    ("fill-bad", "one-sided upper bound below 0"),
    ("bound neutral", "one-sided 95 % lower bound"),
    ("margin", f"preservation margin {number(-MARGIN, 3)}"),
)


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
    tables = (study_tables.paired_short(compared), study_tables.paired(compared))
    return [_forest(compared), *(study_tables.with_sample(table, sample) for table in tables)]


def _within(head: str, setting: Setting, named: str) -> Compared:
    """One row a comparator."""
    labelled = tuple((method_name(each.comparator), each) for each in setting.comparisons)
    return Compared(head, labelled, "against", where=named)


def _across(head: str, settings: Sequence[Setting]) -> Compared:
    """One row a setting, where each has the same comparison."""
    comparisons = [setting.comparisons[0] for setting in settings]
    labelled = tuple(zip(labels(settings), comparisons, strict=True))
    return Compared(head, labelled, "setting", method_name(comparisons[0].comparator), shared(settings))


def _tone(found: Effect) -> str:
    return "good" if found.improved else "bad" if found.worsened else "neutral"


def _forest_group(name: str, comparisons: Sequence[tuple[str, Comparison]]) -> ForestGroup:
    rows = tuple(
        ForestRow(
            f"{label}{study_tables.marked(e)}", e.mean, e.interval.low, e.interval.high, e.lower, _tone(e)
        )
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
        f"intervals, upright ticks one-sided lower bounds. {study_tables.UNADJUSTED}{partly}",
        partial(figures.forest, shown),
        FOREST_LEGEND,
    )


def frontier_section(data: StudyData) -> tuple[Section, ...]:
    """Only where a study has several multiples of the balanced coefficient."""
    blocks: list[Block] = []
    for group in dict.fromkeys(setting.group for setting in data.settings):
        methods = [
            m for m in METHODS if any(r.group == group and r.method == m and r.multiple for r in data.rows)
        ]
        lines = [line for method in methods if len((line := _line(data, group, method)).points) > 2]
        if not lines:
            continue
        blocks.append(
            figures.figure(
                "frontier",
                f"Old facts kept against newcomers learned: {group}",
                "; ".join(
                    f"{line.name}: "
                    + ", ".join(
                        f"{p.label} A_TN {number(p.x, 3)} H_cur {number(p.y, 3)}" for p in line.points
                    )
                    for line in lines
                ),
                "Each curve starts at the host alone and goes through multiples of the method's balanced "
                "coefficient. Up and to the right is better. Thin crosses are two-sided 95 % intervals "
                f"over pairs, cut at the frame. Labels are the multiples of {lines[-1].name}.",
                partial(figures.frontier, lines),
                tuple((figures.method_swatch(line.tone), line.name) for line in lines),
            )
        )
        if data.head in methods:
            found = [
                each
                for other in methods
                if other != data.head
                for each in at_equal_acquisition(data.rows, group, str(data.head), other)
            ]
            if found:
                made = study_tables.equal_acquisition(found, f": {group}")
                blocks.append(study_tables.with_sample(made, data.sample))
    return (Section("frontier", "The frontier", tuple(blocks)),) if blocks else ()


def _line(data: StudyData, group: Group, method: str) -> FrontierLine:
    points = []
    for each in frontier_points(data.rows, group, method):
        x, y = each.A_TN, each.H_cur
        points.append(
            FrontierPoint(
                x.mean,
                y.mean,
                x.interval.low if x.interval else x.mean,
                x.interval.high if x.interval else x.mean,
                y.interval.low if y.interval else y.mean,
                y.interval.high if y.interval else y.mean,
                figures.coefficient_label(each.multiple) if each.multiple else "host alone",
            )
        )
    return FrontierLine(method_name(method), list(METHODS).index(method), tuple(points))
