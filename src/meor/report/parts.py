"""Sections that the report of a run and of a study have in common, made from one run's evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from meor.errors import MeorError
from meor.report import drawings, figures, tables
from meor.report.evidence import Evidence, gather
from meor.report.page import Block, Prose, Section, Template
from meor.report.record import RecordView, Summary, levels, record, summaries
from meor.report.words import clipped, count, listed, method_name, number, plural, query, share
from meor.run.view import RunView
from meor.stream.snapshot import Stream

NAMED = 3
LABEL = 60

LEVELS_LEGEND = (
    ("level0", "same role, degree bin and relation signature"),
    ("level1", "same role and degree bin"),
    ("level2", "same role only"),
)
LOSS_LEGEND = (
    ("fill-old soft", "kept: H_cur"),
    ("fill-new", "lost to newcomers: D_MCI"),
    ("level-old", "H_old"),
)


@dataclass(frozen=True, slots=True)
class Told:
    """A run, read once: what its report says about displacement, matching and a real record."""

    view: RunView
    evidence: Evidence | None
    record: RecordView | None
    levels: tuple[drawings.Levels, ...]
    summaries: tuple[Summary, ...]
    missing: str  # why stream or models could not be used
    entity: tables.Label
    relation: tables.Label


def read(view: RunView, data_dir: Path | None, say: Callable[[str], None]) -> Told:
    """Everything that can be read; what cannot is said, with the reason."""
    stream: Stream | None = None
    missing = ""
    try:
        say("reading the stream")
        stream = view.stream(data_dir)
    except MeorError as error:
        missing = _public(error)
    say("who displaced whom")
    evidence = gather(view, stream, missing)
    found: RecordView | None = None
    matched: tuple[drawings.Levels, ...] = ()
    if stream is not None:
        try:
            say("how references match")
            matched = levels(view, stream)
            found = record(view, stream)
        except MeorError as error:
            missing = _public(error)
    names = {kind: [clipped(label, LABEL) for label in view.labels(kind)] for kind in ("entity", "relation")}
    return Told(
        view,
        evidence,
        found,
        matched,
        summaries(view),
        missing,
        names["entity"].__getitem__,
        names["relation"].__getitem__,
    )


def lost_over_updates(panels: Sequence[figures.LossPanel], told: Told | None, run_words: str) -> Section:
    blocks: list[Block] = []
    if any(panel.losses for panel in panels):
        worst = max((loss.old - loss.cur, loss.update) for panel in panels for loss in panel.losses)
        blocks.append(
            figures.figure(
                "Old facts at each update",
                "Bars for each update: historical mean reciprocal rank with newcomers (H_cur) and the "
                "part lost to "
                f"newcomers. The largest loss is {number(worst[0], 3)} at update {worst[1]}.",
                "Each bar is what old facts reach among the entities known before the update. The orange "
                "part is "
                "taken by entities admitted at that update. The set of old facts grows from update to "
                "update.",
                partial(figures.loss_panels, panels),
                LOSS_LEGEND,
            )
        )
    steps = told.evidence.steps if told is not None and told.evidence is not None else ()
    if steps:
        first, last = steps[0].end, steps[-1].end
        by_new = sum(step.end - step.start for step in steps if step.cause == "new")
        by_old = last - first - by_new
        blocks.append(
            figures.figure(
                f"The same facts through all updates{run_words}",
                f"The test facts of snapshot 0 start at {number(first, 3)} and end at {number(last, 3)}; "
                "newcomers "
                f"account for {number(by_new, 3)}, changes among old entities for {number(by_old, 3)}.",
                "Only facts of snapshot 0, so nothing but the candidates and the model changes. Changes "
                "among old "
                "entities come from moved old rows (none where the host freezes them) and from newly known "
                "answers "
                "that the filter removes; those below 0.0005 are not drawn.",
                partial(figures.waterfall, steps),
                (("fill-new", "newcomers of the update"), ("fill-mid", "entities that were there before")),
            )
        )
    if not blocks:
        blocks.append(Prose("There are no ranks to show this with.", "missing"))
    return Section("lost", "Where rank was lost", tuple(blocks))


def displaced(told: Told | None, run_words: str) -> Section:
    title = "Who displaced whom"
    if told is None or told.evidence is None:
        return Section(
            "displaced", title, (Prose("No run with ranks is at hand to name anybody.", "missing"),)
        )
    evidence = told.evidence
    total = evidence.total
    part = total.displaced / total.queries if total.queries else 0.0
    blocks: list[Block] = [
        Prose(
            f"{run_words}Of {plural(total.queries, 'question')} about old facts, {count(total.displaced)} "
            f"({share(part)}) now have at least one newcomer before their answer. A question is written "
            "with its "
            "gap as ?; an entity that is a known answer to it is never counted against it."
        )
    ]
    if evidence.worst:
        blocks.append(tables.worst_displaced(evidence.worst, told.entity, told.relation, NAMED))
    if evidence.newcomers:
        blocks.append(tables.harmful(evidence, told.entity, told.relation))
    if evidence.missing:
        blocks.append(Prose(f"Newcomers are not named: {evidence.missing}", "missing"))
    if evidence.tables:
        blocks.append(Prose("Who bears it. A loss that falls on few is not seen in a mean."))
        blocks.extend(tables.tallies(table, told.relation) for table in reversed(evidence.tables))
    return Section("displaced", title, tuple(blocks))


def growth_drawing(told: Told | None) -> tuple[Block, ...]:
    example = told.evidence.example if told is not None and told.evidence is not None else None
    if told is None or example is None:
        return (
            Prose("No old question is passed by a newcomer, so there is no admission to draw.", "missing"),
        )
    head, relation, tail = example.fact
    answer = told.entity(head if example.head_missing else tail)
    asked = query(
        told.entity(head), told.relation(relation), told.entity(tail), head_missing=example.head_missing
    )
    first, last = example.crowds[0], example.crowds[-1]
    ranks = ", ".join(count(1 + crowd.ahead_old + crowd.ahead_new) for crowd in example.crowds)
    return (
        figures.figure(
            "How admission grows the candidate universe",
            f"The question {asked} with the answer {answer}. Its rank is {count(1 + first.ahead_old)} "
            "before update "
            f"{first.update} and then {ranks} as the universe grows from {count(first.n_old)} to "
            f"{count(last.n_cur)} "
            "entities.",
            f"A real question of this run: {asked}, answer: {answer}. Blue squares are old entities before "
            "the answer, "
            "orange ones newcomers of that update; the diamond is the answer. It was chosen because "
            "newcomers pass "
            "it at every turn; the tables below say how common that is.",
            partial(drawings.growth, example.crowds, first.n_old, answer),
            (("fill-old", "known before"), ("fill-new", "admitted at this update"), ("answer", "the answer")),
        ),
    )


def excess_drawing(told: Told | None) -> tuple[Block, ...]:
    found = told.record if told is not None else None
    if told is None or found is None:
        why = (
            told.missing
            if told is not None and told.missing
            else "no replay question has newcomers to compare."
        )
        return (Prose(f"What MEOR compares cannot be drawn: {why}", "missing"),)
    drawing = found.drawing
    asked = tables.asked(found.fact, found.side, told.entity, told.relation)
    method = told.view.config.method
    own = (
        f"A real record of this run ({method_name(method)})."
        if found.of_the_run
        else "This run has no penalty; drawn is what MEOR would have seen at its weights."
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
            "How MEOR compares newcomers with matched old entities",
            f"Score gaps to the answer {drawing.answer} in units of tau for newcomers and "
            f"{len(drawing.strips) - 1} "
            f"matched draws of old entities. Newcomer pressure {number(drawing.strips[0].pressure, 3)}, mean "
            f"reference {number(drawing.reference, 3)}, excess {number(drawing.excess, 3)}.",
            f"{own} Update {found.update}, question {asked}, answer {drawing.answer}. Right of the "
            "answer's line stand "
            f"candidates that score above it; a triangle marks the pressure U of a row. Newcomers press with "
            f"{number(drawing.strips[0].pressure, 3)}, structurally matched old entities with "
            f"{number(drawing.reference, 3)} on average: {verdict}.{names} The record stands at the upper "
            "tenth of "
            "excess, so it shows the mechanism more clearly than most do.",
            partial(drawings.comparison, drawing),
            (("fill-new", "newcomers"), ("fill-old", "matched old entities"), ("answer", "the answer")),
        ),
    )


def drawn(told: Told | None) -> Section:
    return Section("how", "How it works, on a real question", (*growth_drawing(told), *excess_drawing(told)))


def matched(told: Told | None) -> Section:
    title = "How the references matched"
    if told is None or not (told.levels or told.summaries):
        why = told.missing if told is not None and told.missing else "there is no replay buffer to look at."
        return Section("matched", title, (Prose(f"This cannot be shown: {why}", "missing"),))
    blocks: list[Block] = []
    if told.levels:
        least = min(each.shares[0] for each in told.levels)
        sampled = told.levels[0].occurrences
        blocks.append(
            figures.figure(
                "Share of newcomers by the key that found a reference",
                "; ".join(
                    f"update {each.update}: {share(each.shares[0])} finest, {share(each.shares[1])} by "
                    "degree, "
                    f"{share(each.shares[2])} by role"
                    for each in told.levels
                ),
                "Each newcomer takes its reference from the finest cell that holds an old entity; the "
                "finer, the "
                f"more alike they are. At least {share(least)} match on everything. Chosen without scores; "
                "sampled "
                f"on {plural(sampled, 'replay question')} an update.",
                partial(drawings.matching, told.levels),
                LEVELS_LEGEND,
            )
        )
    if told.view.config.method == "uor":
        blocks.append(Prose("UOR does not match: it draws from every old entity in the role.", "note"))
    if told.summaries:
        blocks.append(tables.record_summaries(told.summaries))
    else:
        blocks.append(Prose("This run stores no penalty records: its method has no penalty.", "note"))
    return Section("matched", title, tuple(blocks))


def limits() -> Section:
    return Section("limits", "Limits and responsible use", (Template("limits.html"),))


def _public(error: MeorError) -> str:
    """The kind of trouble, without this machine's paths."""
    text = str(error).split("/")[0].strip()
    return (
        text
        if text and text == str(error)
        else "the stream or the models are not on the machine that made this report."
    )
