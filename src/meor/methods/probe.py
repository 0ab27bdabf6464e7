"""Newcomers are held below what the old graph would answer, also at questions that nobody replayed.

A buffer holds few of the old facts (on ENTITY one in twenty), so a penalty at its occurrences looks at few of
the old questions; and its answers were trained on, so they score far above those that nobody has seen yet.
Here each occurrence of the buffer stands for questions of other old facts. Anchor, relation and side are
those of the fact. The answer is one of the ten old entities that score best when the update begins, or of
fewer in a small graph, where the tenth best is a poor answer. The strongest newcomer above that answer is
penalised, without a reference.

A small update displaces few answers, and yet it meets as many questions as a large one: each of its few
newcomers would be held down more often, although there is less to protect. So the penalty has its full weight
only where newcomers are many, and below that a weight in proportion to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Model
from meor.cohort.newcomers import Cohort
from meor.errors import ConfigError
from meor.evaluation.tally import candidate_rows
from meor.methods.comparison import Comparison
from meor.methods.dense import ScoreFunction
from meor.methods.equations import Scale
from meor.methods.penalty import Penalty
from meor.methods.registry import MMR
from meor.random import generator
from meor.search.queries import Known
from meor.search.screen import Candidates
from meor.search.top import top
from meor.stream.snapshot import Stream
from meor.training.loss import Embedding
from meor.typing import SIDES, Facts, Floats, Ids, Side, Split

LARGEST: Final = replace(MMR, centered=False)
"""The strongest newcomer, whatever old entities do."""

BEST, ONE_IN = 10, 300
"""An answer is drawn among this many, or one in so many entities of snapshot 0 where that is fewer."""

TURNS: Final = 2
"""Questions that an occurrence of the buffer stands for. A step asks one of them, so they cost no time."""

FULL: Final = 0.9
"""Newcomers over entities of snapshot 0 from which on the penalty has its full weight."""

TILE: Final = 512
"""Questions that a scoring function is asked at once."""


Best = Callable[[Ids, Ids, Side], Ids]
"""[Q, K] the K old entities that score best at questions (anchor, relation, side), or all of them."""


@dataclass(slots=True)
class Probe(Penalty):
    """A penalty whose occurrences stand for questions that are drawn when the update begins."""

    _asked: Penalty | None = field(init=False, default=None)

    def begin(self, model: Model) -> None:
        self._ask(_best_by_rows(model, self.cohort.n_old, self._count))

    def over(self, entity: Embedding, relation: Embedding, index: Ids) -> Tensor:
        index = self.comparison.members(index)
        if not len(index):
            return entity.data.new_zeros(())
        return self._weight * self._questions(entity, relation).over(entity, relation, self._stood_for(index))

    def pressures(self, entity: Embedding, relation: Embedding, index: Ids) -> tuple[Floats, Floats]:
        return self._questions(entity, relation).pressures(entity, relation, self._stood_for(index))

    def over_scores(self, score: ScoreFunction, index: Ids) -> Tensor:
        index = self.comparison.members(index)
        if not len(index):
            return torch.zeros(())
        asked = self._asked or self._ask(_best_by_scores(score, self.cohort.n_old, self._count))
        return self._weight * asked.over_scores(score, self._stood_for(index))

    def hold_scale(self, score: ScoreFunction) -> Scale:
        asked = self._asked or self._ask(_best_by_scores(score, self.cohort.n_old, self._count))
        return asked.hold_scale(score)

    @property
    def _weight(self) -> float:
        return weight(self._stream.growth(self.cohort.update))

    @property
    def _count(self) -> int:
        return min(BEST, max(1, round(self._stream.entity_counts[0] / ONE_IN)), self.cohort.n_old)

    @property
    def _stream(self) -> Stream:
        if self.comparison.stream is None:
            raise ConfigError("this penalty draws from old facts", remedy="Make it with Comparison.build")
        return self.comparison.stream

    def _questions(self, entity: Embedding, relation: Embedding) -> Penalty:
        asked = self._asked
        if asked is None:
            now = Model(self._known_backbone(), entity.data, relation.data)
            asked = self._ask(_best_by_rows(now, self.cohort.n_old, self._count))
        asked.beside = self.beside
        return asked

    def _ask(self, best: Best) -> Penalty:
        compared, cohort = self.comparison, self.cohort
        past = self._stream.prefix(cohort.update - 1, [Split.TRAIN])
        fact = imagined(past, TURNS * len(cohort), cohort, best)
        asked = Comparison.build(
            self._stream,
            cohort.update,
            fact,
            run=cohort.run,
            variant=LARGEST,
            settings=compared.settings,
        )
        self._asked = Penalty(asked, self.backbone, self.fast)
        return self._asked

    def _stood_for(self, index: Ids) -> Ids:
        """Occurrences of the questions. Steps hold other facts in every pass, and so other turns come up."""
        turn = (index + index[:1].sum()) // len(SIDES) % TURNS
        question = turn * len(self.cohort) + index
        return np.asarray(len(SIDES) * question + index % len(SIDES))


def weight(growth: float) -> float:
    """Of the penalty, at an update that brings this share of what snapshot 0 has."""
    return min(1.0, growth / FULL)


def imagined(past: Facts, count: int, cohort: Cohort, best: Best) -> Facts:
    """[count, 3] questions of old facts with an imagined answer: of each even one the head, else the tail.

    Every question is as likely as any other. If facts were drawn, those about hubs would come up most, and
    that is where newcomers are often right.
    """
    drawn = generator("imagined", cohort.run, cohort.update)
    fact = np.empty((count, 3), np.int64)
    for side in SIDES:
        mine = slice(int(side), None, len(SIDES))
        anchor, relation = np.unique(past[:, [side.anchor_column, 1]], axis=0).T
        chosen = drawn.integers(0, max(len(anchor), 1), len(fact[mine]))
        found = best(anchor[chosen], relation[chosen], side)
        rank = drawn.integers(0, max(found.shape[1], 1), len(found))
        fact[mine, side.anchor_column], fact[mine, 1] = anchor[chosen], relation[chosen]
        fact[mine, side.answer_column] = found[np.arange(len(found)), rank]
    return fact


def _best_by_rows(model: Model, n_old: int, count: int) -> Best:
    old = candidate_rows(model.backbone, model.entity[:n_old])
    candidates = Candidates.prepare(model.backbone.scoring, old)

    def best(anchor: Ids, relation: Ids, side: Side) -> Ids:
        nobody = np.zeros(len(anchor), np.int64)
        asked = model.query_array(anchor, relation, side)
        return top(candidates, asked, Known(nobody, nobody, nobody), count, n_old)[0]

    return best


def _best_by_scores(score: ScoreFunction, n_old: int, count: int) -> Best:
    def best(anchor: Ids, relation: Ids, side: Side) -> Ids:
        found = []
        with torch.no_grad():
            for begin in range(0, len(anchor), TILE):
                part = slice(begin, begin + TILE)
                scores = score(torch.from_numpy(anchor[part]), torch.from_numpy(relation[part]), side)
                found.append(scores[:, :n_old].topk(count, dim=1).indices.cpu().numpy())
        return np.concatenate(found) if found else np.empty((0, count), np.int64)

    return best
