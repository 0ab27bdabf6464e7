"""The link-prediction loss of a batch, fused on the CPU, by autograd anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from meor.backbone.base import GAMMA, Backbone
from meor.training.kernels import fused_link_loss
from meor.typing import Facts, Ids, Side


@dataclass(slots=True)
class Table:
    """A table whose rows from `first` on are trained; the others are not parameters at all.

    `trained` shares its storage with `data[first:]`. Masking gradients would not be freezing:
    an optimizer's moments move masked rows too.
    """

    data: Tensor
    first: int
    trained: nn.Parameter

    @classmethod
    def of(cls, data: Tensor, first: int = 0) -> Table:
        data = data.detach().contiguous()
        return cls(data, first, nn.Parameter(data[first:]))

    def whole(self) -> Tensor:
        """Every row, differentiable in the trained ones."""
        return torch.cat([self.data[: self.first].detach(), self.trained])


@dataclass(frozen=True, slots=True)
class Batch:
    """Positive facts and the corruptions each is compared with."""

    fact: Facts  # [B, 3]
    negative: Ids  # [B, K] the entity put in
    replaced: NDArray[np.int8]  # [B, K] the side that was replaced

    def __len__(self) -> int:
        return len(self.fact)


def link_loss(
    backbone: Backbone, entity: Table, relation: Table, batch: Batch, *, fused: bool | None = None
) -> Tensor:
    """Mean softplus(-s) of the positives plus the mean over their negatives of softplus(s) (decision 13)."""
    if fused is None:
        fused = backbone.fused_form is not None and entity.data.device.type == "cpu"
    if fused:
        return _FusedLinkLoss.apply(entity.trained, relation.trained, backbone, entity, relation, batch)  # type: ignore[no-untyped-call,no-any-return]
    return _reference_link_loss(backbone, entity.whole(), relation.whole(), batch)


def _reference_link_loss(backbone: Backbone, entity: Tensor, relation: Tensor, batch: Batch) -> Tensor:
    device = entity.device
    head, rel, tail = torch.tensor(batch.fact, device=device).unbind(1)
    query_tail = backbone.query(entity[head], relation[rel], Side.TAIL)
    query_head = backbone.query(entity[tail], relation[rel], Side.HEAD)
    positive = backbone.compare(query_tail, entity[tail])
    on_tail = torch.from_numpy(batch.replaced == Side.TAIL).to(device)
    query = torch.where(on_tail[:, :, None], query_tail[:, None], query_head[:, None])
    negative = backbone.compare(query, entity[torch.from_numpy(batch.negative).to(device)])
    softplus = nn.functional.softplus
    return softplus(-positive, threshold=1e9).mean() + softplus(negative, threshold=1e9).mean()


class _FusedLinkLoss(torch.autograd.Function):
    """Loss and gradient come from one kernel call; backward only hands the gradient on."""

    @staticmethod
    def forward(
        context: Any,
        entity_rows: Tensor,
        relation_rows: Tensor,
        backbone: Backbone,
        entity: Table,
        relation: Table,
        batch: Batch,
    ) -> Tensor:
        entity_gradient, relation_gradient = torch.empty_like(entity_rows), torch.empty_like(relation_rows)
        loss = fused_link_loss(
            backbone.fused_form or 0,
            GAMMA,
            entity.data.numpy(),
            relation.data.numpy(),
            np.ascontiguousarray(batch.fact),
            batch.negative,
            batch.replaced,
            entity_gradient.numpy(),
            relation_gradient.numpy(),
        )
        context.gradients = entity_gradient, relation_gradient
        return entity_rows.new_tensor(loss)

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        if context.gradients is None:
            raise RuntimeError("Backward is called a second time. Compute the loss again before it.")
        entity_gradient, relation_gradient = context.gradients
        context.gradients = None  # the only owner hands them over; a second one would cost a copy
        factor = float(upstream[0])
        if factor != 1.0:
            entity_gradient, relation_gradient = entity_gradient * factor, relation_gradient * factor
        return entity_gradient, relation_gradient, None, None, None, None
