"""The paper's host: softplus link prediction on current and replayed facts, old rows frozen."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from meor.random import Address, generator
from meor.training.draws import Negatives, draw_negatives
from meor.training.host import Host, Plan, Stage, Step, Update
from meor.training.loss import Batch
from meor.typing import Facts, Ids


class Replay(Host):
    """Trains newcomers only (decisions 13 to 22). With nothing old it is plain training: the base."""

    name = "replay"

    def stages(self, update: Update) -> Iterator[Stage]:
        yield Stage(self.plan_of(update), update.n_old, update.m_old)

    def steps(self, pass_number: int) -> ReplayPass:
        return ReplayPass(self.update, self.stage.plan, pass_number)


class ReplayPass:
    """Blocks of current facts, each with an even slice of the buffer: every fact once per pass."""

    def __init__(self, update: Update, plan: Plan, pass_number: int):
        at = (plan.seed, update.number, pass_number)
        universe = update.n_old if plan.replay_negatives == "old" else update.n_entities
        self.train, self.replay = update.train, update.replay.fact
        self.order = _order(plan, len(self.train), "order", *at)
        self.replay_order = _order(plan, len(self.replay), "replay order", *at)
        self.negatives = draw_negatives(self.train, update.n_entities, plan.negatives, "negatives", *at)
        self.replay_negatives = draw_negatives(self.replay, universe, plan.negatives, "replay negatives", *at)
        self.batch_size = plan.batch_size

    def __len__(self) -> int:
        return math.ceil(len(self.order) / self.batch_size)

    def __getitem__(self, index: int, /) -> Step:
        if not 0 <= index < len(self):
            raise IndexError(index)
        current = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        replayed = self.replay_order[slice(*even_slice(len(self.replay_order), index, len(self)))]
        batch = _rows(self.train, self.negatives, current)
        if len(replayed):
            batch = join(batch, _rows(self.replay, self.replay_negatives, replayed))
        return Step(batch, replayed)


def even_slice(total: int, index: int, parts: int) -> tuple[int, int]:
    """Part `index` of `total` things cut into parts whose sizes differ by at most one."""
    return total * index // parts, total * (index + 1) // parts


def _order(plan: Plan, count: int, *address: Address) -> Ids:
    return np.arange(count) if plan.order == "file" else generator(*address).permutation(count)


def _rows(fact: Facts, negatives: Negatives, chosen: Ids) -> Batch:
    # take: twice as fast as indexing by an array
    return Batch(fact.take(chosen, 0), negatives.entity.take(chosen, 0), negatives.replaced.take(chosen, 0))


def join(first: Batch, second: Batch) -> Batch:
    return Batch(
        np.concatenate([first.fact, second.fact]),
        np.concatenate([first.negative, second.negative]),
        np.concatenate([first.replaced, second.replaced]),
    )
