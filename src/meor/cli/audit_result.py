"""What an audit found: as a person reads it, and compared with what a run stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meor.escape import LONGEST, terminal
from meor.evaluation.audit import SplitAudit
from meor.evaluation.displacement import Displaced, tally
from meor.evaluation.endpoints import MARK, METRICS, Endpoint, Undefined, note, overall
from meor.evaluation.groups import SMALL, GroupReport
from meor.evaluation.rank import Ranks
from meor.run.layout import ENDPOINTS, RANKS, unfinished, update_name
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.typing import Role, Side, Split

WORST = 10
COLUMNS = ("H_old", "H_cur", "D_MCI", "A_TN", "A_QN")
HEADINGS = {
    "H_old": "among\nold\nH_old",
    "H_cur": "among\nall\nH_cur",
    "D_MCI": "\nlost\nD_MCI",
    "A_TN": "answer\nnew\nA_TN",
    "A_QN": "query\nnew\nA_QN",
}


def show(console: Console, stream: Stream, title: str, found: Mapping[Split, SplitAudit]) -> None:
    for split, part in found.items():
        console.print(Text(f"{terminal(title)}, {split.value} facts", style="bold"))
        console.print(_cells(part))
        _remarks(console, part)
        console.print(_worst(stream, part.worst[:WORST], part))
        if part.newcomers:
            console.print(_newcomers(stream, part))
        if part.groups is not None:
            console.print(_groups(part.groups))


def show_protocols(console: Console, older: Mapping[str, Mapping[str, Any]]) -> None:
    """The measures that other papers print."""
    for split, found in older.items():
        table = _table(
            f"The field's protocols, model after update {found['update']}, {split} facts", texts=("",)
        )
        for metric in METRICS:
            table.add_column(metric, justify="right", no_wrap=True)
        for name, words in (("A", "A: entities of the introducing snapshot"), ("B", "B: all entities")):
            table.add_row(words, *(f"{found[name][metric]:.4f}" for metric in METRICS))
            for measure, values in found.get("forgetting", {}).get(name, {}).items():
                cells = ("-" if values[metric] is None else f"{values[metric]:.4f}" for metric in METRICS)
                table.add_row(f"   {measure}", *cells)
        console.print(table)


def _cells(part: SplitAudit) -> Table:
    table = _table("Mean reciprocal rank of each cell", texts=())
    for name in ("update", "side", "old\nfacts", "pushed\ndown", *(HEADINGS[name] for name in COLUMNS)):
        table.add_column(name, justify="right", no_wrap=True)
    for each in part.by_id:
        asked = each.occurrences
        told = tally([each])
        values = [_in_cell(part.endpoints[name], asked.update, asked.side) for name in COLUMNS]
        table.add_row(
            str(asked.update), asked.side.label, f"{told.queries:,}", f"{told.displaced:,}", *values
        )
    table.add_section()
    total = part.total
    means = [_value(part.endpoints[name]) for name in COLUMNS]
    table.add_row("all", "", f"{total.queries:,}", f"{total.displaced:,}", *means, style="bold")
    table.caption = (
        "old facts: facts of earlier snapshots, ranked among the entities known before the update and among "
        "all of them; every cell weighs the same in the last row"
    )
    return table


def _in_cell(found: Endpoint | Undefined, update: int, side: Side) -> str:
    """A cell has its value even where another cell leaves the endpoint undefined."""
    cells = (cell for cell in found.cells if (cell.update, cell.side) == (update, side))
    return next((f"{cell.value:.4f}" for cell in cells), "-")


def _value(found: Endpoint | Undefined) -> str:
    whole = overall(found.to_json())
    return "-" if whole.value is None else f"{whole.value:.4f}{whole.mark}"


def _remarks(console: Console, part: SplitAudit) -> None:
    hits = {name: _value(part.endpoints[f"{name}_hits@10"]) for name in ("H_old", "H_cur", "A_TN")}
    console.print(
        f"Hits@10 of old facts: {hits['H_old']} among old entities, {hits['H_cur']} among all; "
        f"of new answers: {hits['A_TN']}."
    )
    settled = sum(int((each.occurrences.role == Role.SETTLED).sum()) for each in part.by_id)
    if settled:
        console.print(
            f"{settled:,} queries about new facts between old entities are reported apart (settled)."
        )
    for name in COLUMNS:
        found = part.endpoints[name]
        if isinstance(found, Undefined) and not found.cells:
            console.print(Text(found.reason))
    if marked := note((name, overall(part.endpoints[name].to_json())) for name in COLUMNS):
        console.print(Text(marked))


def _worst(stream: Stream, chosen: Sequence[Displaced], part: SplitAudit) -> Table | Text:
    if not chosen:
        return Text("No old answer lost rank to a newcomer.")
    table = _table(f"The {len(chosen)} worst displacements", texts=("query", "answer"))
    table.add_column("update", justify="right")
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("newcomers now ahead", overflow="fold")
    for each in chosen:
        head, relation, tail = each.fact
        anchor = _shown(stream.entities.label(tail if each.side is Side.HEAD else head))
        relation_label = _shown(stream.relations.label(relation))
        parts = ("?", relation_label, anchor) if each.side is Side.HEAD else (anchor, relation_label, "?")
        names = ", ".join(_shown(stream.entities.label(e)) for e in each.newcomers[:3])
        more = each.cur - each.old - min(3, len(each.newcomers))
        table.add_row(
            Text(" | ".join(parts)),
            _plain(stream.entities.label(each.answer)),
            str(each.update),
            f"{each.old} → {each.cur}",
            Text(names + (f" and {more:,} more" if more > 0 else "")),
        )
    return table


def _newcomers(stream: Stream, part: SplitAudit) -> Table:
    table = _table("Newcomers that push down most answers", texts=("newcomer",))
    for name in ("update", "answers", "reciprocal rank charged"):
        table.add_column(name, justify="right")
    for each in part.newcomers[:5]:
        label = _plain(stream.entities.label(each.id))
        table.add_row(label, str(each.update), f"{each.displaced:,}", f"{each.charge:.3f}")
    return table


def _groups(reports: Sequence[GroupReport]) -> Table:
    table = _table("By group of the answer", texts=("group",))
    for name in ("size", "old\nfacts", "pushed\ndown", *(HEADINGS[name] for name in COLUMNS)):
        table.add_column(name, justify="right", no_wrap=True)
    for report in reports:
        values = [_value(report.endpoints[name]) + ("*" if name in report.small else "") for name in COLUMNS]
        told = report.displacement
        counts = (f"{report.entities:,}", f"{told.queries:,}", f"{told.displaced:,}")
        table.add_row(_plain(report.name), *counts, *values)
    table.caption = (
        f"* a cell with fewer than {SMALL} queries; {MARK} over the cells that exist; - no cell holds a query"
    )
    return table


def _table(title: str, *, texts: Sequence[str]) -> Table:
    """A table that begins with these columns of text, which may be folded, unlike numbers."""
    table = Table(
        title=title, title_justify="left", caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for name in texts:
        table.add_column(name, overflow="fold")
    return table


def _plain(label: str) -> Text:
    """A label from someone's file is text, not markup."""
    return Text(_shown(label))


def _shown(label: str) -> str:
    return terminal(label, LONGEST)


def differences(view: RunView, found: Mapping[Split, SplitAudit], endpoints: dict[str, Any]) -> list[str]:
    """One sentence per difference between what a run stored and what the audit finds."""
    said: list[str] = []
    for split, part in found.items():
        for update, ranks in part.ranks.items():
            said.extend(_rank_differences(view, update, split, ranks))
    if view.has(ENDPOINTS) and not unfinished(view.path):
        said.extend(_endpoint_differences(view.endpoints(), endpoints))
    return said


def _rank_differences(view: RunView, update: int, split: Split, ranks: tuple[Ranks, ...]) -> list[str]:
    if not view.has(f"{update_name(update)}/{RANKS}"):
        return []
    stored = {each.occurrences.side: each for each in view.ranks(update).get(split, ())}
    said = []
    for each in ranks:
        asked = each.occurrences
        where = f"{update_name(update)}, {split.value}, side {asked.side.label}"
        other = stored.get(asked.side)
        if other is None or not np.array_equal(other.occurrences.fact, asked.fact):
            if len(asked):
                said.append(f"{where}: the stored ranks are of other facts")
            continue
        wrong = np.count_nonzero((other.old != each.old) | (other.cur != each.cur))
        if wrong:
            said.append(f"{where}: {wrong} of {len(asked)} stored ranks differ")
    return said


def _endpoint_differences(stored: Any, found: dict[str, Any]) -> list[str]:
    said = []
    for split, named in found.items():
        for name, content in named.items():
            try:
                other = stored[split][name]["value"]
            except (KeyError, TypeError):
                continue
            if other != content["value"]:
                said.append(f"{split} {name}: stored {other}, found {content['value']}")
    return said
