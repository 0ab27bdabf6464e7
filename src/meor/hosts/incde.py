"""IncDE: facts in hierarchical order, distillation of entities, and two stages.

    L = L_new + w * sum over entities k of m_k * sum over coordinates of Huber(e'_k - e_k)

- Order: layer by layer outwards from the old graph, the most central facts first (`centrality.py`). Batches
  are consecutive blocks of it, never shuffled.
- The teacher e' of an old entity is its row at the end of the update before, and m_k = 1. The teacher of a
  new one is its row before the last batch; m_k is its betweenness plus its degree, and 0 until a batch has
  held it.
- Stages: for 21 epochs new rows alone are trained, without distillation; then every row, with it. Nothing
  stops before epoch 31. Relations are not distilled.

Clean, m_k has no weight to learn: one that multiplies a loss would only learn to make it small.

`variant=released`: the loader reads plain file order after it has read the sorted one. The teacher of a new
entity is its row after the last batch, which is the row itself, so nothing is distilled from it. At update 4,
the last one of the authors' streams, w is ten times as large. (Their Adam goes on from stage to stage; here
each stage begins with a fresh one.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Backbone
from meor.hosts.centrality import Centrality, learning_order
from meor.hosts.margin import MarginHost, MarginSettings, Strength
from meor.training.anchor import copied, distilled
from meor.training.host import Plan, Stage, Update
from meor.training.loss import Batch, Embedding
from meor.training.rows import Term
from meor.typing import Facts, Floats

FIRST_STAGE = 21  # epochs
LEAST = 31
LAST_UPDATE, LAST_FACTOR = 4, 10.0


class IncDESettings(MarginSettings):
    patience: int = 5
    weight: Strength = 0.01


class IncDE(MarginHost):
    name = "incde"
    Settings = IncDESettings
    settings: IncDESettings
    batch_facts = 512  # 1024 items
    selects_on_test = False
    _prepared: tuple[int, Centrality] | None = None

    def plan_of(self, update: Update) -> Plan:
        return replace(
            super().plan_of(update), order="file", least_passes=0 if self.freezes(update) else LEAST
        )

    def stages(self, update: Update) -> Iterator[Stage]:
        plan = self.plan_of(update)
        if not update.number or self.freezes(update):
            yield from super().stages(update)
            return
        first = min(FIRST_STAGE, plan.passes)
        yield Stage(replace(plan, passes=first, validate_every=0), update.n_old, update.m_old)
        if plan.passes > first:
            yield Stage(replace(plan, passes=plan.passes - first, least_passes=LEAST - first), 0, 0)

    def begin(
        self, update: Update, stage: Stage, backbone: Backbone, entity: Embedding, relation: Embedding
    ) -> None:
        super().begin(update, stage, backbone, entity, relation)
        self.teacher, self.next_teacher = entity.data.clone(), entity.data.clone()
        self.seen = torch.zeros(update.n_entities - update.n_old, dtype=torch.float64)
        self.distils = update.number > 0 and (stage.entity_from == 0 or self.freezes(update))
        self.importance = self._importance() if self.distils else np.empty(0)
        self.held = np.empty(0, np.int64)

    def _importance(self) -> Floats:
        """[n] m_k, before it is counted who was seen."""
        update, weight = self.update, np.ones(self.update.n_entities)
        if self.settings.released:
            weight[update.n_old :] = 0.0
        else:
            found = self.centrality()
            weight[update.n_old :] = (found.node + found.degree)[update.n_old :]
        return weight

    def centrality(self) -> Centrality:
        if self._prepared is None or self._prepared[0] != self.update.number:
            self._prepared = self.update.number, Centrality.of(self.update.train, self.update.n_entities)
        return self._prepared[1]

    def facts(self) -> Facts:
        if self.settings.released:
            return self.update.train
        update = self.update
        order = learning_order(update.train, update.n_old, update.n_entities, self.centrality())
        return update.train[order]

    def terms(self, batch: Batch) -> tuple[Term, ...]:
        if not self.distils:
            return super().terms(batch)
        n_old = self.update.n_old
        self.held = np.concatenate([batch.fact[:, [0, 2]].ravel(), batch.negative.ravel()])
        is_last = self.settings.released and self.update.number == LAST_UPDATE
        weight = self.settings.weight * (LAST_FACTOR if is_last else 1.0)
        counted = weight * self.importance
        counted[n_old:] *= self.seen.numpy()
        distillation = distilled(self.entity, self.teacher, counted)
        return *super().terms(batch), distillation, copied(self.entity, self.next_teacher, n_old)

    by_rows = MarginHost.by_rows  # `stepped` reads no gradient

    def stepped(self) -> None:
        if self.distils:
            n_old = self.update.n_old
            self.teacher, self.next_teacher = self.next_teacher, self.teacher
            self.seen.numpy()[self.held[self.held >= n_old] - n_old] = 1.0

    def tensors(self) -> dict[str, Tensor]:
        return {"teacher": self.teacher, "seen": self.seen} if self.update.number else {}

    def load(self, tensors: dict[str, Tensor]) -> None:
        for name, rows in self.tensors().items():
            rows.copy_(tensors[name])
        self.next_teacher.copy_(self.teacher)
