"""Sections that the report of a run and of a study have in common, made from one run's evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from meor.errors import MeorError
from meor.escape import clipped, visible
from meor.report import drawings, figures, tables
from meor.report.evidence import Evidence, gather
from meor.report.page import Block, Prose, Section, Template
from meor.report.record import RecordView, Summary, levels, record, summaries
from meor.report.words import clipped_path, count, number, plural, share, without_places
from meor.run.prepare import host_of, remarks
from meor.run.view import RunView
from meor.stream.snapshot import Stream

NAMED = 3
ENTITY_LABEL, RELATION_LABEL = 60, 34

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
    remarks: tuple[str, ...] = ()  # on updates that admit nobody, and on what is not learned


def read(
    view: RunView, data_dir: Path | None, say: Callable[[str], None], *, records_of: RunView | None = None
) -> Told:
    """Everything that can be read; what cannot is said, with the reason."""
    stream: Stream | None = None
    missing = ""
    try:
        say("reading the stream")
        stream = view.stream(data_dir)
    except MeorError as error:
        missing = without_places(str(error))
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
            missing = without_places(str(error))
    entities = [clipped(visible(label), ENTITY_LABEL) for label in view.labels("entity")]
    relations = [clipped_path(visible(label), RELATION_LABEL) for label in view.labels("relation")]
    return Told(
        view,
        evidence,
        found,
        matched,
        summaries(records_of or view),
        missing,
        entities.__getitem__,
        relations.__getitem__,
        () if stream is None else tuple(remarks(stream, host_of(view.config))),
    )


def lost_over_updates(panels: Sequence[figures.LossPanel], told: Told | None, run_words: str) -> Section:
    blocks: list[Block] = []
    if any(panel.losses for panel in panels):
        worst = max((loss.old - loss.cur, loss.update) for panel in panels for loss in panel.losses)
        blocks.append(
            figures.figure(
                "losses",
                "Old facts at each update",
                "Bars for each update: historical mean reciprocal rank with newcomers (H_cur) and the "
                f"part lost to newcomers. The largest loss is {number(worst[0], 3)} at update {worst[1]}.",
                "Each bar is what old facts reach among the entities known before the update. The orange "
                "part is taken by entities admitted at that update. The set of old facts grows from "
                "update to update.",
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
                "same-facts",
                f"The same facts through all updates{run_words}",
                f"The test facts of snapshot 0 start at {number(first, 3)} and end at {number(last, 3)}; "
                f"newcomers account for {number(by_new, 3)}, changes among old entities for "
                f"{number(by_old, 3)}.",
                "Only facts of snapshot 0, so nothing but the candidates and the model changes. Changes "
                "among old entities come from moved old rows (none where the host freezes them) and from "
                "newly known answers that the filter removes; those below 0.0005 are not drawn.",
                partial(figures.waterfall, steps),
                (("fill-new", "newcomers of the update"), ("fill-mid", "entities that were there before")),
            )
        )
    if not blocks:
        blocks.append(Prose("There are no ranks to show this with.", "missing"))
    if told is not None:
        blocks.extend(Prose(f"{text[0].upper()}{text[1:]}", "note") for text in told.remarks)
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
            "with its gap as ?; an entity that is a known answer to it is never counted against it."
        )
    ]
    if evidence.worst:
        blocks.append(tables.worst_displaced(evidence.worst, told.entity, told.relation, NAMED))
    if evidence.culprits:
        blocks.append(tables.harmful(evidence, told.entity, told.relation))
    if evidence.missing:
        blocks.append(Prose(f"Newcomers are not named: {evidence.missing}", "missing"))
    if evidence.tables:
        blocks.append(Prose("Who bears it. A loss that falls on few is not seen in a mean."))
        blocks.extend(tables.tallies(table, told.relation) for table in reversed(evidence.tables))
    return Section("displaced", title, tuple(blocks))


def matched(told: Told | None) -> Section:
    title = "How the references matched"
    if told is None or not (told.levels or told.summaries):
        why = "there is no run to look at."
        if told is not None:
            why = told.missing or "no replay question has newcomers and old entities to match."
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
                f"without scores; sampled on {plural(sampled, 'replay question')} an update.",
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
