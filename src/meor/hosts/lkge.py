"""LKGE: a masked autoencoder, embedding transfer, and a regulariser that counts what a row was learned from.

    L = L_new + beta * L_MAE + alpha * sum over old rows of | w (x - x_old) |^2

L_MAE is in `autoencoder.py`. w = c_old / (c_old + c_new): c_new of an entity or relation is one more than its
facts in the update, c_old the same summed over the snapshots that knew it. So rows stay that the past says
much about and the update little. New rows start at what the autoencoder predicts for them (transfer).

`variant=released`: the code looks up names that never exist, so the past has no part in a prediction (clean,
the old row joins the mean with weight c_old); transfer is off in every shipped command; and training stops by
test facts (`margin.py`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Backbone
from meor.hosts.autoencoder import Autoencoder
from meor.hosts.margin import MarginHost, MarginSettings, Strength
from meor.training.anchor import anchored
from meor.training.host import Stage, Update
from meor.training.loss import Batch, Embedding
from meor.training.rows import Term
from meor.typing import Facts, Floats


class LKGESettings(MarginSettings):
    alpha: Strength = 0.01
    beta: Strength = 0.1  # the authors give 1.0 for FACT


class LKGE(MarginHost):
    name = "lkge"
    Settings = LKGESettings
    settings: LKGESettings

    def begin(
        self, update: Update, stage: Stage, backbone: Backbone, entity: Embedding, relation: Embedding
    ) -> None:
        super().begin(update, stage, backbone, entity, relation)
        self.before = entity.data[: update.n_old].clone(), relation.data[: update.m_old].clone()
        self.weight = tuple(_weight(*counts_of(update, kind)) for kind in ("entity", "relation"))
        self.coder = self._coder()

    def _coder(self) -> Autoencoder:
        update, width = self.update, self.entity.data.shape[1]
        sizes = update.n_entities, 2 * update.m_relations
        if self.settings.released or not update.number:
            return Autoencoder.of(update.train, *sizes)
        past = [counts_of(update, kind)[0] for kind in ("entity", "relation")]
        vectors = (rows.reshape(-1, width) for rows in self.before)
        parts = []
        for rows, size in zip(vectors, sizes, strict=True):
            parts.append(np.zeros((size, width)))
            parts[-1][: len(rows)] = rows.numpy()
        counted = np.concatenate([past[0], past[1].repeat(2)])
        return Autoencoder.of(update.train, *sizes, counted, np.concatenate(parts))

    def start(self) -> None:
        """Embedding transfer."""
        update, width = self.update, self.entity.data.shape[1]
        if self.settings.released or not update.number:
            return
        predicted = torch.from_numpy(self.coder.predict(self.entity.data, self.relation.data).copy())
        self.entity.data[update.n_old :] = predicted[update.n_old : update.n_entities]
        vectors = self.relation.data.reshape(-1, width)
        new = slice(2 * update.m_old, 2 * update.m_relations)
        told = torch.from_numpy(self.coder.scale[update.n_entities :][new] > 0)
        vectors[new][told] = predicted[update.n_entities :][new][told]

    def terms(self, batch: Batch) -> tuple[Term, ...]:
        predicted = self.coder.term(self.entity, self.relation, self.settings.beta)
        held = (
            anchored(table, before, weight, self.settings.alpha)
            for table, before, weight in zip(
                (self.entity, self.relation), self.before, self.weight, strict=True
            )
        )
        return *super().terms(batch), predicted, *held

    def tensors(self) -> dict[str, Tensor]:
        return dict(zip(("entity", "relation"), self.before, strict=True))

    def load(self, tensors: dict[str, Tensor]) -> None:
        for name, rows in self.tensors().items():
            rows.copy_(tensors[name])
        self.coder = self._coder()


def counts_of(update: Update, kind: str) -> tuple[Floats, Floats]:
    """c_old and c_new of every entity or relation; c_old is 0 for what the update admits."""
    size = update.n_entities if kind == "entity" else update.m_relations
    old, known = np.zeros(size), 0
    for train in update.past:
        named = _named(train, kind)
        known = max(known, int(named.max(initial=-1)) + 1)
        old += np.bincount(named, minlength=size)
        old[:known] += 1
    new = 1.0 + np.bincount(_named(update.train, kind), minlength=size).astype(np.float64)
    return old, new


def _named(train: Facts, kind: str) -> Facts:
    return train[:, [0, 2]].ravel() if kind == "entity" else train[:, 1]


def _weight(old: Floats, new: Floats) -> Tensor:
    """[rows, 1] w squared, as it enters the sum."""
    return torch.from_numpy(np.square(old / (old + new))[:, None])
