"""The paper's printed figures below ours, cell by cell and digit for digit."""

from __future__ import annotations

from collections.abc import Sequence

from meor.hosts import HOSTS
from meor.methods import NONE
from meor.report.page import Cell, Column, Table
from meor.report.study_data import Setting, StudyData
from meor.report.words import ABSENT, MINUS, bound, effect, effect_name, method_name, number
from meor.study.effects import EFFECTS
from meor.study.paired_tables import is_stream
from meor.study.paper import PaperTable, paper_tables

KINDS = {"mean": "mean", "LB": "lower bound"}
TRANSFERRED = ("FBInc-S", "FBInc-L")
TRANSFER_COLUMNS = ("H_cur mean", "H_cur low", "H_cur high", "A_TN mean", "A_TN LB")


def beside_paper(data: StudyData) -> list[Table]:
    """Ours, and below each the paper's cell as printed. Its -- stays --."""
    found = []
    printed = paper_tables()
    for setting in data.settings:
        where = f": {setting.group}, rule {setting.rule}"
        group = setting.group
        if is_stream(group.stream, "ENTITY") and group.backbone == "complex" and group.host == "replay":
            found.append(_paper_absolute(printed["absolute"], setting, where))
            for name in ("effects", "ablation"):
                found += _paper_effects(printed[name], setting, where)
    found += _paper_transfer(printed["transfer"], data)
    found.append(_boundary(printed["boundary"], data))
    return [table for table in found if table.rows]


def _paper_absolute(printed: PaperTable, setting: Setting, where: str) -> Table:
    rows = []
    for each in setting.levels:
        if each.method in printed.rows:
            cells = [Cell(method_name(each.method))]
            for name in printed.columns:
                level = each.levels.get(name)
                ours = None if level is None else level.mean
                cells.append(_beside(number(ours), ours, printed, each.method, name))
            rows.append(tuple(cells))
    return Table(f"Endpoints beside the paper's Table 2{where}", _columns(printed.columns), tuple(rows))


def _paper_effects(printed: PaperTable, setting: Setting, where: str) -> list[Table]:
    """Two rows a comparator, means and lower bounds: in columns of their own they would not fit a page."""
    rows = []
    names = [name for name in EFFECTS if f"{name} mean" in printed.columns]
    for each in setting.comparisons:
        if each.method != "meor" or each.comparator not in printed.rows:
            continue
        for kind, words in KINDS.items():
            cells = [Cell(method_name(each.comparator)), Cell(words)]
            for name in names:
                found = each.effects.get(name)
                ours = None if found is None else found.mean if kind == "mean" else found.lower
                shown = (effect if kind == "mean" else bound)(ours, plus=False)
                cells.append(_beside(shown, ours, printed, each.comparator, f"{name} {kind}"))
            rows.append(tuple(cells))
    title = f"Effects of MEOR beside the paper's Table {printed.number}{where}"
    effects = (Column(effect_name(name), numeric=True) for name in names)
    return [Table(title, (Column("against"), Column("figure"), *effects), tuple(rows))]


def _paper_transfer(printed: PaperTable, data: StudyData) -> list[Table]:
    rows = []
    for setting in data.settings:
        group = setting.group
        stream = next((name for name in TRANSFERRED if is_stream(group.stream, name)), group.stream)
        key = f"{stream} {group.host} {group.backbone}"
        against = next((each for each in setting.comparisons if each.comparator == NONE), None)
        if key not in printed.rows or against is None or against.method != "meor":
            continue
        cur, acquired = against.effects.get("H_cur"), against.effects.get("A_TN")
        ours = [
            None if cur is None else cur.mean,
            None if cur is None else cur.interval.low,
            None if cur is None else cur.interval.high,
            None if acquired is None else acquired.mean,
            None if acquired is None else acquired.lower,
        ]
        cells = [Cell(f"{group}, rule {setting.rule}")]
        for value, column in zip(ours, TRANSFER_COLUMNS, strict=True):
            shown = (effect if column.endswith("mean") else bound)(value, plus=False)
            cells.append(_beside(shown, value, printed, key, column))
        rows.append(tuple(cells))
    if rows:
        rows += _hosts_to_come(printed, data)
    names = ["ΔH_cur mean", "ΔH_cur low", "ΔH_cur high", "ΔA_TN mean", "ΔA_TN lower"]
    return [Table("Effects of MEOR beside the paper's Table 5", _columns(names, "setting"), tuple(rows))]


def _hosts_to_come(printed: PaperTable, data: StudyData) -> list[tuple[Cell, ...]]:
    """The paper's rows of hosts that are not there yet; ours is --."""
    rows = []
    for key in printed.rows:
        stream, host, backbone = key.split()
        if host not in HOSTS and any(is_stream(each.group.stream, stream) for each in data.settings):
            cells = (_beside(ABSENT, None, printed, key, column) for column in TRANSFER_COLUMNS)
            rows.append((Cell(f"{stream}, {host}-{backbone}"), *cells))
    return rows


def _boundary(printed: PaperTable, data: StudyData) -> Table:
    """Active records among those that fix the coefficient; the paper says so for one stream."""
    columns = (
        *(Column("setting"), Column("method"), Column("pairs", numeric=True)),
        *(Column("active, ours", numeric=True), Column("active, paper", numeric=True)),
    )
    rows = tuple(
        (
            Cell(str(each.group)),
            Cell(method_name(each.method)),
            Cell(str(each.pairs), each.pairs),
            Cell(f"{each.active} of {each.records}", each.active),
            Cell(" of ".join(printed.rows[each.method]), None, "muted"),
        )
        for each in data.balances
        if is_stream(each.group.stream, printed.stream) and each.method in printed.rows
    )
    return Table("Active records where coefficients are balanced", columns, rows)


def _columns(names: Sequence[str], first: str = "method") -> tuple[Column, ...]:
    return (Column(first), *(Column(name, numeric=True) for name in names))


def _beside(shown: str, ours: float | None, printed: PaperTable, row: str, column: str) -> Cell:
    """Our figure, which sorts; the printed one stands below it as it is, but for a true minus sign."""
    text = printed.cell(row, column) or ABSENT
    paper = text if text == ABSENT else text.replace("-", MINUS)
    return Cell(shown, ours, "muted" if ours is None else "", below=f"paper {paper}")
