"""The queries of an update, the facts they come from, and their known answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from meor.random import generator
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Facts, Ids, Role, Side, Split

ALL = 0
"""The sample that leaves nothing out."""


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Queries x = (q, a, u, d) of one update and one side."""

    update: int
    side: Side
    fact: Facts  # [Q, 3]
    snapshot: Ids  # [Q] the snapshot that introduced the fact
    role: NDArray[np.int8]  # [Q] a Role

    @property
    def anchor(self) -> Ids:
        return self.fact[:, self.side.anchor_column]

    @property
    def relation(self) -> Ids:
        return self.fact[:, 1]

    @property
    def answer(self) -> Ids:
        return self.fact[:, self.side.answer_column]

    def __len__(self) -> int:
        return len(self.fact)

    def select(self, chosen: NDArray[np.bool_] | Ids) -> Occurrences:
        return Occurrences(
            self.update, self.side, self.fact[chosen], self.snapshot[chosen], self.role[chosen]
        )


def occurrences(
    stream: Stream, update: int, side: Side | str, split: Split | str = Split.TEST, *, sample: int = ALL
) -> Occurrences:
    """Every query of a split, or of a sample of its facts, that the model after `update` must answer.

    Oldest snapshot first. At the base there is no old universe: every answer counts as admitted now.
    """
    side = Side.of(side)
    parts = [facts_to_rank(stream, index, split, sample) for index in range(update + 1)]
    fact = np.concatenate(parts)
    snapshot = np.repeat(np.arange(update + 1), [len(part) for part in parts])
    n_old = stream.entity_counts[update - 1] if update else 0
    answer, anchor = fact[:, side.answer_column], fact[:, side.anchor_column]
    role = np.select(
        [snapshot < update, answer >= n_old, anchor >= n_old],
        [Role.HISTORICAL, Role.TARGET_NEWCOMER, Role.QUERY_NEWCOMER],
        default=Role.SETTLED,
    ).astype(np.int8)
    return Occurrences(update, side, fact, snapshot, role)


def facts_to_rank(stream: Stream, snapshot: int, split: Split | str, sample: int = ALL) -> Facts:
    """The facts of a snapshot, or a seeded sample of them where there are more than `sample`, in their order.

    Its key is the split and the snapshot, nothing else. So every method, pair and backbone ranks
    the same facts, a fact that is ranked after one update is ranked after all later ones, and a larger sample
    holds the smaller ones. It is drawn per snapshot: updates that bring few facts keep all of them.
    """
    facts = stream.snapshots[snapshot].facts([split])
    if sample == ALL or sample >= len(facts):
        return facts
    order = generator("evaluation-sample", Split.of(split).value, snapshot).permutation(len(facts))
    return facts[np.sort(order[:sample])]


def sample_note(sample: int) -> str:
    """The sentence to show beside a number that comes from a sample; empty where all facts are ranked."""
    if sample == ALL:
        return ""
    return f"Ranked is a seeded sample of at most {sample:,} facts per snapshot, the same ones in every run."


@dataclass(frozen=True, slots=True)
class AnswerIndex:
    """Sorted distinct answers of every (anchor, relation) on one side."""

    n_relations: int
    key: Ids  # sorted: anchor * n_relations + relation
    start: Ids  # [len(key) + 1] into `answer`
    answer: Ids

    @classmethod
    def build(cls, facts: Facts, side: Side | str, n_relations: int) -> Self:
        side = Side.of(side)
        key = facts[:, side.anchor_column] * n_relations + facts[:, 1]
        answer = facts[:, side.answer_column]
        order = np.lexsort((answer, key))
        key, answer = key[order], answer[order]
        if len(key):
            fresh = np.ones(len(key), dtype=bool)
            fresh[1:] = (key[1:] != key[:-1]) | (answer[1:] != answer[:-1])
            key, answer = key[fresh], answer[fresh]
        distinct, first = np.unique(key, return_index=True)
        start = np.append(first, len(key)).astype(np.int64)
        return cls(n_relations, distinct, start, np.ascontiguousarray(answer))

    def bounds(self, anchor: Ids, relation: Ids) -> tuple[Ids, Ids]:
        """For each query the slice of `answer` that holds its known answers (empty if unknown)."""
        wanted = anchor * self.n_relations + relation
        if not len(self.key):
            nothing = np.zeros(len(wanted), dtype=np.int64)
            return nothing, nothing.copy()
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        known = self.key[at] == wanted
        return np.where(known, self.start[at], 0), np.where(known, self.start[at + 1], 0)

    def of(self, anchor: int, relation: int) -> Ids:
        begin, end = self.bounds(np.array([anchor]), np.array([relation]))
        return self.answer[begin[0] : end[0]]


@dataclass(frozen=True, slots=True)
class _BothSides:
    head: AnswerIndex
    tail: AnswerIndex

    def on(self, side: Side | str) -> AnswerIndex:
        return self.head if Side.of(side) is Side.HEAD else self.tail

    @classmethod
    def from_facts(cls, facts: Facts, n_relations: int) -> Self:
        return cls(*(AnswerIndex.build(facts, side, n_relations) for side in SIDES))


# The training prefix, which cohorts may look at, and the evaluation filter, which also holds valid and test
# facts, are two types: one cannot be passed where the other is meant.


@dataclass(frozen=True, slots=True)
class TrainAnswers(_BothSides):
    """P^tr_u(q, d): answers visible in cumulative training facts through update u."""

    @classmethod
    def through(cls, stream: Stream, update: int) -> Self:
        return cls.from_facts(stream.prefix(update, [Split.TRAIN]), len(stream.relations))


@dataclass(frozen=True, slots=True)
class EvaluationFilter(_BothSides):
    """Positives removed before ranking, the same for both universes (decision 7)."""

    @classmethod
    def through(cls, stream: Stream, update: int, splits: Iterable[Split | str] = SPLITS) -> Self:
        return cls.from_facts(stream.prefix(update, splits), len(stream.relations))
