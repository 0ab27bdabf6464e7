"""Two sections of a study's report: the frontier, and the paper's printed figures below ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from meor.methods import NONE
from meor.report import figures
from meor.report.figures import CurvePoint, FrontierLine
from meor.report.made import balance_cells
from meor.report.page import Block, Prose, Section
from meor.report.study_data import Setting, StudyData, with_sample
from meor.report.words import MINUS, PRESETS, bound, effect, method_name, number, short
from meor.study import popularity
from meor.study.effects import effect_name
from meor.study.frontier import families, frontier_points
from meor.study.frontier_tables import frontier_table, verdict_table
from meor.study.host_choice import host_name
from meor.study.paper import PaperTable, is_stream, paper_table, paper_tables
from meor.study.plan import Study
from meor.study.rows import ENDPOINTS, Group, Row
from meor.study.table import ABSENT, Column, Entry, Table, Value

KINDS = {"mean": "mean", "LB": "lower bound"}
TRANSFERRED = ("FBInc-S", "FBInc-L")
TRANSFER_COLUMNS = ("H_cur mean", "H_cur low", "H_cur high", "A_TN mean", "A_TN LB")

TONES = 7
"""Colours of methods; where there are more methods, they begin again."""


def frontier_section(data: StudyData) -> tuple[Section, ...]:
    """Only where a study has curves."""
    blocks: list[Block] = []
    for group in dict.fromkeys(setting.group for setting in data.settings):
        if data.plan is None or not any(row.curve for row in data.rows if row.group == group):
            continue
        lines = _lines(data.plan, data.rows, group)
        told = (
            f"{line.name}: "
            + ", ".join(
                f"{p.label} A_TN {number(p.x.mean, 3)} H_cur {number(p.y.mean, 3)}" for p in line.points
            )
            for line in lines
        )
        blocks.append(
            figures.figure(
                "frontier",
                f"Old facts kept against newcomers learned: {group}",
                "; ".join(told),
                "Each curve varies one thing: how long the host trains, how long rows may be, what a penalty "
                "is multiplied with. Up and to the right is better. Thin crosses are two-sided 95 % "
                f"intervals over pairs, cut at the frame. Labels are those of {lines[-1].name}.",
                partial(figures.frontier, lines),
                tuple((f"mark m{line.tone}", line.name) for line in lines),
            )
        )
        ahead, points = (make(data.plan, data.rows, group) for make in (verdict_table, frontier_table))
        tables = [each for each in (ahead, replace(points, folded=True)) if each.rows]
        blocks += [with_sample(each, data.sample) for each in tables]
    return (Section("frontier", "The frontier", tuple(blocks)),) if blocks else ()


def _lines(plan: Study, rows: Sequence[Row], group: Group) -> list[FrontierLine]:
    """Curves of one family share a colour and a shape."""
    tones = {name: at % TONES for at, name in enumerate(families(plan.curves))}
    found = []
    for name, curve in plan.curves.items():
        points = tuple(
            CurvePoint(each.A_TN, each.H_cur, short(each.at) if each.at else "alone")
            for each in frontier_points(rows, group, name, curve)
        )
        if points:
            found.append(FrontierLine(name, tones[curve.family or name], points))
    return found


def with_popularity(table: Table, settings: Mapping[str, Setting], data: StudyData) -> Table:
    """The baseline without a model, once per stream."""
    streams: dict[str, tuple[Value, ...]] = {}
    for label, setting in settings.items():
        if ends := popularity.endpoints_of(data.popularity, setting.group):
            first = (label,) if label else ()
            streams.setdefault(setting.group.stream, (*first, popularity.LABEL, *ends, None))
    if not streams:
        return table
    return replace(table, rows=(*table.rows, *streams.values()), notes=(*table.notes, popularity.NOTE))


def paper(data: StudyData) -> Section:
    found = beside_paper(data)
    title = "The paper’s figures beside ours"
    if not found:
        return Section("paper", title, (Prose("The paper reports nothing for these settings.", "note"),))
    return Section(
        "paper",
        title,
        (
            Prose(
                "Ours, and below each the printed cell, digit for digit; -- is what the paper does not "
                f"report. Its figures are shown for orientation and enter none of ours. {_agreement(data)}"
            ),
            *found,
        ),
    )


def _agreement(data: StudyData) -> str:
    """How far the presets of a study are the paper's setting."""
    presets = dict.fromkeys(setting.group.preset for setting in data.settings)
    return " ".join(f"Preset {name} is {PRESETS[name]}" for name in presets if name in PRESETS)


def beside_paper(data: StudyData) -> list[Table]:
    """Ours, and below each the paper's cell as printed. Its -- stays --."""
    found = []
    printed = paper_tables()
    for setting in data.settings:
        where = f": {setting.group}, rule {setting.rule}"
        if (absolute := paper_table("absolute", setting.group)) is not None:
            found.append(_absolute(absolute, setting, where))
            found += [_effects(printed[name], setting, where) for name in ("effects", "ablation")]
    found += [_transfer(printed["transfer"], data), _boundary(printed["boundary"], data)]
    return [table for table in found if table.rows]


def _absolute(printed: PaperTable, setting: Setting, where: str) -> Table:
    rows: list[tuple[Value, ...]] = []
    for each in setting.levels:
        if each.method in printed.rows:
            ours = [each.levels[name].mean if name in each.levels else None for name in printed.columns]
            cells = [
                _beside(number(mean), mean, printed.cell(each.method, name))
                for name, mean in zip(printed.columns, ours, strict=True)
            ]
            rows.append((method_name(each.method), *cells))
    title = f"Endpoints beside the paper's Table 2{where}"
    return Table(title, (Column("method"), *_levels(printed.columns)), tuple(rows))


def _effects(printed: PaperTable, setting: Setting, where: str) -> Table:
    """Two rows per comparator, means and lower bounds: in columns of their own they would not fit a page."""
    rows = []
    names = [name for name in ENDPOINTS if f"{name} mean" in printed.columns]
    for each in setting.comparisons:
        if each.method != "meor" or each.comparator not in printed.rows:
            continue
        for kind, words in KINDS.items():
            cells: list[Value] = [method_name(each.comparator), words]
            for name in names:
                found = each.effects.get(name)
                ours = None if found is None else found.mean if kind == "mean" else found.lower
                shown = (effect if kind == "mean" else bound)(ours, plus=False)
                cells.append(_beside(shown, ours, printed.cell(each.comparator, f"{name} {kind}")))
            rows.append(tuple(cells))
    title = f"Effects of MEOR beside the paper's Table {printed.number}{where}"
    columns = (Column("against"), Column("figure"), *_levels(map(effect_name, names)))
    return Table(title, columns, tuple(rows))


def _transfer(printed: PaperTable, data: StudyData) -> Table:
    rows: list[tuple[Value, ...]] = []
    for setting in data.settings:
        group = setting.group
        stream = next((name for name in TRANSFERRED if is_stream(group.stream, name)), group.stream)
        key = f"{stream} {host_name(group.host)} {group.backbone}"
        against = next((each for each in setting.comparisons if each.comparator == NONE), None)
        if key not in printed.rows or against is None or against.method != "meor":
            continue
        ours: list[float | None] = [None] * len(TRANSFER_COLUMNS)
        if (cur := against.effects.get("H_cur")) is not None:
            ours[:3] = cur.mean, cur.interval.low, cur.interval.high
        if (acquired := against.effects.get("A_TN")) is not None:
            ours[3:] = acquired.mean, acquired.lower
        cells = [
            _beside(
                (effect if column.endswith("mean") else bound)(value, plus=False),
                value,
                printed.cell(key, column),
            )
            for value, column in zip(ours, TRANSFER_COLUMNS, strict=True)
        ]
        rows.append((f"{group}, rule {setting.rule}", *cells))
    if rows:
        rows += _other_hosts(printed, data)
    names = ["ΔH_cur mean", "ΔH_cur low", "ΔH_cur high", "ΔA_TN mean", "ΔA_TN lower"]
    title = "Effects of MEOR beside the paper's Table 5"
    return Table(title, (Column("setting"), *_levels(names)), tuple(rows))


def _other_hosts(printed: PaperTable, data: StudyData) -> list[tuple[Value, ...]]:
    """The paper's rows of hosts that the study did not run; ours is --."""
    rows: list[tuple[Value, ...]] = []
    ran = {host_name(each.group.host) for each in data.settings}
    for key in printed.rows:
        stream, host, backbone = key.split()
        if host not in ran and any(is_stream(each.group.stream, stream) for each in data.settings):
            cells = (_beside(ABSENT, None, printed.cell(key, column)) for column in TRANSFER_COLUMNS)
            rows.append((f"{stream}, {host}-{backbone}", *cells))
    return rows


def _boundary(printed: PaperTable, data: StudyData) -> Table:
    """Active records among those that fix the coefficient; the paper says so for one stream."""
    columns = (
        *(Column("setting"), Column("method"), Column("pairs", "count")),
        *(Column("active, ours", "count"), Column("active, paper", "count")),
    )
    rows = tuple(
        (*balance_cells(each), Entry(None, "muted", text=" of ".join(printed.rows[each.method])))
        for each in data.balances
        if is_stream(each.group.stream, printed.stream) and each.method in printed.rows
    )
    return Table("Active records where coefficients are balanced", columns, rows)


def _levels(titles: Iterable[str]) -> tuple[Column, ...]:
    return tuple(Column(title, "level") for title in titles)


def _beside(shown: str, ours: float | None, printed: str | None) -> Entry:
    """Our figure, which sorts; the printed one stands below it as it is, but for a true minus sign."""
    paper = ABSENT if printed in (None, ABSENT) else str(printed).replace("-", MINUS)
    return Entry(ours, "muted" if ours is None else "", f"paper {paper}", text=shown)
