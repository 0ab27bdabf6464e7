"""What fine-tuning, EWC, EMR, LKGE, IncDE and FastKGE share: TransE on unit rows, a margin loss, a schedule.

All of them grew from one code base. Facts give two items each, themselves and their inverse; negatives are
drawn per item, head or tail by a fair coin; an update is trained until its validation MRR stops rising.

- `schedule=source`: their own epochs and early stopping, every row trained.
- `schedule=paper`: one pass, old rows frozen (decision 37). The base is trained as under `source`.
- `variant=released`: what the authors' code does where that shapes a published figure, as each host says.
  Here: training stops by test facts, because their loader reads the test file as the validation file too; so
  validation facts filter nothing, neither there nor in the figures they publish. IncDE and FastKGE read
  validation facts, which test facts help to filter. Items are shuffled one by one (clean, a fact and its
  inverse share a batch); and negatives are drawn from all entities but the last one, the true one included
  (clean, from all but the true one).

A method's penalty has the run's replay buffer for its queries; no host here learns from that buffer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from meor.hosts.replay import even_slice
from meor.random import Address, generator
from meor.training.draws import Negatives, draw_negatives
from meor.training.host import Host, HostSettings, Plan, Stage, Step, Update, Validation
from meor.training.loss import Batch
from meor.training.margin import MARGIN, items_of, margin_term
from meor.training.rows import RowSum, Term
from meor.typing import SPLITS, Facts, Ids, Split

Strength = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class MarginSettings(HostSettings):
    schedule: Literal["source", "paper"] = "source"
    variant: Literal["clean", "released"] = "clean"
    margin: Strength = MARGIN
    patience: Annotated[int, Field(ge=1)] = 3  # validations, one per pass, without improvement
    validation_sample: Annotated[int, Field(ge=0)] = 2000  # facts at most; 0 takes all

    @property
    def released(self) -> bool:
        return self.variant == "released"


class MarginHost(Host):
    """Trains every row on the facts of an update. Hosts built on it add terms to the loss."""

    Settings: ClassVar[type[HostSettings]] = MarginSettings
    backbones = ("transe-inverse",)
    settings: MarginSettings
    batch_facts: ClassVar[int] = 1024  # 2048 items
    learning_rate: ClassVar[float] = 1e-4
    selects_on_test: ClassVar[bool] = True  # under `variant=released`

    @classmethod
    def defaults(cls, settings: HostSettings) -> Mapping[str, Any]:
        shared = {"learning_rate": cls.learning_rate, "batch": cls.batch_facts, "negatives": 10}
        base = {"epochs": 200, "validate_every": 1, "init_std": "xavier"}
        refine = {"passes": 200, "order": "permuted", "newcomer_init": "base"}
        if getattr(settings, "schedule", "source") == "paper":
            refine |= {"passes": 1, "order": "file"}
        backbone = cls.backbones[0]
        return {"backbone": backbone, "base": {**shared, **base}, "refine": {**shared, **refine}}

    @property
    def validation(self) -> Validation:
        sample = self.settings.validation_sample
        if not self.settings.released:
            return Validation(Split.VALID, sample)
        if self.selects_on_test:
            return Validation(Split.TEST, sample, (Split.TRAIN, Split.TEST))
        return Validation(Split.VALID, sample, SPLITS)

    def freezes(self, update: Update) -> bool:
        return update.number > 0 and self.settings.schedule == "paper"

    def plan_of(self, update: Update) -> Plan:
        plan = replace(super().plan_of(update), patience=self.settings.patience)
        if update.number:
            plan = replace(plan, validate_every=0 if self.freezes(update) else 1, validate_steps=0)
        return plan

    def stages(self, update: Update) -> Iterator[Stage]:
        rows = (update.n_old, update.m_old) if self.freezes(update) else (0, 0)
        yield Stage(self.plan_of(update), *rows)

    def facts(self) -> Facts:
        """The facts of the update in the order that `order=file` keeps."""
        return self.update.train

    def steps(self, pass_number: int) -> MarginPass:
        told = self.update, self.stage.plan, pass_number
        return MarginPass(self.facts(), *told, released=self.settings.released)

    def loss(self, batch: Batch) -> Tensor:
        return self.sum_of(batch).loss()

    def by_rows(self, batch: Batch) -> RowSum | None:
        return self.sum_of(batch)

    def sum_of(self, batch: Batch) -> RowSum:
        return RowSum(self.entity, self.relation, self.terms(batch))

    def terms(self, batch: Batch) -> tuple[Term, ...]:
        """L_new, to which hosts add: hinges over the number of rows in the batch, positives and negatives."""
        rows = len(batch) * (1 + batch.negative.shape[1])
        return (margin_term(self.entity, self.relation, batch, rows, self.settings.margin),)


class MarginPass:
    """Blocks of items with their negatives; every item once per pass."""

    def __init__(self, fact: Facts, update: Update, plan: Plan, pass_number: int, *, released: bool) -> None:
        at = (plan.seed, update.number, pass_number)
        self.items, self.n_replay = items_of(fact), len(update.replay)
        self.draw = unchecked_negatives if released else draw_negatives
        self.drawn = self.draw(self.items, update.n_entities, plan.negatives, "negatives", *at)
        self.order: Ids = np.arange(len(self.items))
        if plan.order == "permuted":
            shuffled = generator("order", *at)
            whole = (2 * shuffled.permutation(len(fact))[:, None] + np.arange(2)).ravel()
            self.order = shuffled.permutation(len(self.items)) if released else whole
        self.batch_items = 2 * plan.batch_size

    def __len__(self) -> int:
        return math.ceil(len(self.order) / self.batch_items)

    def __getitem__(self, index: int, /) -> Step:
        if not 0 <= index < len(self):
            raise IndexError(index)
        item = self.order[index * self.batch_items : (index + 1) * self.batch_items]
        drawn = self.drawn.entity.take(item, 0), self.drawn.replaced.take(item, 0)
        replayed = np.arange(*even_slice(self.n_replay, index, len(self)))
        return Step(Batch(self.items.take(item, 0), *drawn), replayed)


def unchecked_negatives(items: Facts, universe: int, count: int, *address: Address) -> Negatives:
    """As released: the true entity may be drawn, the last one never is."""
    drawn = generator(*address).integers(0, 2 * max(universe - 1, 1), (len(items), count))
    return Negatives(drawn >> 1, (drawn & 1).astype(np.int8))
