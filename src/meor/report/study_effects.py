"""Paired effects and the frontier, as sections of a study's report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from meor.evaluation.calibration_grid import MARGIN
from meor.report import figures, study_tables
from meor.report.figures import ForestGroup, ForestRow, FrontierLine, FrontierPoint
from meor.report.page import Block, Figure, Prose, Section
from meor.report.run_page import stream_name
from meor.report.study_data import METHOD_ORDER, Setting, StudyData
from meor.report.words import backbone_name, effect_name, method_name, number, share, signed
from meor.study.effects import PRESERVED, Comparison
from meor.study.frontier import at_equal_acquisition, frontier_points
from meor.study.rows import Group

FOREST = ("H_cur", "D_MCI", "H_old", "A_TN")
FOREST_LEGEND = (
    ("fill-good", "lower bound above 0"),
    ("fill-neutral", "neither"),
    ("fill-bad", "interval below 0"),
    ("bound neutral", "one-sided 95 % lower bound"),
    ("margin", f"preservation margin {number(-MARGIN, 3)}"),
)


def where(data: StudyData, setting: Setting) -> str:
    if len(data.settings) == 1:
        return ""
    rules = len({s.rule for s in data.settings}) > 1
    named = [str(setting.group)] if data.groups > 1 else []
    named += [f"rule {setting.rule}"] if rules else []
    return f": {', '.join(named)}"


def effects(data: StudyData) -> Section:
    blocks: list[Block] = []
    compared = [setting for setting in data.settings if setting.comparisons]
    if data.head is None or not compared:
        why = "; ".join(text for setting in data.settings for text in setting.uncompared)
        return Section(
            "effects", "Paired effects", (Prose(f"No paired effect can be stated. {why}".strip(), "missing"),)
        )
    many = len(compared) > 2 and all(len(setting.comparisons) == 1 for setting in compared)
    if many:
        blocks.append(_forest(_across(compared), data.head, ""))
    for setting in compared:
        named = where(data, setting)
        if not many:
            blocks.append(_forest(_within(setting), data.head, named))
        for table in (study_tables.paired_short, study_tables.paired):
            made = table(setting.comparisons, data.head, named)
            blocks.append(study_tables.with_sample(made, data.sample))
        blocks.extend(Prose(text, "missing") for text in setting.uncompared)
        if any(each.active_share is not None for each in setting.comparisons):
            active = setting.comparisons[0].active_share
            blocks.append(
                Prose(f"Active records of {method_name(data.head)}{named}: {share(active)}.", "note")
            )
    return Section("effects", "Paired effects", tuple(blocks))


def _within(setting: Setting) -> list[ForestGroup]:
    """One group of rows an endpoint, one row a comparator."""
    return [
        _forest_group(name, [(method_name(c.comparator), c) for c in setting.comparisons]) for name in FOREST
    ]


def _across(settings: Sequence[Setting]) -> list[ForestGroup]:
    """One row a setting, where each has one comparison."""
    labelled = [
        (
            f"{stream_name(s.group.stream)} {backbone_name(s.group.backbone)}, {s.group.preset}, {s.rule}",
            s.comparisons[0],
        )
        for s in settings
    ]
    return [_forest_group(name, labelled) for name in FOREST]


def _forest_group(name: str, comparisons: Sequence[tuple[str, Comparison]]) -> ForestGroup:
    rows = tuple(
        ForestRow(label, e.mean, e.interval.low, e.interval.high, e.lower)
        for label, each in comparisons
        if (e := each.effects.get(name)) is not None
    )
    return ForestGroup(effect_name(name), rows, MARGIN if name in PRESERVED else None)


def _forest(groups: Sequence[ForestGroup], head: str, named: str) -> Figure:
    shown = [group for group in groups if group.rows]
    alt = "; ".join(
        f"{group.title} against {row.label} {signed(row.mean)} [{number(row.low)}, {number(row.high)}]"
        for group in shown
        for row in group.rows
    )
    return figures.figure(
        "forest",
        f"{method_name(head)} against the others{named}",
        alt,
        "Right of zero is better for every row. Diamonds are means over pairs, lines two-sided 95 % "
        "intervals, upright ticks one-sided lower bounds. Intervals are not adjusted for the number of "
        "comparisons.",
        partial(figures.forest, shown),
        FOREST_LEGEND,
    )


def frontier_section(data: StudyData) -> tuple[Section, ...]:
    """Only where a study has several multiples of the balanced coefficient."""
    blocks: list[Block] = []
    for group in dict.fromkeys(setting.group for setting in data.settings):
        methods = [
            m
            for m in METHOD_ORDER
            if any(r.group == group and r.method == m and r.multiple for r in data.rows)
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
                "Each curve starts at replay and goes through multiples of the method's balanced "
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
                figures.coefficient_label(each.multiple) if each.multiple else "replay",
            )
        )
    return FrontierLine(method_name(method), METHOD_ORDER.index(method), tuple(points))
