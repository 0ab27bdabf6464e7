"""EWC: old rows are held where they were, each coordinate as hard as its Fisher information says.

    L = L_new + alpha * sum over old rows of F (x - x_old)^2

F sums squared gradients of the total loss over every step of an update, each times the rows of its batch (the
loss is a mean over them), and divides by the number of facts. At the end of snapshot s it is averaged with
that of the snapshots before: F <- (F + (s + 1) F_old) / (s + 2), where rows without a past have F_old = 0.

`variant=released`: F is never set back, so the sum of the update at hand, not yet divided, is part of the
pull while it grows. An operator's precedence leaves a stray 1, F <- (F + s F_old + 1) / (s + 2), in the
average of rows with a past, and in that of all rows of the base. So an old coordinate is pulled with about
alpha / 2, and harder the more the update's facts have named its row; the newcomers of one update are hardly
held in the next.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from meor.backbone.base import Backbone
from meor.hosts.margin import MarginHost, MarginSettings, Strength
from meor.training.anchor import anchored
from meor.training.host import Stage, Update
from meor.training.loss import Batch, Embedding
from meor.training.rows import Term

TABLES = ("entity", "relation")


class EWCSettings(MarginSettings):
    alpha: Strength = 0.1


class EWC(MarginHost):
    name = "ewc"
    Settings = EWCSettings
    settings: EWCSettings
    _recalled: Mapping[str, Tensor] = {}

    def recall(self, kept: Mapping[str, Tensor]) -> None:
        self._recalled = kept

    def begin(
        self, update: Update, stage: Stage, backbone: Backbone, entity: Embedding, relation: Embedding
    ) -> None:
        super().begin(update, stage, backbone, entity, relation)
        self.tables = dict(zip(TABLES, (entity, relation), strict=True))
        old = dict(zip(TABLES, (update.n_old, update.m_old), strict=True))
        self.before = {name: table.data[: old[name]].clone() for name, table in self.tables.items()}
        self.old_fisher = {name: torch.zeros_like(rows) for name, rows in self.before.items()}
        for name, rows in self._recalled.items():
            self.old_fisher[name].copy_(rows[: old[name]])
        self.fisher = {name: torch.zeros_like(table.data) for name, table in self.tables.items()}
        if self.settings.released:
            for name, rows in self.old_fisher.items():
                self.fisher[name][: len(rows)] = rows
        self.counted = 0.0

    def terms(self, batch: Batch) -> tuple[Term, ...]:
        self.counted = float(len(batch) * (1 + batch.negative.shape[1]))
        fisher = self.fisher if self.settings.released else self.old_fisher
        held = (
            anchored(table, self.before[name], fisher[name], self.settings.alpha)
            for name, table in self.tables.items()
        )
        return *super().terms(batch), *held

    def stepped(self) -> None:
        for name, table in self.tables.items():
            gradient = table.trained.grad
            if gradient is not None:
                self.fisher[name][table.first :].addcmul_(gradient, gradient, value=self.counted)

    def kept(self) -> dict[str, Tensor]:
        """The averaged Fisher diagonal, for the update after this one."""
        s, found = self.update.number, {}
        for name, total in self.fisher.items():
            own, old = total / len(self.update.train), torch.zeros_like(total)
            old[: len(self.old_fisher[name])] = self.old_fisher[name]
            if self.settings.released:
                averaged = len(self.old_fisher[name]) if s else len(total)
                own[:averaged] = (own + s * old + 1)[:averaged] / (s + 2)
                found[name] = own
            else:
                found[name] = (own + (s + 1) * old) / (s + 2)
        return found

    def tensors(self) -> dict[str, Tensor]:
        parts = {"before": self.before, "old_fisher": self.old_fisher, "fisher": self.fisher}
        return {f"{part}.{name}": rows for part, tables in parts.items() for name, rows in tables.items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        for name, rows in self.tensors().items():
            rows.copy_(tensors[name])
