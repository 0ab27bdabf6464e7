"""What the files of one run show: losses by update, the same facts over time, its penalty's records.

A run without a penalty has no records. Its stream, buffer and models are enough to say what the penalty
would have seen, and the report says that it is this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from meor.backbone import Model
from meor.cohort.draw import N_LEVELS
from meor.evaluation.displacement import Tally, tally
from meor.evaluation.endpoints import by_update
from meor.evaluation.rank import Ranks
from meor.methods import is_penalized
from meor.methods.comparison import Comparison, sample_records
from meor.methods.equations import pressure
from meor.methods.penalty import penalty_records
from meor.report.drawings import ExcessDrawing, Levels, Strip
from meor.report.figures import Change, Loss
from meor.run.config import Config
from meor.run.layout import RANKS, RECORDS, update_name
from meor.run.records_file import comparison_of
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.table import Column, Entry, Table, Value
from meor.typing import Floats, Ids, Role, Side, Split

SMALL = 5e-4
"""Changes among old entities below this are not drawn."""

SAMPLED = 128
"""Occurrences per update whose references are looked at for the shares by level."""


@dataclass(frozen=True, slots=True)
class Evidence:
    ranks: tuple[Ranks, ...]
    total: Tally
    counts: tuple[int, ...]  # |E_u| by update
    steps: tuple[Change, ...]

    @property
    def admitted(self) -> int:
        return self.counts[-1] - self.counts[0]


@dataclass(frozen=True, slots=True)
class RecordView:
    """One real record, recomputed from the run's model."""

    update: int
    fact: tuple[int, int, int]
    side: Side
    drawing: ExcessDrawing
    of_the_run: bool  # False: what a penalty would have seen
    strongest: tuple[int, ...]  # newcomers ahead, highest first


def gather(view: RunView) -> Evidence | None:
    """None where the run has no ranks yet."""
    _, ranks = ranks_of(view)
    if not ranks:
        return None
    counts = entity_counts(view)
    return Evidence(ranks, tally(ranks), tuple(counts), _steps(ranks, counts))


def ranks_of(view: RunView) -> tuple[Split, tuple[Ranks, ...]]:
    """The test ranks of every evaluated update; another split where test was not ranked."""
    by_split: dict[Split, list[Ranks]] = defaultdict(list)
    for update in view.updates:
        if view.has(f"{update_name(update)}/{RANKS}"):
            for split, ranks in view.ranks(update).items():
                by_split[split].extend(ranks)
    split = Split.TEST if Split.TEST in by_split or not by_split else next(iter(by_split))
    return split, tuple(by_split.get(split, ()))


def entity_counts(view: RunView) -> list[int]:
    """|E_u| by update, from the vocabulary that the run carries; the last updates may admit nobody."""
    admitted = np.bincount(view.admitted_at(), minlength=len(view.updates))
    return [int(total) for total in np.cumsum(admitted)]


def losses(split: Mapping[str, Any]) -> tuple[Loss, ...]:
    """H_old and H_cur of each update, sides weighing the same, from the cells of endpoints.json."""
    old, cur = (by_update(split.get(name, {})) for name in ("H_old", "H_cur"))
    return tuple(
        Loss(update, before, after)
        for update in sorted(old.keys() & cur.keys())
        if (before := old[update].value) is not None and (after := cur[update].value) is not None
    )


def _steps(ranks: Sequence[Ranks], counts: Sequence[int]) -> tuple[Change, ...]:
    """The facts of snapshot 0 through all updates: which part of each change is whose."""
    old: dict[int, list[Floats]] = defaultdict(list)
    cur: dict[int, list[Floats]] = defaultdict(list)
    for each in ranks:
        asked = each.occurrences
        chosen = (asked.snapshot == 0) & (asked.role == Role.HISTORICAL)
        if chosen.any():
            old[asked.update].append(1 / each.old[chosen])
            cur[asked.update].append(1 / each.cur[chosen])
    steps: list[Change] = []
    level: float | None = None
    for update in sorted(old):
        before, after = (float(np.mean(np.concatenate(part[update]))) for part in (old, cur))
        if level is None:
            steps.append(Change("at the start", 0.0, before, ""))
        elif abs(before - level) >= SMALL:
            steps.append(Change(f"update {update}: old entities", level, before, "old"))
        if counts[update] > counts[update - 1]:
            steps.append(Change(f"update {update}: newcomers", before, after, "new"))
        level = after
    if level is not None:
        steps.append(Change("at the end", 0.0, level, ""))
    return tuple(steps)


def records_table(view: RunView) -> Table | None:
    """The penalty's records, update by update; None where the run stores none."""
    lines: list[tuple[Value, ...]] = []
    for update in view.updates:
        rows = _stored_records(view, update)
        if rows is not None and len(rows["tau"]):
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


def _stored_records(view: RunView, update: int) -> dict[str, Any] | None:
    name = f"{update_name(update)}/{RECORDS}"
    if not view.has(name):
        return None
    wanted = ("tau", "u_new", "u_old", "excess", "active")
    table = view.table(name, wanted)
    eligible = ~np.array(table["tau"].is_null().to_pylist(), dtype=bool)  # nothing was compared otherwise
    return {
        column: np.array(table[column].to_pylist(), dtype=object)[eligible].astype(float) for column in wanted
    }


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
    answer = view.labels("entity")[int(cohort.answer[x])]
    measure = "U" if comparison.variant.aggregate == "smooth" else "V"
    drawing = ExcessDrawing(tuple(strips), reference, tau, answer, measure)
    of_run = is_penalized(view.config.method)
    return RecordView(cohort.update, (head, relation, tail), side, drawing, of_run, strongest)


def _strip(name: str, gap: Floats, ids: Ids, comparison: Comparison, tone: str) -> Strip:
    mine = np.sort(gap[ids])[::-1]
    settings, variant = comparison.settings, comparison.variant
    value = pressure(torch.from_numpy(mine.copy()), variant.aggregate, settings.beta) if len(mine) else 0.0
    return Strip(name, tuple(float(z) for z in mine), float(value), tone)


def _comparison(config: Config, stream: Stream, update: int) -> Comparison:
    return comparison_of(config, stream, update)
