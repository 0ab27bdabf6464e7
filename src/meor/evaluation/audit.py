"""A whole audit: ranks, endpoints, displacement and groups of every audited update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meor.backbone.base import Model
from meor.evaluation import groups as grouping
from meor.evaluation.blame import Blame, blame, name_newcomers
from meor.evaluation.displacement import Breakdown, Displaced, Tally, tables, tally, worst
from meor.evaluation.endpoints import cell_keys, endpoints
from meor.evaluation.frames import Endpoints, displaced_rows, told
from meor.evaluation.labelled import Rateable, as_model
from meor.evaluation.rank import FilterPrefix, Ranks, Rules, Ties, count_update, universes_of
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.heap import give_memory_back
from meor.stream.occurrence import ALL, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Side, Split

NAMED = 100
"""Answers and newcomers that a report lists."""

NAMED_EACH = 20
"""Newcomers that a report lists ahead of one answer, strongest first."""


@dataclass(frozen=True, slots=True)
class Question:
    """What an audit ranks, and by which rules. The defaults are the paper's."""

    updates: tuple[int, ...]
    sides: tuple[Side, ...] = SIDES
    splits: tuple[Split, ...] = (Split.TEST,)
    ties: Ties = Ties.ID
    filter_prefix: FilterPrefix = FilterPrefix.CURRENT
    filter_splits: tuple[Split, ...] = SPLITS
    sample: int = ALL

    @property
    def rules(self) -> Rules:
        return Rules(self.ties, self.filter_prefix, self.filter_splits)

    def to_json(self) -> dict[str, Any]:
        return {
            "updates": list(self.updates),
            "sides": [side.label for side in self.sides],
            "splits": [split.value for split in self.splits],
            "ties": self.ties.value,
            "filter_prefix": self.filter_prefix.value,
            "filter_splits": [split.value for split in self.filter_splits],
            **({} if self.sample == ALL else {"sample": self.sample}),
        }


@dataclass(frozen=True, slots=True)
class Newcomer:
    """One newcomer and what it did at its update."""

    id: int
    update: int
    displaced: int
    charge: float


@dataclass(slots=True, repr=False)
class SplitAudit:
    """The results of one split. Displacement always breaks ties by id, whatever the tie rule of the ranks."""

    ranks: dict[int, tuple[Ranks, ...]] = field(default_factory=dict)
    by_id: list[Ranks] = field(default_factory=list)
    worst: tuple[Displaced, ...] = ()
    newcomers: tuple[Newcomer, ...] = ()
    endpoints: Endpoints = field(default_factory=Endpoints)
    tables: tuple[Breakdown, ...] = ()
    groups: tuple[grouping.GroupReport, ...] | None = None

    def __repr__(self) -> str:
        shown = told({name: found.to_json() for name, found in self.endpoints.items()})
        return f"Audit: {shown}; {self.total.displaced:,} of {self.total.queries:,} old facts pushed down"

    @property
    def all_ranks(self) -> list[Ranks]:
        return [each for ranks in self.ranks.values() for each in ranks]

    @property
    def total(self) -> Tally:
        return tally(self.by_id)


def audit(
    stream: Stream,
    model_of: Callable[[int], Rateable],
    question: Question,
    *,
    groups: grouping.Groups | None = None,
    memory: int = DEFAULT_MEMORY,
    say: Callable[[str], None] = lambda _: None,
) -> dict[Split, SplitAudit]:
    """Audit the model of every chosen update; entities that are admitted later are no candidates yet."""
    found = {split: SplitAudit() for split in question.splits}
    for update in question.updates:
        model = as_model(stream, model_of(update), update)
        for split, part in found.items():
            say(f"update {update}: ranking {split.value} facts")
            _add_update(part, stream, model, question, (update, split), memory)
    for part in found.values():
        cells = cell_keys(question.updates, question.sides)
        part.endpoints = Endpoints(endpoints(part.all_ranks, cells=cells))
        part.tables = tables(stream, part.by_id)
        if groups is not None:
            part.groups = grouping.by_group(part.all_ranks, groups, by_id=part.by_id, cells=cells)
    return found


def _add_update(
    part: SplitAudit, stream: Stream, model: Model, question: Question, where: tuple[int, Split], memory: int
) -> None:
    update, split = where
    rules, (n_old, _) = question.rules, universes_of(stream, update)
    chosen, by_id, blamed = [], [], []
    for side in question.sides:
        asked = occurrences(stream, update, side, split, sample=question.sample)
        counts = count_update(stream, model, asked, rules, memory)
        by_id.append(counts.of(asked, n_old))
        chosen.append(counts.of(asked, n_old, rules.ties))
        blamed.append(blame(stream, model, by_id[-1], rules=rules, memory=memory))
        give_memory_back()  # pairs and tiles of this side, beside rows that may fill most of the memory
    part.ranks[update] = tuple(chosen)
    part.by_id.extend(by_id)
    named = name_newcomers(stream, model, worst(by_id, NAMED), rules=rules, limit=NAMED_EACH)
    part.worst = tuple(
        sorted((*part.worst, *named), key=lambda each: (-each.lost, each.old - each.cur))[:NAMED]
    )
    part.newcomers = _most(part.newcomers, _newcomers(blamed))


def _newcomers(blamed: Sequence[Blame]) -> list[Newcomer]:
    displaced = np.sum([each.displaced for each in blamed], axis=0)
    charge = np.sum([each.charge for each in blamed], axis=0)
    first, update = blamed[0].first, blamed[0].update
    guilty = np.flatnonzero(displaced)
    return [Newcomer(first + int(i), update, int(displaced[i]), float(charge[i])) for i in guilty]


def _most(*parts: Iterable[Newcomer]) -> tuple[Newcomer, ...]:
    everyone = [each for part in parts for each in part]
    return tuple(sorted(everyone, key=lambda each: (-each.displaced, -each.charge, each.id))[:NAMED])


def displacement_json(stream: Stream, part: SplitAudit) -> dict[str, Any]:
    """The content of displacement.json for one split, with labels beside ids."""
    return {
        "all": part.total.to_json(),
        "cells": [
            {
                "update": each.occurrences.update,
                "side": each.occurrences.side.label,
                **tally([each]).to_json(),
            }
            for each in part.by_id
        ],
        "worst": [dict(row) for row in displaced_rows(stream, part.worst)],
        "newcomers": [
            {
                "entity": each.id,
                "label": stream.entities.label(each.id),
                "update": each.update,
                "displaced": each.displaced,
                "reciprocal_rank_charged": each.charge,
            }
            for each in part.newcomers
        ],
        **{f"by_{table.name}": _table_json(stream, table) for table in part.tables},
    }


def _table_json(stream: Stream, table: Breakdown) -> list[dict[str, Any]]:
    rows = []
    for key, found in table.rows:
        label = {"label": stream.relations.label(key)} if table.name == "relation" else {}
        rows.append({table.name: key, **label, **found.to_json()})
    return rows
