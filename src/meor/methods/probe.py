"""Newcomers are held below what the old graph would answer, also at questions that nobody replayed.

A buffer holds few of the old facts (on ENTITY one in twenty), so a penalty at its occurrences looks at few of
the old questions; and its answers were trained on, so they score far above those that nobody has seen yet.
Here each occurrence of the buffer stands for questions of other old facts: anchor, relation and side are
theirs, the answer is one of the ten old entities that score best when the update begins. What is penalised is
the strongest newcomer above it, without a reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from torch import Tensor

from meor.backbone.base import Model
from meor.cohort.newcomers import Cohort
from meor.errors import ConfigError
from meor.evaluation.tally import candidate_rows
from meor.methods.comparison import Comparison
from meor.methods.penalty import Penalty
from meor.random import generator
from meor.search.queries import Known
from meor.search.screen import Candidates
from meor.search.top import top
from meor.training.loss import Embedding
from meor.typing import SIDES, Facts, Floats, Ids, Split

BEST: Final = 10
"""An answer is drawn among this many."""

TURNS: Final = 2
"""Questions that an occurrence of the buffer stands for. A step asks one of them, so they cost no time."""


@dataclass(slots=True)
class Probe(Penalty):
    """A penalty whose occurrences stand for questions that are drawn when the update begins."""

    _asked: Penalty | None = field(init=False, default=None)

    def begin(self, model: Model) -> None:
        stream, cohort = self.comparison.stream, self.comparison.cohort
        if stream is None:
            raise ConfigError("this penalty draws from old facts", remedy="Make it with Comparison.build")
        past = stream.prefix(cohort.update - 1, [Split.TRAIN])
        fact = imagined(past, TURNS * len(cohort), model, cohort)
        variant, settings = self.comparison.variant, self.comparison.settings
        compared = Comparison.build(
            stream, cohort.update, fact, run=cohort.run, variant=variant, settings=settings
        )
        self._asked = Penalty(compared, self.backbone, self.fast, self.beside)

    def over(self, entity: Embedding, relation: Embedding, index: Ids) -> Tensor:
        index = self.comparison.members(index)
        if not len(index):
            return entity.data.new_zeros(())
        return self._questions(entity, relation).over(entity, relation, self._stood_for(index))

    def pressures(self, entity: Embedding, relation: Embedding, index: Ids) -> tuple[Floats, Floats]:
        return self._questions(entity, relation).pressures(entity, relation, self._stood_for(index))

    def _questions(self, entity: Embedding, relation: Embedding) -> Penalty:
        if self._asked is None:
            assert self.backbone is not None  # noqa: S101  (a table has rows of one)
            self.begin(Model(self.backbone, entity.data, relation.data))
        assert self._asked is not None  # noqa: S101
        self._asked.beside = self.beside
        return self._asked

    def _stood_for(self, index: Ids) -> Ids:
        """Occurrences of the questions. Steps hold other facts in every pass, and so other turns come up."""
        turn = (index + index[:1].sum()) // len(SIDES) % TURNS
        question = turn * len(self.cohort) + index
        return np.asarray(len(SIDES) * question + index % len(SIDES))


def imagined(past: Facts, count: int, model: Model, cohort: Cohort) -> Facts:
    """[count, 3] questions of old facts with an imagined answer: of each even one the head, else the tail.

    Every question is as likely as any other. If facts were drawn, those about hubs would come up most, and
    that is where newcomers are often right.
    """
    drawn = generator("imagined", cohort.run, cohort.update)
    rank = drawn.integers(0, min(BEST, cohort.n_old), count)
    old = candidate_rows(model.backbone, model.entity[: cohort.n_old])
    candidates = Candidates.prepare(model.backbone.scoring, old)
    fact = np.empty((count, 3), np.int64)
    for side in SIDES:
        mine = slice(int(side), None, len(SIDES))
        anchor, relation = np.unique(past[:, [side.anchor_column, 1]], axis=0).T
        chosen = drawn.integers(0, max(len(anchor), 1), len(fact[mine]))
        asked = model.query_array(anchor[chosen], relation[chosen], side)
        nobody = np.zeros(len(asked), np.int64)
        best, _ = top(candidates, asked, Known(nobody, nobody, nobody), rank.max(initial=0) + 1, cohort.n_old)
        fact[mine, side.anchor_column], fact[mine, 1] = anchor[chosen], relation[chosen]
        fact[mine, side.answer_column] = best[np.arange(len(best)), rank[mine]]
    return fact
