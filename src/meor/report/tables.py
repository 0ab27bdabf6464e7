"""Tables of a report; each row starts with its header."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from meor.evaluation.displacement import Displaced, Tally
from meor.evaluation.displacement import Table as TallyTable
from meor.evaluation.endpoints import Overall, by_update, note, overall
from meor.report.evidence import Evidence
from meor.report.page import Cell, Column, Table
from meor.report.record import Summary
from meor.report.words import MEANING, count, listed, number, query, share
from meor.typing import Side

Label = Callable[[int], str]

SHOWN_ROWS = 30
"""Relations listed, those that lost most first."""


def endpoint_cells(split: Mapping[str, Any]) -> Table:
    """H_cur and its kin: over all cells, and by update."""
    updates = sorted(
        {int(cell["update"]) for name in MEANING for cell in split.get(name, {}).get("cells", ())}
    )
    columns = (
        Column("endpoint", sortable=False),
        Column("all", numeric=True, sortable=False),
        *(Column(f"update {update}", numeric=True, sortable=False) for update in updates),
    )
    rows = []
    for name in MEANING:
        endpoint = split.get(name, {})
        each = by_update(endpoint)
        values = [overall(endpoint), *(each.get(update, Overall(None, 0, 0)) for update in updates)]
        rows.append((Cell(name), *(overall_cell(value) for value in values)))
    told = note((name, overall(split.get(name, {}))) for name in MEANING)
    return Table("Endpoints: over all cells, and at each update", columns, tuple(rows), told)


def sides(split: Mapping[str, Any]) -> Table:
    """Every cell with its size: nothing is hidden in a mean."""
    columns = (
        Column("endpoint"),
        Column("update", numeric=True),
        Column("missing"),
        Column("queries", numeric=True),
        Column("value", numeric=True),
    )
    rows = [
        (
            Cell(name),
            Cell(str(cell["update"]), cell["update"]),
            Cell(cell["side"]),
            Cell(count(cell["size"]), cell["size"]),
            number_cell(cell["value"]),
        )
        for name in MEANING
        for cell in split.get(name, {}).get("cells", ())
    ]
    return Table("Every cell: one update, one missing side", columns, tuple(rows), folded=True)


def worst_displaced(found: Sequence[Displaced], entity: Label, relation: Label, named: int) -> Table:
    """The answers that lost most, each with the newcomers that came to stand before it."""
    columns = (
        Column("question"),
        Column("answer"),
        Column("newcomers now before it", sortable=False),
        Column("rank", numeric=True, hint="among old entities, then among all"),
        Column("lost", numeric=True, hint="reciprocal rank lost"),
        Column("update", numeric=True),
    )
    rows = []
    for each in found:
        ahead = each.cur - each.old
        names = [entity(e) for e in each.newcomers[:named]]
        more = f" and {count(ahead - len(names))} more" if ahead > len(names) and names else ""
        rows.append(
            (
                Cell(asked(each.fact, each.side, entity, relation)),
                Cell(entity(each.answer)),
                Cell(f"{', '.join(names)}{more}" if names else count(ahead), None, "new"),
                Cell(f"{count(each.old)} → {count(each.cur)}", ahead),
                Cell(number(each.lost, 3), each.lost),
                Cell(str(each.update), each.update),
            )
        )
    told = (
        "Rank: among old entities, then among all. Lost: reciprocal rank. An answer is listed at most twice."
    )
    return Table("The old answers that lost most", columns, tuple(rows), told)


def harmful(evidence: Evidence, entity: Label, relation: Label) -> Table:
    """Newcomers by what they cost, each with the question it harms most."""
    columns = (
        Column("newcomer"),
        Column("harms most: question, answer, rank", sortable=False),
        Column("passes", numeric=True, hint="old answers it stands before"),
        Column("costs", numeric=True, hint="reciprocal rank, shared evenly among the newcomers ahead"),
        Column("update", numeric=True),
    )
    rows = [
        (
            Cell(entity(each.id), None, "new"),
            Cell(_harm(guilty.harm, entity, relation)),
            Cell(count(each.displaced), each.displaced),
            Cell(number(each.charge, 2), each.charge),
            Cell(str(each.update), each.update),
        )
        for guilty in evidence.culprits
        for each in (guilty.newcomer,)
    ]
    charged, displaced = evidence.charged_of
    note = (
        ""
        if charged == displaced
        else (f"Counted on the {count(charged)} displaced questions that lost most, of {count(displaced)}.")
    )
    told = "Passes: old answers it stands before. Costs: reciprocal rank, shared among the newcomers ahead."
    return Table("The newcomers that cost most", columns, tuple(rows), f"{told} {note}".strip())


def _harm(harm: Displaced, entity: Label, relation: Label) -> str:
    ranks = f"{count(harm.old)} → {count(harm.cur)}"
    return f"{asked(harm.fact, harm.side, entity, relation)}: {entity(harm.answer)} ({ranks})"


def tallies(table: TallyTable, relation: Label) -> Table:
    """Who bears it: by relation, by the answer's admission, by its degree."""
    title = {
        "relation": "By relation",
        "admitted_at": "By the snapshot that admitted the answer",
        "degree_bin": "By how often the answer is seen in training",
    }[table.name]
    first = {"relation": "relation", "admitted_at": "snapshot", "degree_bin": "degree"}[table.name]
    columns = (
        Column(first),
        Column("questions", numeric=True),
        Column("displaced", numeric=True),
        Column("places lost a question", numeric=True),
        Column("mean reciprocal rank lost", numeric=True),
    )
    ordered = list(table.rows)
    note = ""
    if table.name == "relation":
        ordered.sort(key=lambda row: -row[1].lost)
        if len(ordered) > SHOWN_ROWS:
            note = f"The {SHOWN_ROWS} relations that lost most in all, of {count(len(ordered))}."
            ordered = ordered[:SHOWN_ROWS]
    rows = tuple((_key(table.name, key, relation), *_tally(found)) for key, found in ordered)
    return Table(title, columns, rows, note, folded=table.name == "relation")


def _key(name: str, key: int, relation: Label) -> Cell:
    if name == "relation":
        return Cell(relation(key))
    if name == "degree_bin":
        low, high = (0, 0) if key == 0 else (2 ** (key - 1), 2**key - 1)
        return Cell(count(low) if low == high else f"{count(low)} to {count(high)}", key)
    return Cell(str(key), key)


def _tally(found: Tally) -> tuple[Cell, ...]:
    part = found.displaced / found.queries if found.queries else None
    places = found.places / found.queries if found.queries else None
    return (
        Cell(count(found.queries), found.queries),
        Cell(share(part), part),
        Cell(number(places, 2), places),
        number_cell(found.mean_lost),
    )


def record_summaries(found: Sequence[Summary]) -> Table:
    columns = (
        Column("update"),
        Column("records", numeric=True),
        Column("active", numeric=True, hint="newcomer pressure above the reference"),
        Column("median τ", numeric=True),
        Column("mean U, newcomers", numeric=True),
        Column("mean U, references", numeric=True),
        Column("mean excess of active", numeric=True),
    )
    rows = tuple(
        (
            Cell(str(each.update), each.update),
            Cell(count(each.records), each.records),
            Cell(share(each.active / each.records), each.active / each.records),
            *(number_cell(value) for value in (each.tau, each.new, each.reference, each.excess)),
        )
        for each in found
    )
    return Table("The penalty's records, update by update", columns, rows)


def settings(values: Mapping[str, Any]) -> Table:
    columns = (Column("setting"), Column("value", sortable=False))
    return Table(
        "Every setting of the run, defaults included",
        columns,
        tuple((Cell(name), Cell(_shown(value))) for name, value in _flat(values)),
        folded=True,
    )


def number_cell(value: float | None, places: int = 4) -> Cell:
    return Cell(number(value, places), value, "muted" if value is None else "")


def overall_cell(found: Overall) -> Cell:
    """A mean over cells, marked where not all of them hold a query."""
    cell = number_cell(found.value)
    return replace(cell, text=cell.text + found.mark)


def asked(fact: tuple[int, int, int], side: Side, entity: Label, relation: Label) -> str:
    head, of, tail = fact
    return query(entity(head), relation(of), entity(tail), head_missing=side is Side.HEAD)


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found.extend(_flat(value, f"{prefix}{key}."))
        else:
            found.append((f"{prefix}{key}", value))
    return found


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return listed([str(each) for each in value])
    return "not set" if value is None else str(value)
