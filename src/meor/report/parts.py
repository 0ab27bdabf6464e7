"""Sections that the report of a run and of a study have in common, made from one run's evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from meor.errors import MeorError
from meor.escape import clipped, visible
from meor.evaluation import displacement
from meor.evaluation.displacement import Tally
from meor.report import figures
from meor.report.displaced import Displacement, Label, harmful, read_displacement, worst_displaced
from meor.report.drawings import Levels
from meor.report.evidence import Evidence, RecordView, gather, levels, record, records_table
from meor.report.page import Block, Figure, Prose, Section, Template
from meor.report.words import clipped_path, count, number, plural, share, without_places
from meor.run.prepare import host_of, remarks
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.table import Column, Entry, Table, Value

SHOWN_ROWS = 30
"""Relations listed, those that lost most first."""

ENTITY_LABEL, RELATION_LABEL = 60, 34

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
    displacement: Displacement | None
    record: RecordView | None
    levels: tuple[Levels, ...]
    records: Table | None  # of its penalty
    missing: str  # why stream or models could not be used
    entity: Label
    relation: Label
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
    evidence = gather(view)
    shown = None if evidence is None else read_displacement(view, stream, evidence.ranks, missing)
    found: RecordView | None = None
    matched: tuple[Levels, ...] = ()
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
        shown,
        found,
        matched,
        records_table(records_of or view),
        missing,
        entities.__getitem__,
        relations.__getitem__,
        () if stream is None else tuple(remarks(stream, host_of(view.config))),
    )


def loss_figure(panels: Sequence[figures.LossPanel]) -> Figure | None:
    """What old facts keep and lose at each update; None where no update was ranked."""
    found = [(loss.old - loss.cur, loss.update) for panel in panels for loss in panel.losses]
    if not found:
        return None
    lost, update = max(found)
    return figures.figure(
        "losses",
        "Old facts at each update",
        "Bars for each update: historical mean reciprocal rank with newcomers (H_cur) and the "
        f"part lost to newcomers. The largest loss is {number(lost, 3)} at update {update}.",
        "Each bar is what old facts reach among the entities known before the update. The orange "
        "part is taken by entities admitted at that update. The set of old facts grows from "
        "update to update.",
        partial(figures.loss_panels, panels),
        LOSS_LEGEND,
    )


def lost_over_updates(panels: Sequence[figures.LossPanel], told: Told | None, run_words: str) -> Section:
    drawn = loss_figure(panels)
    blocks: list[Block] = [] if drawn is None else [drawn]
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
    if told is None or told.evidence is None or told.displacement is None:
        return Section(
            "displaced", title, (Prose("No run with ranks is at hand to name anybody.", "missing"),)
        )
    total, found = told.evidence.total, told.displacement
    part = total.displaced / total.queries if total.queries else 0.0
    blocks: list[Block] = [
        Prose(
            f"{run_words}Of {plural(total.queries, 'query', 'queries')} about old facts, "
            f"{count(total.displaced)} ({share(part)}) now have at least one newcomer before their "
            "answer. A query is written with ? in place of its answer; an entity that is a known answer "
            "to it is never counted against it."
        )
    ]
    if found.worst:
        blocks.append(worst_displaced(found.worst, told.entity, told.relation))
    if found.culprits:
        blocks.append(harmful(found, told.entity, told.relation))
    if found.missing:
        blocks.append(Prose(f"Newcomers are not named: {found.missing}", "missing"))
    if found.tallies:
        blocks.append(Prose("Who bears it. A loss that falls on few is not seen in a mean."))
        blocks.extend(tallies(table, told.relation) for table in reversed(found.tallies))
    return Section("displaced", title, tuple(blocks))


TALLIED = {
    "relation": ("By relation", "relation"),
    "admitted_at": ("By the snapshot that admitted the answer", "snapshot"),
    "degree_bin": ("By how often the answer is seen in training", "degree"),
}


def tallies(table: displacement.Breakdown, relation: Label) -> Table:
    """Who bears it: by relation, by the answer's admission, by its degree."""
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


def limits() -> Section:
    return Section("limits", "Limits and responsible use", (Template("limits.html"),))
