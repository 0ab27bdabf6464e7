"""Who displaced whom: the old answers that lost most, the newcomers before them, and those that cost most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from meor.errors import MeorError
from meor.evaluation import displacement
from meor.evaluation.audit import Newcomer
from meor.evaluation.blame import blame, name_newcomers
from meor.evaluation.displacement import Displaced, displaced_at, worst
from meor.evaluation.rank import Ranks, Rules
from meor.methods import METHODS
from meor.report.words import count, query, without_places
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.table import Column, Entry, Table
from meor.typing import Floats, Role, Side, Split

Label = Callable[[int], str]

CHARGED = 40_000
"""Displaced queries whose newcomers are counted; beyond, those that lost most."""

LISTED = 12
"""Displaced answers and newcomers that a report names."""

NAMED = 3
"""Newcomers that are named before one answer."""

SEARCHED = 600
"""Worst cases from which those of different answers are taken."""

CALIBRATED = "these ranks are of calibrated scores, and the models hold the scores before calibration."


@dataclass(frozen=True, slots=True)
class Culprit:
    """A newcomer, and the one old answer that it costs most."""

    newcomer: Newcomer
    harm: Displaced


@dataclass(frozen=True, slots=True)
class Displacement:
    """What the stream and the models tell beyond ranks."""

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
            found = named(view, stream, found)
            guilty, charged = culprits(view, stream, ranks, LISTED)
        except MeorError as error:
            missing = without_places(str(error))
    return Displacement(found, guilty, by, charged, missing)


def named(view: RunView, stream: Stream, found: Sequence[Displaced]) -> tuple[Displaced, ...]:
    rules = _rules(view)
    named = list(found)
    for update in sorted({each.update for each in found}):
        place = [index for index, each in enumerate(found) if each.update == update]
        told = name_newcomers(stream, view.model(update), [found[i] for i in place], rules=rules)
        for index, each in zip(place, told, strict=True):
            named[index] = each
    return tuple(named)


def varied(found: Sequence[Displaced], limit: int) -> tuple[Displaced, ...]:
    """The worst cases, an answer at most twice: a list of one answer teaches nothing."""
    chosen: list[Displaced] = []
    seen: dict[int, int] = defaultdict(int)
    for each in found:
        seen[each.answer] += 1
        if seen[each.answer] <= 2 and len(chosen) < limit:
            chosen.append(each)
    return tuple(chosen)


def culprits(
    view: RunView, stream: Stream, ranks: Sequence[Ranks], limit: int
) -> tuple[tuple[Culprit, ...], tuple[int, int]]:
    """The newcomers that cost most, and how many displaced queries that was counted on, of how many."""
    lost = [np.where(each.occurrences.role == Role.HISTORICAL, _lost(each), 0.0) for each in ranks]
    everything = np.concatenate(lost)
    displaced = int(np.count_nonzero(everything > 0))
    least = 0.0
    if displaced > CHARGED:
        least = float(np.partition(everything, len(everything) - CHARGED)[len(everything) - CHARGED])
    found: dict[int, Culprit] = {}
    charged = 0
    for each, mine in zip(ranks, lost, strict=True):
        chosen = each.select((mine > 0) & (mine >= least))
        charged += len(chosen.cur)
        told = blame(stream, view.model(each.occurrences.update), chosen, rules=_rules(view))
        for index in np.flatnonzero(told.displaced):
            entity = told.first + int(index)
            seen = Newcomer(entity, told.update, int(told.displaced[index]), float(told.charge[index]))
            harm = displaced_at(chosen, int(told.dearest[index]))
            found[entity] = _together(found.get(entity), Culprit(seen, harm))
    most = sorted(
        found.values(), key=lambda each: (-each.newcomer.charge, -each.newcomer.displaced, each.newcomer.id)
    )
    return tuple(most[:limit]), (charged, displaced)


def _together(before: Culprit | None, now: Culprit) -> Culprit:
    """What a newcomer does on both sides, with the worse of its harms."""
    if before is None:
        return now
    one, two = before.newcomer, now.newcomer
    both = Newcomer(one.id, one.update, one.displaced + two.displaced, one.charge + two.charge)
    return replace(max(before, now, key=lambda each: each.harm.share), newcomer=both)


def _lost(ranks: Ranks) -> Floats:
    """Reciprocal rank lost to newcomers; 0 where the answer is one."""
    old = np.where(ranks.old > 0, ranks.old, ranks.cur)
    return np.asarray(1 / old - 1 / ranks.cur)


def _rules(view: RunView) -> Rules:
    return Rules(filter_splits=Split.each(view.config.evaluation.filter_splits))


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
