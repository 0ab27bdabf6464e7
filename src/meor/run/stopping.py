"""When an update has been trained for long enough: old answers and newcomers are weighed equally.

The harmonic mean of H_cur and A_TN of the update, on seeded samples of validation facts: the same ones at
every validation, so only the model differs. Where old rows do not move, what they decide is kept (`Recount`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from meor.backbone import Model
from meor.evaluation.endpoints import measure
from meor.evaluation.rank import Counts, RankArray, count, universes_of
from meor.evaluation.recount import Recount
from meor.evaluation.tally import tally
from meor.stream.occurrence import EvaluationFilter, Occurrences, occurrences
from meor.stream.snapshot import Stream
from meor.training.host import Validation
from meor.typing import SIDES, Role, Side, Split

OLD_FACTS = 1_000
"""Validation facts of each earlier snapshot that are ranked at most."""

NEW_FACTS = 2_000
"""The same of the update itself: ranking all 15,000 of ENTITY would take longer than the pass they judge."""


ENOUGH = 2**26
"""Of a budget of at least so many bytes, half is for what old rows decide. Less is for ranking alone."""


@dataclass(slots=True)
class UpdateScore:
    """A model of the update -> the harmonic mean; higher is better."""

    stream: Stream
    update: int
    filter_splits: tuple[Split, ...]
    memory: int
    frozen: bool  # neither an old entity nor an old relation moves
    _known: EvaluationFilter = field(init=False)
    _asked: dict[tuple[Side, Role], Occurrences] = field(init=False)
    _recount: dict[tuple[Side, Role], Recount] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._known = EvaluationFilter.through(self.stream, self.update, self.filter_splits)
        self._asked = {}
        for side in SIDES:
            for role, sample in ((Role.HISTORICAL, OLD_FACTS), (Role.TARGET_NEWCOMER, NEW_FACTS)):
                asked = occurrences(self.stream, self.update, side, Split.VALID, sample=sample)
                self._asked[side, role] = asked.select(asked.role == role)

    @property
    def can_judge(self) -> bool:
        """Are there queries of both kinds, on some side?"""
        return all(self._queries(role) for role in (Role.HISTORICAL, Role.TARGET_NEWCOMER))

    def __call__(self, model: Model) -> float:
        kept, gained = (self._mean(model, role) for role in (Role.HISTORICAL, Role.TARGET_NEWCOMER))
        return 2 * kept * gained / (kept + gained)

    def _mean(self, model: Model, role: Role) -> float:
        """Sides weigh the same, as in the endpoints; a side without a query is left out."""
        found = [measure(self._ranks(model, side, role)) for side in self._queries(role)]
        return float(np.mean(found))

    def _queries(self, role: Role) -> list[Side]:
        return [side for side in SIDES if len(self._asked[side, role])]

    def _ranks(self, model: Model, side: Side, role: Role) -> RankArray:
        asked, universes = self._asked[side, role], universes_of(self.stream, self.update)
        if not self.frozen:
            return count(model, asked, self._known, universes, memory=self.memory).ranks()[1]
        if (side, role) not in self._recount:
            kept = self.memory // 2 if self.memory >= ENOUGH else 0
            within = self.memory - kept, kept // len(self._asked)
            n_relations = self.stream.relation_counts[self.update - 1]
            self._recount[side, role] = Recount(asked, self._known, universes, n_relations, *within)
        return self._recount[side, role](model).ranks()[1]


@dataclass(slots=True)
class SnapshotScore:
    """A model of the update -> MRR on facts of the update's own snapshot, as the field stops its learners."""

    stream: Stream
    update: int
    by: Validation
    memory: int
    _known: EvaluationFilter = field(init=False)
    _asked: list[Occurrences] = field(init=False)

    def __post_init__(self) -> None:
        self._known = EvaluationFilter.through(self.stream, self.update, self.by.filter_splits)
        every = (
            occurrences(self.stream, self.update, side, self.by.split, sample=self.by.sample)
            for side in SIDES
        )
        self._asked = [each.select(each.snapshot == self.update) for each in every]

    @property
    def can_judge(self) -> bool:
        return len(self._asked[0]) > 0

    def __call__(self, model: Model) -> float:
        n_cur = self.stream.entity_counts[self.update]
        counted = [
            tally(model, each, self._known, [(0, n_cur)], n_cur, self.memory)[0] for each in self._asked
        ]
        every = np.concatenate(counted)
        return measure(Counts(every, np.zeros_like(every)).ranks()[1])
