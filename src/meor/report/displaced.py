"""Who displaced whom: the old answers that lost most, the newcomers before them, and those that cost most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meor.errors import MeorError
from meor.evaluation import displacement
from meor.evaluation.culprits import Culprit, culprits, varied, with_newcomers
from meor.evaluation.displacement import Displaced, Tally, worst
from meor.evaluation.rank import Ranks, Rules
from meor.methods import METHODS
from meor.report.page import Block, Prose, Section
from meor.report.words import count, plural, query, share, without_places
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.table import Column, Entry, Table, Value
from meor.typing import Side, Split

Label = Callable[[int], str]

LISTED = 12
"""Displaced answers and newcomers that a report names."""

NAMED = 3
"""Newcomers that are named before one answer."""

SHOWN_ROWS = 30
"""Relations listed, those that lost most first."""

SEARCHED = 600
"""Worst cases from which those of different answers are taken."""

CALIBRATED = "these ranks are of calibrated scores, and the models hold the scores before calibration."


@dataclass(frozen=True, slots=True)
class Displacement:
    """What ranks tell, and the stream and the models beyond them."""

    total: Tally
    worst: tuple[Displaced, ...]
    culprits: tuple[Culprit, ...]
    tallies: tuple[displacement.Breakdown, ...]
    charged_of: tuple[int, int]  # displaced queries that were charged, of so many
    missing: str  # why newcomers are not named


def read_displacement(
    view: RunView, stream: Stream | None, ranks: Sequence[Ranks], missing: str
) -> Displacement:
    """`missing` says why there is no stream, if there is none."""
    found = varied(worst(ranks, SEARCHED), LISTED)
    guilty: tuple[Culprit, ...] = ()
    charged = (0, 0)
    by = () if stream is None else displacement.tables(stream, ranks)
    if METHODS[view.config.method].kind == "transform":
        missing = CALIBRATED
    elif stream is not None:
        try:
            rules = Rules(filter_splits=Split.each(view.config.evaluation.filter_splits))
            found = with_newcomers(stream, view.model, found, rules=rules)
            guilty, charged = culprits(stream, view.model, ranks, LISTED, rules=rules)
        except MeorError as error:
            missing = without_places(str(error))
    return Displacement(displacement.tally(ranks), found, guilty, by, charged, missing)


def displaced_section(found: Displacement | None, entity: Label, relation: Label, whose: str) -> Section:
    """`whose` says in which run all of this was seen."""
    title = "Who displaced whom"
    if found is None:
        return Section("displaced", title, (Prose("No run with ranks is here to name anybody.", "missing"),))
    total = found.total
    part = total.displaced / total.queries if total.queries else 0.0
    blocks: list[Block] = [
        Prose(
            f"{whose}Of {plural(total.queries, 'query', 'queries')} about old facts, "
            f"{count(total.displaced)} ({share(part)}) now have at least one newcomer before their "
            "answer. A query is written with ? in place of its answer; an entity that is a known answer "
            "to it is never counted against it."
        )
    ]
    if found.worst:
        blocks.append(worst_displaced(found.worst, entity, relation))
    if found.culprits:
        blocks.append(harmful(found, entity, relation))
    if found.missing:
        blocks.append(Prose(f"Newcomers are not named: {found.missing}", "missing"))
    if found.tallies:
        blocks.append(Prose("Which old answers lose. A loss that falls on few is not seen in a mean."))
        blocks.extend(tallies(table, relation) for table in reversed(found.tallies))
    return Section("displaced", title, tuple(blocks))


def worst_displaced(found: Sequence[Displaced], entity: Label, relation: Label) -> Table:
    """The answers that lost most, each with the newcomers that came to stand before it."""
    columns = (
        *(Column("query"), Column("answer"), Column("newcomers now before it", sortable=False)),
        Column("rank", "count", hint="among old entities, then among all"),
        Column("lost", "level", 3, hint="reciprocal rank lost"),
        Column("update", "count"),
    )
    rows = []
    for each in found:
        ahead = each.cur - each.old
        names = [entity(e) for e in each.newcomers[:NAMED]]
        more = f" and {count(ahead - len(names))} more" if ahead > len(names) and names else ""
        before = f"{', '.join(names)}{more}" if names else count(ahead)
        rows.append(
            (
                query_of(each.fact, each.side, entity, relation),
                entity(each.answer),
                Entry(None, "new", text=before),
                Entry(ahead, text=f"{count(each.old)} → {count(each.cur)}"),
                each.lost,
                each.update,
            )
        )
    told = (
        "Rank: among old entities, then among all. Lost: reciprocal rank. An answer is listed at most twice."
    )
    return Table("The old answers that lost most", columns, tuple(rows), (told,))


def harmful(found: Displacement, entity: Label, relation: Label) -> Table:
    """Newcomers by what they cost, each with the query it harms most."""
    columns = (
        *(Column("newcomer"), Column("harms most: query, answer, rank", sortable=False)),
        Column("passes", "count", hint="old answers it stands before"),
        Column("costs", "level", 2, hint="reciprocal rank, shared evenly among the newcomers ahead"),
        Column("update", "count"),
    )
    rows = tuple(
        (
            Entry(None, "new", text=entity(each.id)),
            _harm(guilty.harm, entity, relation),
            each.displaced,
            each.charge,
            each.update,
        )
        for guilty in found.culprits
        for each in (guilty.newcomer,)
    )
    charged, displaced = found.charged_of
    told = ["Passes: old answers it stands before. Costs: reciprocal rank, shared among the newcomers ahead."]
    if charged != displaced:
        told.append(
            f"Counted on the {count(charged)} displaced queries that lost most, of {count(displaced)}."
        )
    return Table("The newcomers that cost most", columns, rows, tuple(told))


def _harm(harm: Displaced, entity: Label, relation: Label) -> str:
    ranks = f"{count(harm.old)} → {count(harm.cur)}"
    return f"{query_of(harm.fact, harm.side, entity, relation)}: {entity(harm.answer)} ({ranks})"


def query_of(fact: tuple[int, int, int], side: Side, entity: Label, relation: Label) -> str:
    head, of, tail = fact
    return query(entity(head), relation(of), entity(tail), head_missing=side is Side.HEAD)


TALLIED = {
    "relation": ("By relation", "relation"),
    "admitted_at": ("By the snapshot that admitted the answer", "snapshot"),
    "degree_bin": ("By how often the answer is seen in training", "degree"),
}


def tallies(table: displacement.Breakdown, relation: Label) -> Table:
    """What was lost by relation, by the answer's admission, by its degree."""
    title, first = TALLIED[table.name]
    columns = (
        *(Column(first), Column("queries", "count"), Column("displaced", "share")),
        *(Column("places lost per query", "level", 2), Column("mean reciprocal rank lost", "level")),
    )
    ordered, notes = list(table.rows), tuple[str, ...]()
    if table.name == "relation":
        ordered.sort(key=lambda row: -row[1].lost)
        if len(ordered) > SHOWN_ROWS:
            notes = (f"The {SHOWN_ROWS} relations that lost most in all, of {count(len(ordered))}.",)
            ordered = ordered[:SHOWN_ROWS]
    rows = tuple((_key(table.name, key, relation), *_tally(found)) for key, found in ordered)
    return Table(title, columns, rows, notes, folded=table.name == "relation")


def _key(name: str, key: int, relation: Label) -> Value:
    if name == "relation":
        return relation(key)
    if name == "degree_bin":
        low, high = (0, 0) if key == 0 else (2 ** (key - 1), 2**key - 1)
        return Entry(key, text=count(low) if low == high else f"{count(low)} to {count(high)}")
    return Entry(key, text=str(key))


def _tally(found: Tally) -> tuple[Value, ...]:
    size = found.queries
    part, places = (found.displaced / size, found.places / size) if size else (None, None)
    return (size, part, places, found.mean_lost)
