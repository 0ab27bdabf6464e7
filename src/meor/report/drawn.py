"""Drawings with the words that explain them: what was lost, how it works, how references matched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from meor.evaluation.rank import Ranks
from meor.report import drawings, figures
from meor.report.displaced import query_of
from meor.report.drawings import SHOWN_AHEAD, Crowd
from meor.report.evidence import Evidence
from meor.report.figures import FallLine
from meor.report.page import Block, Figure, Prose, Section
from meor.report.words import count, listed, method_name, number, plural, query, sentence, share
from meor.typing import Role

LEVELS_LEGEND = (
    ("level0", "same role, degree bin and relation signature"),
    ("level1", "same role and degree bin"),
    ("level2", "same role only"),
)
TAU = (
    "τ, the unit of the axis, is the spread of old entities’ scores for this query (their interquartile "
    "range, with a floor), so that queries can be compared."
)
PRESSURES = {
    "U": "a smooth mean, led by the largest, of how far the candidates of a row score above the answer",
    "V": "how far the highest candidate of a row scores above the answer",
}


@dataclass(frozen=True, slots=True)
class Example:
    """One old query through every update."""

    fact: tuple[int, int, int]
    head_missing: bool
    crowds: tuple[Crowd, ...]


def example_of(ranks: Sequence[Ranks], counts: Sequence[int]) -> Example | None:
    """A query of snapshot 0 that newcomers pass at most updates; if there is, one that fits a drawing."""
    fitting = _passed_most(ranks, counts, SHOWN_AHEAD)
    return fitting if fitting is not None else _passed_most(ranks, counts, counts[-1])


def _passed_most(ranks: Sequence[Ranks], counts: Sequence[int], lowest: int) -> Example | None:
    """Of the queries that never rank below `lowest`."""
    series: dict[tuple[int, int, int, int], list[tuple[int, int, int]]] = defaultdict(list)
    updates = {each.occurrences.update for each in ranks}
    for each in ranks:
        asked = each.occurrences
        first = (asked.snapshot == 0) & (asked.role == Role.HISTORICAL)
        rows = np.flatnonzero(first & (each.cur <= lowest))
        for row in rows:
            head, relation, tail = (int(part) for part in asked.fact[row])
            place = (asked.update, int(each.old[row]), int(each.cur[row]))
            series[head, relation, tail, int(asked.side)].append(place)
    whole = {key: found for key, found in series.items() if len(found) == len(updates)}
    if not whole:
        return None

    def clearness(key: tuple[int, int, int, int]) -> tuple[float, ...]:
        found = whole[key]
        passed = sum(cur > old for _, old, cur in found)
        return (passed, 1 / found[0][1] - 1 / found[-1][2], *(-part for part in key))

    key = max(whole, key=clearness)
    crowds = tuple(
        Crowd(update, counts[update - 1], counts[update], int(old) - 1, int(cur - old))
        for update, old, cur in sorted(whole[key])
    )
    if not any(crowd.ahead_new for crowd in crowds):
        return None
    return Example(key[:3], key[3] == 0, crowds)


def fall_figure(lines: Sequence[FallLine], whose: str = "") -> Figure:
    ends = "; ".join(
        f"{line.name} from {number(line.losses[0].old, 3)} to {number(line.losses[-1].cur, 3)}"
        for line in lines
    )
    return figures.figure(
        "same-facts",
        f"The same facts through all updates{whose}",
        f"Mean reciprocal rank of the facts of snapshot 0: {ends}.",
        "Only facts of snapshot 0, so nothing but the candidates and the model changes. The start is their "
        "level among the entities of snapshot 0. Upright orange parts went to the newcomers of an update. "
        "What changes between updates comes from moved old rows (none where the host freezes them) and from "
        "newly known answers that the filter removes.",
        partial(figures.falls, lines),
        (*((f"curve {line.key}", line.name) for line in lines), ("fill-new", "taken by newcomers")),
    )


def same_facts(lines: Sequence[FallLine], whose: str, remarks: Sequence[str]) -> Section:
    """The facts of snapshot 0 under each method, and what is to be said of the updates."""
    missing = Prose("There are no ranks to show this with.", "missing")
    blocks: list[Block] = [fall_figure(lines, whose) if lines else missing]
    blocks.extend(Prose(sentence(text), "note") for text in remarks)
    return Section("lost", "Where rank was lost", tuple(blocks))


def growth_drawing(told: Evidence | None) -> tuple[Block, ...]:
    example = None if told is None or not told.ranks else example_of(told.ranks, told.counts)
    if told is None or example is None:
        return (Prose(_no_admission(told), "missing"),)
    head, relation, tail = example.fact
    answer = told.entity(head if example.head_missing else tail)
    shown = query(
        told.entity(head), told.relation(relation), told.entity(tail), head_missing=example.head_missing
    )
    first, last = example.crowds[0], example.crowds[-1]
    ranks = ", ".join(count(1 + crowd.ahead_old + crowd.ahead_new) for crowd in example.crowds)
    passed = sum(crowd.ahead_new > 0 for crowd in example.crowds)
    squeezed = (
        f" Where more than {SHOWN_AHEAD} stand before the answer, the squares show their shares."
        if any(crowd.ahead_old + crowd.ahead_new > SHOWN_AHEAD for crowd in example.crowds)
        else ""
    )
    return (
        figures.figure(
            "growth",
            "How admission grows the candidate universe",
            f"The query {shown} with the answer {answer}. Its rank is {count(1 + first.ahead_old)} "
            f"before update {first.update} and then {ranks} as the universe grows from "
            f"{count(first.n_old)} to {count(last.n_cur)} entities.",
            f"A real query of this run: {shown}, answer: {answer}. Blue squares are old entities "
            "before the answer, orange ones newcomers of that update; the diamond is the answer. It was "
            f"chosen because newcomers pass it at {passed} of {len(example.crowds)} updates; the tables "
            f"below say how common that is.{squeezed}",
            partial(drawings.growth, example.crowds, first.n_old, answer),
            (("fill-old", "known before"), ("fill-new", "admitted at this update"), ("answer", "the answer")),
        ),
    )


def _no_admission(told: Evidence | None) -> str:
    if told is None:
        return "No admission is drawn: no folder of a run is here."
    if not told.ranks:
        return "No admission is drawn: this run has no ranks yet."
    if told.admitted == 0:
        return "No update admitted an entity: there is no admission to draw."
    return (
        "Newcomers pass no fact of snapshot 0 that is ranked at every update: there is no admission to draw."
    )


def excess_drawing(told: Evidence | None) -> tuple[Block, ...]:
    found = told.record if told is not None else None
    if told is None or found is None:
        why = (
            told.missing
            if told is not None and told.missing
            else "no replayed query has newcomers and old entities to compare."
        )
        return (Prose(f"What MEOR compares cannot be drawn: {why}", "missing"),)
    # the label as the page shows it: a record knows it in full
    drawing = replace(found.drawing, answer=told.entity(found.fact[found.side.answer_column]))
    shown = query_of(found.fact, found.side, told.entity, told.relation)
    method = told.view.config.method
    own = (
        f"A real record of this run ({method_name(method)})."
        if found.of_the_run
        else "This run has no penalty; drawn is what MEOR would have seen at its weights."
    )
    clear = (
        " The record stands at the upper tenth of excess, so it shows the mechanism more clearly than most."
        if drawing.excess > 0
        else ""
    )
    ahead = [told.entity(e) for e in found.strongest]
    names = f" Newcomers ahead: {listed(ahead, 5)}." if ahead else ""
    verdict = (
        f"they exceed it by {number(drawing.excess, 3)}, which is what the penalty squares"
        if drawing.excess > 0
        else "they do not exceed it, so there is no penalty"
    )
    return (
        figures.figure(
            "comparison",
            "How MEOR compares newcomers with matched old entities",
            f"Score gaps to the answer {drawing.answer} in units of tau for newcomers and "
            f"{len(drawing.strips) - 1} matched draws of old entities. Newcomer pressure "
            f"{number(drawing.strips[0].pressure, 3)}, mean reference {number(drawing.reference, 3)}, "
            f"excess {number(drawing.excess, 3)}.",
            f"{own} Update {found.update}, query {shown}, answer {drawing.answer}. Right of the "
            "answer's line stand candidates that score above it; a triangle marks the pressure "
            f"{drawing.measure} of a row. Newcomers press with {number(drawing.strips[0].pressure, 3)}, "
            f"structurally matched old entities with {number(drawing.reference, 3)} on average: {verdict}."
            f"{names}{clear} {TAU} {drawing.measure} is {PRESSURES[drawing.measure]}; 0 where none does.",
            partial(drawings.comparison, drawing),
            (("fill-new", "newcomers"), ("fill-old", "matched old entities"), ("answer", "the answer")),
        ),
    )


def drawn(told: Evidence | None, *, compared: bool = True) -> Section:
    """What a penalty compares is drawn where there is one in question."""
    blocks = (*growth_drawing(told), *(excess_drawing(told) if compared else ()))
    return Section("how", "How it works, on a real query", blocks)


def matched(told: Evidence | None) -> Section:
    title = "How the references matched"
    if told is None or not (told.levels or told.records):
        why = "there is no run to look at."
        if told is not None:
            why = told.missing or "no replayed query has newcomers and old entities to match."
        return Section("matched", title, (Prose(f"This cannot be shown: {why}", "missing"),))
    blocks: list[Block] = []
    if told.levels:
        least = min(each.shares[0] for each in told.levels)
        sampled = told.levels[0].occurrences
        blocks.append(
            figures.figure(
                "matching",
                "Share of newcomers by the key that found a reference",
                "; ".join(
                    f"update {each.update}: {share(each.shares[0])} finest, {share(each.shares[1])} by "
                    f"degree, {share(each.shares[2])} by role"
                    for each in told.levels
                ),
                "Each newcomer takes its reference from the finest cell that holds an old entity; the "
                f"finer, the more alike they are. At least {share(least)} match on everything. Chosen "
                "without scores; sampled on "
                f"{plural(sampled, 'replayed query', 'replayed queries')} per update.",
                partial(drawings.matching, told.levels),
                LEVELS_LEGEND,
            )
        )
    if told.view.config.method == "uor":
        blocks.append(Prose("UOR does not match: it draws from every old entity in the role.", "note"))
    if told.records is not None:
        blocks.append(told.records)
    else:
        blocks.append(Prose("This run stores no penalty records: its method has no penalty.", "note"))
    return Section("matched", title, tuple(blocks))
