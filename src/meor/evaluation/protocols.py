"""Other ways to rank and to speak of forgetting, so that figures can be compared with published tables.

Ours is the paper's: ties by id, filter of the current prefix, universes E_{u-1} and E_u. The options here
are the other tie rules, the filter of the introducing snapshot, and the two protocols of the field:

- A, restricted: the test facts of snapshot j are ranked among E_j, whatever the model has seen since;
- B, full: the same facts among E_i, all that the model after update i knows;

both with the filter of snapshot j. One counting pass gives both: E_j is the "old" and E_i the "current"
universe of that pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meor.backbone.base import Model
from meor.evaluation.endpoints import MRR, RankArray, measure
from meor.evaluation.rank import DEFAULT_MEMORY, Counts, Ranks, count
from meor.stream.occurrence import EvaluationFilter, Occurrences, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Ids, Side, Split


class Ties(StrEnum):
    """Where an answer stands among candidates with exactly its score."""

    ID = "id"  # lower id first (the paper's rule, the default)
    OPTIMISTIC = "optimistic"  # before all of them
    PESSIMISTIC = "pessimistic"  # after all of them
    REALISTIC = "realistic"  # the mean of the two


class FilterPrefix(StrEnum):
    """Which positives are removed before ranking."""

    CURRENT = "current"  # those of every snapshot up to the update (the default)
    INTRODUCED = "introduced"  # those of the snapshots up to the one that introduced the fact


def resolve(counts: Counts, ties: Ties = Ties.ID) -> tuple[RankArray, RankArray]:
    """Old and current rank under a tie rule. Integers, but for the realistic rule's halves."""
    strict_old, before_old, after_old = counts.greater_old, counts.tied_before_old, counts.tied_after_old
    strict = strict_old + counts.greater_new
    before = before_old + counts.tied_before_new
    after = after_old + counts.tied_after_new
    if ties is Ties.OPTIMISTIC:
        return 1 + strict_old, 1 + strict
    if ties is Ties.PESSIMISTIC:
        return 1 + strict_old + before_old + after_old, 1 + strict + before + after
    if ties is Ties.REALISTIC:
        return 1 + strict_old + (before_old + after_old) / 2, 1 + strict + (before + after) / 2
    return 1 + strict_old + before_old, 1 + strict + before


def filter_parts(
    stream: Stream,
    asked: Occurrences,
    prefix: FilterPrefix = FilterPrefix.CURRENT,
    splits: Sequence[Split] = SPLITS,
) -> Iterator[tuple[Ids, EvaluationFilter]]:
    """The queries that share a filter, and that filter."""
    if prefix is FilterPrefix.CURRENT:
        yield np.arange(len(asked)), EvaluationFilter.through(stream, asked.update, splits)
        return
    for snapshot in np.unique(asked.snapshot):
        chosen = np.flatnonzero(asked.snapshot == snapshot)
        yield chosen, EvaluationFilter.through(stream, int(snapshot), splits)


def count_occurrences(
    stream: Stream,
    model: Model,
    asked: Occurrences,
    *,
    filter_prefix: FilterPrefix = FilterPrefix.CURRENT,
    filter_splits: Sequence[Split] = SPLITS,
    memory: int = DEFAULT_MEMORY,
) -> Counts:
    """`count` over E_{u-1} and E_u, with the filter each query asks for."""
    update = asked.update
    n_old, n_cur = stream.entity_counts[update - 1] if update else 0, stream.entity_counts[update]
    parts = [
        (chosen, count(model, asked.select(chosen), known, n_old, n_cur, memory=memory))
        for chosen, known in filter_parts(stream, asked, filter_prefix, filter_splits)
    ]
    return _join(parts, len(asked))


def rank_update_with(
    stream: Stream,
    model: Model,
    update: int,
    *,
    split: Split = Split.TEST,
    sides: Sequence[Side] = SIDES,
    ties: Ties = Ties.ID,
    filter_prefix: FilterPrefix = FilterPrefix.CURRENT,
    filter_splits: Sequence[Split] = SPLITS,
    memory: int = DEFAULT_MEMORY,
) -> tuple[Ranks, ...]:
    """`rank_update` with every option; at the defaults it gives the same ranks."""
    found = []
    for side in sides:
        asked = occurrences(stream, update, side, split)
        counts = count_occurrences(
            stream, model, asked, filter_prefix=filter_prefix, filter_splits=filter_splits, memory=memory
        )
        found.append(to_ranks(stream, asked, counts, ties))
    return tuple(found)


def to_ranks(stream: Stream, asked: Occurrences, counts: Counts, ties: Ties = Ties.ID) -> Ranks:
    """Ranks of counted queries; a newcomer has no rank among the old, which is written as 0."""
    old, cur = resolve(counts, ties)
    n_old = stream.entity_counts[asked.update - 1] if asked.update else 0
    return Ranks(asked, np.where(asked.answer < n_old, old, np.zeros_like(old)), cur)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class SetRanks:
    """One test set under the field's protocols: model after `model`, facts introduced at `introduced`."""

    model: int
    introduced: int
    restricted: RankArray  # protocol A: among E_j
    full: RankArray  # protocol B: among E_i


def set_ranks(
    stream: Stream,
    model: Model,
    update: int,
    *,
    split: Split = Split.TEST,
    sides: Sequence[Side] = SIDES,
    ties: Ties = Ties.ID,
    filter_prefix: FilterPrefix = FilterPrefix.INTRODUCED,
    filter_splits: Sequence[Split] = SPLITS,
    memory: int = DEFAULT_MEMORY,
) -> tuple[SetRanks, ...]:
    """Protocols A and B for a model after `update`: one entry for each snapshot 0..update, sides pooled.

    `filter_prefix=introduced` is what the field does; a true answer admitted later then counts as an error.
    """
    found = []
    n_cur = stream.entity_counts[update]
    for introduced in range(update + 1):
        prefix = update if filter_prefix is FilterPrefix.CURRENT else introduced
        known = EvaluationFilter.through(stream, prefix, filter_splits)
        restricted: list[NDArray[Any]] = []
        full: list[NDArray[Any]] = []
        for side in sides:
            asked = occurrences(stream, update, side, split)
            asked = asked.select(asked.snapshot == introduced)
            counts = count(model, asked, known, stream.entity_counts[introduced], n_cur, memory=memory)
            old, cur = resolve(counts, ties)
            restricted.append(old)
            full.append(cur)
        found.append(SetRanks(update, introduced, np.concatenate(restricted), np.concatenate(full)))
    return tuple(found)


def weighted_mean(sets: Iterable[SetRanks], *, full: bool, metric: str = MRR) -> float:
    """The field's headline figure: a metric over all test queries at once, so that big sets weigh more."""
    return measure(np.concatenate([each.full if full else each.restricted for each in sets]), metric)


def _join(parts: Sequence[tuple[Ids, Counts]], n_queries: int) -> Counts:
    columns = []
    for field in fields(Counts):
        column = np.zeros(n_queries, dtype=np.int64)
        for chosen, counts in parts:
            column[chosen] = getattr(counts, field.name)
        columns.append(column)
    return Counts(*columns)
