"""EMR: a memory of facts is learned again with every batch.

The memory holds 5,000 facts of snapshot 0. Before each update a random half of it is kept, and as many facts
of the update's own snapshot join it. In an update every batch holds the whole memory (forward, without
inverse items), with fresh negatives at every step, in one mean. `variant=released` differs as
`margin.py` says.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from meor.hosts.margin import MarginHost, MarginPass, MarginSettings
from meor.hosts.replay import join
from meor.random import generator
from meor.training.host import Plan, Step, Update
from meor.training.loss import Batch
from meor.training.margin import items_of
from meor.typing import Facts


class EMRSettings(MarginSettings):
    memory: Annotated[int, Field(ge=0)] = 5000


class EMR(MarginHost):
    name = "emr"
    Settings = EMRSettings
    settings: EMRSettings

    def steps(self, pass_number: int) -> MarginPass:
        update, plan = self.update, self.stage.plan
        memory = memory_of(update, self.settings.memory, plan.seed) if update.number else None
        if memory is None or not len(memory):
            return super().steps(pass_number)
        return EMRPass(memory, update, plan, pass_number, released=self.settings.released)


def memory_of(update: Update, size: int, seed: int) -> Facts:
    """The memory while an update is trained: by the draws of this update and of all before it."""
    kept: Facts = np.empty((0, 3), np.int64)
    for number, train in enumerate((*update.past, update.train)):
        draw = generator("memory", seed, number)
        half = size // 2 if number else size
        if number:
            kept = kept[draw.permutation(len(kept))[: len(kept) - len(kept) // 2]]
        fresh = draw.permutation(len(train))[: min(half, len(train))]
        kept = np.concatenate([kept, train[fresh]])
    return kept


class EMRPass(MarginPass):
    def __init__(
        self, memory: Facts, update: Update, plan: Plan, pass_number: int, *, released: bool
    ) -> None:
        super().__init__(update.train, update, plan, pass_number, released=released)
        self.memory = items_of(memory)[::2]
        self.update, self.plan, self.pass_number = update, plan, pass_number

    def __getitem__(self, index: int, /) -> Step:
        step = super().__getitem__(index)
        at = self.plan.seed, self.update.number, self.pass_number, index
        many = self.plan.negatives
        drawn = self.draw(self.memory, self.update.n_entities, many, "memory negatives", *at)
        return Step(join(step.batch, Batch(self.memory, drawn.entity, drawn.replaced)), step.replay)
