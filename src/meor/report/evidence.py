"""A run, read once: what its report says about losses, displacement, matching and a real record.

A run without a penalty has no records. Its stream, buffer and models are enough to say what the penalty
would have seen, and the report says that it is this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from meor.backbone import Model
from meor.cohort.draw import N_LEVELS
from meor.errors import MeorError
from meor.escape import clipped, visible
from meor.evaluation.displacement import Loss, same_facts
from meor.evaluation.rank import Ranks
from meor.methods import METHODS
from meor.methods.comparison import Comparison, sample_records
from meor.methods.equations import pressure
from meor.methods.penalty import penalty_records
from meor.report.displaced import Displacement, Label, read_displacement
from meor.report.drawings import ExcessDrawing, Levels, Strip
from meor.report.words import clipped_path, without_places
from meor.run.layout import RANKS, RECORDS, update_name
from meor.run.prepare import host_of, remarks
from meor.run.records_file import comparison_of
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.table import Column, Entry, Table, Value
from meor.typing import Floats, Ids, Side, Split

ENTITY_LABEL, RELATION_LABEL = 60, 34
"""Letters of a label that a page shows."""

SAMPLED = 128
"""Occurrences per update whose references are looked at for the shares by level."""


@dataclass(frozen=True, slots=True)
class RecordView:
    """One real record, recomputed from the run's model."""

    update: int
    fact: tuple[int, int, int]
    side: Side
    drawing: ExcessDrawing
    of_the_run: bool  # False: what a penalty would have seen
    strongest: tuple[int, ...]  # newcomers ahead, highest first


@dataclass(frozen=True, slots=True)
class Evidence:
    """What could be read of a run; the rest is missing, and said to be."""

    view: RunView
    ranks: tuple[Ranks, ...]
    counts: tuple[int, ...]  # |E_u| by update
    facts: tuple[Loss, ...]  # of snapshot 0, at each update
    displacement: Displacement | None
    record: RecordView | None
    levels: tuple[Levels, ...]
    records: Table | None  # of its penalty
    missing: str  # why stream or models could not be used
    entity: Label
    relation: Label
    remarks: tuple[str, ...] = ()  # on updates that admit nobody, and on what is not learned

    @property
    def admitted(self) -> int:
        return self.counts[-1] - self.counts[0]


def read_evidence(
    view: RunView,
    data_dir: Path | None,
    say: Callable[[str], None] = lambda _: None,
    *,
    records_of: RunView | None = None,
) -> Evidence:
    """Everything that can be read; `records_of` is the run whose penalty records are shown."""
    stream: Stream | None = None
    missing = ""
    try:
        say("reading the stream")
        stream = view.stream(data_dir)
    except MeorError as error:
        missing = without_places(str(error))
    say("who displaced whom")
    ranks = ranks_of(view)
    shown = read_displacement(view, stream, ranks, missing) if ranks else None
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
    return Evidence(
        view,
        ranks,
        tuple(entity_counts(view)),
        same_facts(ranks),
        shown,
        found,
        matched,
        records_table(records_of or view),
        missing,
        entities.__getitem__,
        relations.__getitem__,
        () if stream is None else tuple(remarks(stream, host_of(view.config))),
    )


def ranks_of(view: RunView) -> tuple[Ranks, ...]:
    """The test ranks of every evaluated update; of another split where test was not ranked."""
    by_split: dict[Split, list[Ranks]] = defaultdict(list)
    for update in view.updates:
        if view.has(f"{update_name(update)}/{RANKS}"):
            for split, ranks in view.ranks(update).items():
                by_split[split].extend(ranks)
    split = Split.TEST if Split.TEST in by_split or not by_split else next(iter(by_split))
    return tuple(by_split.get(split, ()))


def entity_counts(view: RunView) -> list[int]:
    """|E_u| by update, from the vocabulary that the run carries; the last updates may admit nobody."""
    admitted = np.bincount(view.admitted_at(), minlength=len(view.updates))
    return [int(total) for total in np.cumsum(admitted)]


def records_table(view: RunView) -> Table | None:
    """The penalty's records, update by update; None where the run stores none."""
    lines: list[tuple[Value, ...]] = []
    for update in view.updates:
        rows = _stored_records(view, update)
        if len(rows["tau"]):
            active, size = rows["active"].astype(bool), len(rows["tau"])
            means = (float(np.mean(rows[name])) for name in ("u_new", "u_old"))
            excess = float(np.mean(rows["excess"][active])) if active.any() else 0.0
            first = (Entry(update, text=str(update)), size, int(active.sum()) / size)
            lines.append((*first, float(np.median(rows["tau"])), *means, excess))
    columns = (
        *(Column("update"), Column("records", "count")),
        Column("active", "share", hint="newcomer pressure above the reference"),
        *(Column(title, "level") for title in ("median τ", "mean U, newcomers", "mean U, references")),
        Column("mean excess of active", "level"),
    )
    return Table("The penalty's records, update by update", columns, tuple(lines)) if lines else None


def _stored_records(view: RunView, update: int) -> dict[str, Floats]:
    """Of eligible records; nothing was compared where there is no scale."""
    name, wanted = f"{update_name(update)}/{RECORDS}", ("tau", "u_new", "u_old", "excess", "active")
    if not view.has(name):
        return dict.fromkeys(wanted, np.empty(0))
    table = view.table(name, wanted)
    known = table.filter(table["tau"].is_valid())
    return {column: np.asarray(known[column].to_numpy(), dtype=np.float64) for column in wanted}


def levels(view: RunView, stream: Stream) -> tuple[Levels, ...]:
    """At which key newcomers found their references, over sampled replay occurrences of each update."""
    found = []
    for update in view.updates[1:]:
        comparison = comparison_of(view.config, stream, update)
        chosen = sample_records(comparison.cohort, SAMPLED)
        if not len(chosen):
            continue
        level = comparison.references.draw(chosen).level
        size = np.bincount(level[level >= 0].astype(np.int64), minlength=N_LEVELS).astype(np.float64)
        part = size / size.sum()
        found.append(Levels(update, (float(part[0]), float(part[1]), float(part[2])), len(chosen)))
    return tuple(found)


def record(view: RunView, stream: Stream, update: int | None = None) -> RecordView | None:
    """A clear record (nine tenths of the active ones have less excess) of the first update with one."""
    updates = [update] if update is not None else view.updates[1:]
    best: RecordView | None = None
    for number in updates:
        found = _record(view, stream, number)
        if found is not None and found.drawing.excess > 0:
            return found
        best = best or found
    return best


def _record(view: RunView, stream: Stream, update: int) -> RecordView | None:
    comparison = comparison_of(view.config, stream, update)
    eligible = np.flatnonzero(comparison.eligible)
    if not len(eligible):
        return None
    model = view.model(update)
    records = penalty_records(comparison, model)
    subtracted = records.reference if comparison.variant.centered else 0.0
    difference = np.where(comparison.eligible, records.new - subtracted, -np.inf)
    order = np.argsort(difference, kind="stable")[::-1]
    active = int(np.count_nonzero(difference > 0))
    x = int(order[active // 10 if active else 0])
    return _view_of(view, comparison, model, x, float(records.scale.tau[x]))


def _view_of(view: RunView, comparison: Comparison, model: Model, x: int, tau: float) -> RecordView:
    cohort = comparison.cohort
    side = Side(int(cohort.side[x]))
    with torch.no_grad():
        score = model.score(cohort.anchor[x : x + 1], cohort.relation[x : x + 1], side)[0].double().numpy()
    gap = (score - score[cohort.answer[x]]) / tau
    newcomers = cohort.newcomers_of(x)
    drawn = comparison.drawn(np.array([x]))[0]
    strips = [_strip("newcomers", gap, newcomers, comparison, "new")]
    strips += [
        _strip(f"matched old {j + 1}", gap, ids[ids >= 0].astype(np.int64), comparison, "old")
        for j, ids in enumerate(drawn)
    ]
    centered = comparison.variant.centered
    reference = float(np.mean([strip.pressure for strip in strips[1:]])) if centered else 0.0
    ahead = newcomers[gap[newcomers] > 0]
    strongest = tuple(int(e) for e in ahead[np.argsort(-gap[ahead], kind="stable")])
    head, relation, tail = (int(part) for part in cohort.fact[x])
    answer = view.labels("entity")[int(cohort.answer[x])]
    measure = "U" if comparison.variant.aggregate == "smooth" else "V"
    drawing = ExcessDrawing(tuple(strips), reference, tau, answer, measure)
    of_run = METHODS[view.config.method].variant is not None
    return RecordView(cohort.update, (head, relation, tail), side, drawing, of_run, strongest)


def _strip(name: str, gap: Floats, ids: Ids, comparison: Comparison, tone: str) -> Strip:
    mine = np.sort(gap[ids])[::-1]
    settings, variant = comparison.settings, comparison.variant
    value = pressure(torch.from_numpy(mine.copy()), variant.aggregate, settings.beta) if len(mine) else 0.0
    return Strip(name, tuple(float(z) for z in mine), float(value), tone)
