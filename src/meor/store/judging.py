"""What an admission costs: the ranks of protected queries and of the batch, and who stands ahead of whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from meor.backbone import Model
from meor.evaluation.blame import newcomers_ahead
from meor.evaluation.groups import Groups
from meor.evaluation.rank import count, rank
from meor.evaluation.tally import queries_of, wide_rows
from meor.random import generator
from meor.search.exact import exact_columns
from meor.store.protect import Asked, Protected
from meor.store.rules import Rule, interval
from meor.store.settings import GateSettings
from meor.stream.occurrence import EvaluationFilter, Occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Facts, Floats, Ids, Split


@dataclass(frozen=True, slots=True)
class Lists:
    """Newcomers ahead of the answers of some queries: those of query q are `id[start[q]:start[q + 1]]`."""

    start: Ids
    id: Ids  # counted from the first newcomer

    @classmethod
    def of(cls, size: Ids, query: Ids, id: Ids) -> Lists:
        """From pairs in any order; `size` is how many each query has."""
        return cls(np.append(0, np.cumsum(size)), id[np.argsort(query, kind="stable")])


@dataclass(frozen=True, slots=True)
class Judged:
    """Protected queries after an admission, both sides one after the other."""

    asked: tuple[Asked, ...]
    fact: Facts
    side: Ids
    answer: Ids
    weight: Floats
    cluster: Ids
    keep: Ids
    before: Ids  # the rank in the version that answered before
    old: Ids
    cur: Ids
    ahead: Lists

    @property
    def lost(self) -> Floats:
        return 1 / self.old - 1 / self.cur

    @property
    def must_stay(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return (self.keep > 0) & (self.before <= self.keep)


@dataclass(frozen=True, slots=True)
class Gained:
    """Queries of the batch whose answer is a newcomer."""

    held_out: bool  # else facts that were trained
    fact: Facts
    side: Ids
    weight: Floats
    cluster: Ids
    others: Ids  # 1 + old entities ahead
    cur: Ids
    ahead: Lists


class _Part(NamedTuple):
    """The queries of one side, ranked."""

    asked: Asked
    others: Ids  # 1 + old entities ahead
    cur: Ids
    past: Ids
    query: Ids  # pairs of a query ...
    id: Ids  # ... and a newcomer ahead of its answer


def judge(
    stream: Stream,
    models: tuple[Model, Model | None],
    known: EvaluationFilter,
    given: Protected,
    *,
    memory: int,
) -> Judged:
    """Rank protected queries by the new model, and by the one before it where old rows have moved since."""
    model, before = models
    update = len(stream.snapshots) - 1
    n_old, n_cur = stream.entity_counts[-2], stream.entity_counts[-1]
    parts = []
    for each in given.sides:
        asked = each.occurrences(update)
        ranks = rank(model, asked, known, (n_old, n_cur), memory=memory)
        past = ranks.old
        if before is not None and len(asked):
            past = rank(before, asked, known, (n_old, n_old), memory=memory).old
        ahead = _lists(model, asked, known, ranks.cur - ranks.old, range(n_old, n_cur), memory)
        parts.append(_Part(each, ranks.old, ranks.cur, past, *ahead))
    return Judged(
        given.sides,
        np.concatenate([part.asked.fact for part in parts]),
        np.concatenate([np.full(len(part.cur), part.asked.side) for part in parts]),
        np.concatenate([part.asked.answer for part in parts]),
        np.concatenate([part.asked.weight for part in parts]),
        np.concatenate([part.asked.cluster for part in parts]),
        np.concatenate([part.asked.keep for part in parts]),
        np.concatenate([part.past for part in parts]),
        np.concatenate([part.others for part in parts]),
        np.concatenate([part.cur for part in parts]),
        _all_lists(parts),
    )


def _all_lists(parts: Sequence[_Part]) -> Lists:
    """Those of all sides, their queries one after the other."""
    first = np.cumsum([0, *(len(part.cur) for part in parts)])
    query = np.concatenate([part.query + at for part, at in zip(parts, first, strict=False)])
    size = np.concatenate([part.cur - part.others for part in parts])
    return Lists.of(size, query, np.concatenate([part.id for part in parts]))


def _lists(
    model: Model, asked: Occurrences, known: EvaluationFilter, ahead: Ids, newcomers: range, memory: int
) -> tuple[Ids, Ids]:
    """Pairs of a query and a newcomer that scores above its answer."""
    query, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    rows = np.flatnonzero(ahead > 0)
    for block in newcomers_ahead(model, asked, known, newcomers, rows=rows, memory=memory):
        query.append(np.repeat(block.query, np.diff(block.start)))
        found.append(block.id - newcomers.start)
    return np.concatenate(query), np.concatenate(found)


def gained(
    stream: Stream, model: Model, known: EvaluationFilter, sample: int, *, memory: int
) -> Gained | None:
    """Rank queries of the batch whose answer is a newcomer: held-out facts if there are any, else its own."""
    n_old = stream.entity_counts[-2]
    facts, held_out = stream.snapshots[-1].facts([Split.VALID, Split.TEST]), True
    if not (facts[:, [0, 2]] >= n_old).any():
        facts, held_out = stream.snapshots[-1].train, False
    facts = facts[(facts[:, [0, 2]] >= n_old).any(1)]
    if len(facts) > sample:
        order = generator("gained", stream.name, len(facts)).permutation(len(facts))
        facts = facts[np.sort(order[:sample])]
    parts = []
    for side in SIDES:
        row = np.flatnonzero(facts[:, side.answer_column] >= n_old)
        if len(row):
            each = Asked(side, facts[row], np.zeros(len(row), np.int64), np.zeros(len(row)), row)
            parts.append(_gained_part(stream, model, known, each, memory))
    if not parts:
        return None
    return Gained(
        held_out,
        np.concatenate([part.asked.fact for part in parts]),
        np.concatenate([np.full(len(part.cur), part.asked.side) for part in parts]),
        np.concatenate([np.full(len(part.cur), 1 / (len(parts) * len(part.cur))) for part in parts]),
        np.concatenate([part.asked.cluster for part in parts]),
        np.concatenate([part.others for part in parts]),
        np.concatenate([part.cur for part in parts]),
        _all_lists(parts),
    )


def _gained_part(stream: Stream, model: Model, known: EvaluationFilter, each: Asked, memory: int) -> _Part:
    n_old, n_cur = stream.entity_counts[-2], stream.entity_counts[-1]
    asked = each.occurrences(len(stream.snapshots) - 1)
    counts = count(model, asked, known, (n_old, n_cur), memory=memory)
    others, new = 1 + counts.old[:, :2].sum(1), counts.new[:, :2].sum(1)
    query, id = _lists(model, asked, known, counts.new[:, 0], range(n_old, n_cur), memory)
    tied = np.flatnonzero(counts.new[:, 1])
    if len(tied):  # equal scores are decided by id, which lists of higher scores do not show
        more = _tied(model, asked.select(tied), known, n_old, n_cur)
        query, id = np.concatenate([query, tied[more[0]]]), np.concatenate([id, more[1]])
    return _Part(each, others, others + new, others, query, id)


def _tied(
    model: Model, asked: Occurrences, known: EvaluationFilter, n_old: int, n_cur: int
) -> tuple[Ids, Ids]:
    """Pairs of a query and an eligible newcomer of a smaller id with exactly the answer's score."""
    queries = queries_of(model, asked, known)
    rows = wide_rows(model, slice(n_old, n_cur))
    columns = np.tile(np.arange(n_cur - n_old), (len(asked), 1))
    score = exact_columns(model.backbone.scoring, queries.row, rows, columns)
    left_out = queries.left_out(slice(0, len(asked)), range(n_old, n_cur))
    same = (score == queries.threshold[:, None]) & ~left_out
    return np.nonzero(same & (columns + n_old < asked.answer[:, None]))  # type: ignore[return-value]


def rules_of(
    found: Judged, gain: Gained | None, gate: GateSettings, *, estimated: bool, groups: Groups | None = None
) -> list[Rule]:
    """Every rule of the gate, as it was found."""
    whole = np.arange(len(found.old))
    rules = [_cost("D_MCI", found, whole, gate, estimated)]
    for number, name in enumerate(groups.names if groups is not None else ()):
        inside = np.flatnonzero(groups.of[found.answer] == number)  # type: ignore[union-attr]
        if len(inside):
            rules.append(_cost(f"D_MCI of group {name}", found, inside, gate, estimated))
    if found.keep.any():
        left = float((found.must_stay & (found.cur > found.keep)).sum())
        rules.append(
            Rule("answers that leave their top k", 0.0, True, left, left, left, int((found.keep > 0).sum()))
        )
    if gain is not None:
        mean, low, high = interval(1 / gain.cur, gain.weight, gain.cluster, gate.confidence)
        rules.append(Rule("A_TN", gate.floor, False, mean, max(low, 0.0), min(high, 1.0), len(gain.cur)))
    return rules


def _cost(name: str, found: Judged, rows: Ids, gate: GateSettings, estimated: bool) -> Rule:
    mean, low, high = interval(found.lost[rows], found.weight[rows], found.cluster[rows], gate.confidence)
    if not estimated:
        low = high = mean
    return Rule(name, gate.budget, True, mean, max(low, 0.0), min(high, 1.0), len(rows))
