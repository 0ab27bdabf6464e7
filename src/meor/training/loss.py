"""The link-prediction loss of a batch, fused on the CPU, by autograd anywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from meor.backbone.base import GAMMA, Backbone
from meor.compiled import share
from meor.training.kernels import group, sweep_facts, sweep_relations, sweep_rows
from meor.typing import Facts, Ids, Side

Array = NDArray[Any]


@dataclass(slots=True)
class Embedding:
    """A table whose rows from `first` on are trained; the others are not parameters at all.

    `trained` shares its storage with `data[first:]`. Masking gradients would not be freezing:
    an optimizer's moments move masked rows too.
    """

    data: Tensor
    first: int
    trained: nn.Parameter

    @classmethod
    def of(cls, data: Tensor, first: int = 0) -> Embedding:
        data = data.detach().contiguous()
        return cls(data, first, nn.Parameter(data[first:]))

    def whole(self) -> Tensor:
        """Every row, differentiable in the trained ones."""
        return torch.cat([self.data[: self.first].detach(), self.trained])


@dataclass(frozen=True, slots=True)
class Aim:
    """What is asked of facts beside a penalty."""

    lift: float = 0.0  # how much higher they are to score
    shrink: float = 0.0  # and what the cubes of their rows' coordinates cost


PLAIN = Aim()


@dataclass(frozen=True, slots=True)
class Batch:
    """Positive facts and the corruptions each is compared with."""

    fact: Facts  # [B, 3]
    negative: Ids  # [B, K] the entity put in
    replaced: NDArray[np.int8]  # [B, K] the side that was replaced
    aim: Aim = PLAIN

    def __len__(self) -> int:
        return len(self.fact)

    def __getitem__(self, rows: slice) -> Batch:
        return Batch(self.fact[rows], self.negative[rows], self.replaced[rows], self.aim)


def link_loss(
    backbone: Backbone,
    entity: Embedding,
    relation: Embedding,
    batch: Batch,
    *,
    fused: bool | None = None,
    constants: bool = True,
) -> Tensor:
    """Mean softplus(lift - s) of positives plus the mean over their negatives of softplus(s) (decision 13).

    To that comes the mean over positives of shrink (sum |h|^3 + sum |t|^3), over coordinates.
    Without `constants` pairs whose rows are all frozen are left out: no step changes their scores, so the
    gradient is the same, bit by bit, and the value lacks their part. Where few entities are new, most pairs
    are of that kind.
    """
    if fused is None:
        fused = backbone.fused_form is not None and entity.data.device.type == "cpu"
    if fused:
        told = backbone, entity, relation, batch, constants
        return _FusedLinkLoss.apply(entity.trained, relation.trained, *told)  # type: ignore[no-untyped-call,no-any-return]
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
    lift, shrink = batch.aim.lift, batch.aim.shrink
    loss = softplus(lift - positive, threshold=1e9).mean() + softplus(negative, threshold=1e9).mean()
    if shrink:
        loss = loss + shrink * (entity[head].abs() ** 3 + entity[tail].abs() ** 3).sum(1).mean()
    return loss


class _FusedLinkLoss(torch.autograd.Function):
    """Loss and gradient come from one kernel call; backward only hands the gradient on."""

    @staticmethod
    def forward(
        context: Any,
        entity_rows: Tensor,
        relation_rows: Tensor,
        backbone: Backbone,
        entity: Embedding,
        relation: Embedding,
        batch: Batch,
        constants: bool,
    ) -> Tensor:
        entity_gradient, relation_gradient = torch.empty_like(entity_rows), torch.empty_like(relation_rows)
        gradients = entity_gradient.numpy(), relation_gradient.numpy()
        tables, count = (entity.data.numpy(), relation.data.numpy()), len(batch)
        trained = (0, 0) if constants else (entity.first, relation.first)
        if not constants:
            batch = _moving(batch, *trained)
        loss = _fused_link_loss(backbone.fused_form or 0, tables, batch, count, trained, *gradients)
        context.gradients = entity_gradient, relation_gradient
        return entity_rows.new_tensor(loss)

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        if context.gradients is None:
            raise RuntimeError("Backward is called a second time. Compute the loss again before it.")
        entity_gradient, relation_gradient = context.gradients
        context.gradients = None  # given away without a copy
        factor = float(upstream[0])
        if factor != 1.0:
            entity_gradient, relation_gradient = entity_gradient * factor, relation_gradient * factor
        return entity_gradient, relation_gradient, *(None,) * 5


@dataclass(slots=True)
class _Workspace:
    """Scratch kept between batches: fresh pages for every batch would cost more than the arithmetic."""

    scratch: Array
    weight: Array
    loss: Array


_buffers: dict[tuple[str, str], Array] = {}


def buffer(name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """A contiguous view of a flat buffer that only grows.

    It is always contiguous. For a strided array numba compiles other code, whose sums have other last bits,
    and the result of a batch must not depend on the sizes of earlier batches.
    """
    need, key = math.prod(shape), (name, np.dtype(dtype).str)
    held = _buffers.get(key)
    if held is None or held.size < need:
        held = _buffers[key] = np.empty(need, dtype)
    return held[:need].reshape(shape)


def workspace(n_facts: int, width: int, n_negatives: int, dtype: np.dtype[Any]) -> _Workspace:
    return _Workspace(
        buffer("scratch", (5, n_facts, width), dtype),
        buffer("weight", (n_facts, n_negatives + 1), dtype),
        buffer("loss", (n_facts,), np.float64),
    )


def _moving(batch: Batch, first_entity: int, first_relation: int) -> Batch:
    """The facts with a pair that some step can change."""
    own = (batch.fact >= (first_entity, first_relation, first_entity)).any(1)
    moving = np.flatnonzero(own | (batch.negative >= first_entity).any(1))
    fact, negative, replaced = batch.fact, batch.negative, batch.replaced
    return Batch(fact.take(moving, 0), negative.take(moving, 0), replaced.take(moving, 0), batch.aim)


def _fused_link_loss(
    form: int,
    tables: tuple[Array, Array],
    batch: Batch,
    count: int,
    trained: tuple[int, int],
    entity_gradient: Array,
    relation_gradient: Array,
) -> float:
    """Loss of a batch (decision 13) of `count` facts; fills the gradients of the last rows of each table.

    Earlier rows are frozen and have no gradient. Pairs of rows before `trained` alone are left out.
    """
    entity, relation = tables
    fact, negative, replaced = np.ascontiguousarray(batch.fact), batch.negative, batch.replaced
    n_facts, n_negatives = negative.shape
    space = workspace(n_facts, entity.shape[1], n_negatives, entity.dtype)
    counts, given = (count, count * n_negatives), (fact, negative, replaced)
    work = space.scratch, space.weight, space.loss
    # of a wider type they would widen the scores
    lift, shrink = entity.dtype.type(batch.aim.lift), entity.dtype.type(batch.aim.shrink)
    share(sweep_facts, n_facts, form, GAMMA, (lift, shrink), counts, trained, tables, given, *work)
    if len(entity_gradient):
        target = np.concatenate([negative, fact[:, 2:], fact[:, :1], fact[:, 2:]], axis=1).ravel()
        first = len(entity) - len(entity_gradient)
        start, entry = grouped(target, first, len(entity_gradient))
        share(
            sweep_rows,
            len(entity_gradient),
            form,
            entity,
            first,
            start,
            entry,
            replaced,
            space.scratch,
            space.weight,
            entity.dtype.type(shrink / count),
            entity_gradient,
        )
    if len(relation_gradient):
        first = len(relation) - len(relation_gradient)
        start, entry = grouped(np.ascontiguousarray(fact[:, 1]), first, len(relation_gradient))
        share(sweep_relations, len(relation_gradient), start, entry, space.scratch, relation_gradient)
    return float(space.loss.sum() / count)


def grouped(target: Array, first: int, n_rows: int) -> tuple[Array, Array]:
    start = np.empty(n_rows + 1, np.int64)
    entry = np.empty(len(target), np.int64)
    group(target, first, n_rows, start, entry)
    return start, entry
