"""One real record of the penalty, recomputed from the run's model; and how references matched.

A run without a penalty has no records. Its stream, buffer and models are enough to say what the penalty
would have seen, and the report says that it is this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from meor.backbone import Model
from meor.cohort.draw import N_LEVELS
from meor.methods import is_penalized
from meor.methods.comparison import Comparison, sample_records
from meor.methods.equations import pressure
from meor.methods.penalty import penalty_records
from meor.report.drawings import ExcessDrawing, Levels, Strip
from meor.run.config import Config
from meor.run.layout import RECORDS, update_name
from meor.run.records_file import comparison_of
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.typing import Floats, Ids, Side

SAMPLED = 128
"""Occurrences an update whose references are looked at for the shares by level."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The penalty records of one update."""

    update: int
    records: int
    active: int
    tau: float
    new: float
    reference: float
    excess: float  # mean over active records


@dataclass(frozen=True, slots=True)
class RecordView:
    update: int
    fact: tuple[int, int, int]
    side: Side
    drawing: ExcessDrawing
    of_the_run: bool  # False: what a penalty would have seen
    strongest: tuple[int, ...]  # newcomers ahead, highest first


def summaries(view: RunView) -> tuple[Summary, ...]:
    found = []
    for update in view.updates:
        rows = _rows(view, update)
        if rows is not None and len(rows["tau"]):
            active = rows["active"].astype(bool)
            found.append(
                Summary(
                    update,
                    len(active),
                    int(active.sum()),
                    float(np.median(rows["tau"])),
                    float(np.mean(rows["u_new"])),
                    float(np.mean(rows["u_old"])),
                    float(np.mean(rows["excess"][active])) if active.any() else 0.0,
                )
            )
    return tuple(found)


def levels(view: RunView, stream: Stream) -> tuple[Levels, ...]:
    """At which key newcomers found their references, over sampled replay occurrences of each update."""
    found = []
    for update in view.updates[1:]:
        comparison = _comparison(view.config, stream, update)
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
    comparison = _comparison(view.config, stream, update)
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
    answer = stream_label(view, int(cohort.answer[x]))
    measure = "U" if comparison.variant.aggregate == "smooth" else "V"
    drawing = ExcessDrawing(tuple(strips), reference, tau, answer, measure)
    of_run = is_penalized(view.config.method)
    return RecordView(cohort.update, (head, relation, tail), side, drawing, of_run, strongest)


def stream_label(view: RunView, entity: int) -> str:
    return view.labels("entity")[entity]


def _strip(name: str, gap: Floats, ids: Ids, comparison: Comparison, tone: str) -> Strip:
    mine = np.sort(gap[ids])[::-1]
    settings, variant = comparison.settings, comparison.variant
    value = pressure(torch.from_numpy(mine.copy()), variant.aggregate, settings.beta) if len(mine) else 0.0
    return Strip(name, tuple(float(z) for z in mine), float(value), tone)


def _comparison(config: Config, stream: Stream, update: int) -> Comparison:
    return comparison_of(config, stream, update)


def _rows(view: RunView, update: int) -> dict[str, Any] | None:
    name = f"{update_name(update)}/{RECORDS}"
    if not view.has(name):
        return None
    wanted = ("tau", "u_new", "u_old", "excess", "active")
    table = view.table(name, wanted)
    eligible = ~np.array(table["tau"].is_null().to_pylist(), dtype=bool)  # nothing was compared otherwise
    return {
        column: np.array(table[column].to_pylist(), dtype=object)[eligible].astype(float) for column in wanted
    }
