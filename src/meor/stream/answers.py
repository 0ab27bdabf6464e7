"""Known answers of a query, as a compressed index.

The training prefix (which cohorts may look at) and the evaluation filter (which also holds valid and
test facts) are two types, so that one cannot be passed where the other is meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Facts, Ids, Side, Split


@dataclass(frozen=True, slots=True)
class AnswerIndex:
    """Sorted distinct answers of every (anchor, relation) on one side."""

    n_relations: int
    key: Ids  # sorted: anchor * n_relations + relation
    start: Ids  # [len(key) + 1] into `answer`
    answer: Ids

    @classmethod
    def build(cls, facts: Facts, side: Side, n_relations: int) -> Self:
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

    def on(self, side: Side) -> AnswerIndex:
        return self.head if side is Side.HEAD else self.tail

    @classmethod
    def from_facts(cls, facts: Facts, n_relations: int) -> Self:
        return cls(*(AnswerIndex.build(facts, side, n_relations) for side in SIDES))


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
    def through(cls, stream: Stream, update: int, splits: Iterable[Split] = SPLITS) -> Self:
        return cls.from_facts(stream.prefix(update, splits), len(stream.relations))
