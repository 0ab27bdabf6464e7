"""The margin loss of TransE on unit rows, with inverse relations, fused; autograd is the reference.

A fact (h, r, t) gives two *items*, (h, r, t) and (t, r', h), and each item negatives of its own. With
f(h, r, t) = |n(h) + n(r) - n(t)|_1, the loss of an item is max(0, f - mean f of its negatives + margin). A
relation row holds r and r', so as vectors r is number 2 r and r' is number 2 r + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from meor.compiled import share
from meor.training.loss import Batch, Embedding, grouped, workspace
from meor.training.margin_kernels import gather_relations, gather_rows, sweep_items, unit_rows
from meor.typing import Facts, Side

Array = NDArray[Any]
MARGIN = 8.0


def items_of(fact: Facts) -> Facts:
    """[2F, 3] each fact, then its inverse; the relation column numbers vectors."""
    head, relation, tail = fact.T
    forward = np.stack([head, 2 * relation, tail], axis=1)
    inverse = np.stack([tail, 2 * relation + 1, head], axis=1)
    return np.ascontiguousarray(np.stack([forward, inverse], axis=1).reshape(-1, 3))


Gradients = Mapping[int, Array]
"""By `id` of a table: the gradient of its trained rows, to which each term adds its own."""

Term = Callable[[Gradients], float]
"""A term of a loss: its value; its gradient is added on the way."""


def summed(entity: Embedding, relation: Embedding, first: Term, *others: Term) -> Tensor:
    """The sum of terms, differentiable in the trained rows. The first one fills the gradients, others add."""
    terms = (first, *others)
    return _Summed.apply(entity.trained, relation.trained, entity, relation, terms)  # type: ignore[no-untyped-call,no-any-return]


def margin_loss(
    entity: Embedding,
    relation: Embedding,
    items: Batch,
    *,
    divisor: float,
    margin: float = MARGIN,
    fused: bool = True,
) -> Tensor:
    """The sum of the items' losses over a divisor: the field counts rows, (1 + negatives) per item."""
    if fused:
        return summed(entity, relation, margin_term(entity, relation, items, divisor, margin))
    return _reference(entity.whole(), relation.whole(), items, margin) / divisor


def _reference(entity: Tensor, relation: Tensor, items: Batch, margin: float) -> Tensor:
    device, width = entity.device, entity.shape[1]
    entity = normalize(entity, dim=1)
    vector = normalize(relation.reshape(-1, width), dim=1)
    head, of, tail = torch.from_numpy(items.fact).to(device).unbind(1)
    put_in = entity[torch.from_numpy(items.negative).to(device)]
    on_tail = torch.from_numpy(items.replaced == Side.TAIL).to(device)[:, :, None]
    heads = torch.where(on_tail, entity[head][:, None], put_in)
    tails = torch.where(on_tail, put_in, entity[tail][:, None])
    negative = (heads + vector[of][:, None] - tails).abs().sum(-1)
    positive = (entity[head] + vector[of] - entity[tail]).abs().sum(-1)
    return torch.relu(positive - negative.mean(1) + margin).sum()


class _Summed(torch.autograd.Function):
    """Losses and gradients come from one call each; backward only hands the gradient on."""

    @staticmethod
    def forward(
        context: Any,
        entity_rows: Tensor,
        relation_rows: Tensor,
        entity: Embedding,
        relation: Embedding,
        terms: tuple[Term, ...],
    ) -> Tensor:
        context.gradients = torch.empty_like(entity_rows), torch.empty_like(relation_rows)
        by_table = dict(zip((id(entity), id(relation)), (g.numpy() for g in context.gradients), strict=True))
        return entity_rows.new_tensor(sum(term(by_table) for term in terms))

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        if context.gradients is None:
            raise RuntimeError("Backward is called a second time. Compute the loss again before it.")
        entity_gradient, relation_gradient = context.gradients
        context.gradients = None  # the only owner hands them over; a second one would cost a copy
        factor = float(upstream[0])
        if factor != 1.0:
            entity_gradient, relation_gradient = entity_gradient * factor, relation_gradient * factor
        return entity_gradient, relation_gradient, None, None, None


def margin_term(
    entity: Embedding, relation: Embedding, items: Batch, divisor: float, margin: float = MARGIN
) -> Term:
    """What `margin_loss` is: the first term of a sum, as it overwrites the gradients."""

    def term(gradient: Gradients) -> float:
        by_entity = gradient[id(entity)]
        width = entity.data.shape[1]
        by_vector = gradient[id(relation)].reshape(-1, width)
        tables = entity.data.numpy(), relation.data.reshape(-1, width).numpy()
        return _fused(*tables, items, by_entity, by_vector, (margin, 1.0 / divisor)) / divisor

    return term


def _fused(
    entity: Array,
    relation: Array,
    items: Batch,
    entity_gradient: Array,
    relation_gradient: Array,
    numbers: tuple[float, float],
) -> float:
    """The summed loss of a batch; fills the gradients of the last rows of each table."""
    fact, negative, replaced = items.fact, items.negative, items.replaced
    space = workspace(len(fact), entity.shape[1], negative.shape[1], entity.dtype)
    unit, length = _units(entity, "entity")
    vector, vector_length = _units(relation, "relation")
    margin, counts = numbers
    work = space.scratch, space.weight, space.loss
    share(sweep_items, len(fact), margin, counts, unit, vector, fact, negative, replaced, *work)
    if len(entity_gradient):
        target = np.concatenate([negative, fact[:, 2:], fact[:, :1], fact[:, 2:]], axis=1).ravel()
        first = len(entity) - len(entity_gradient)
        start, entry = grouped(target, first, len(entity_gradient))
        batch = start, entry, replaced, space.scratch, space.weight
        share(gather_rows, len(entity_gradient), first, batch, unit, length, entity_gradient)
    if len(relation_gradient):
        first = len(relation) - len(relation_gradient)
        start, entry = grouped(np.ascontiguousarray(fact[:, 1]), first, len(relation_gradient))
        told = space.scratch, space.weight, vector, vector_length, relation_gradient
        share(gather_relations, len(relation_gradient), first, start, entry, *told)
    return float(space.loss.sum())


_kept: dict[str, Array] = {}  # fresh pages for every batch would cost more than the arithmetic


def _units(table: Array, name: str) -> tuple[Array, Array]:
    unit, length = _kept.get(name), np.empty(len(table))
    if unit is None or (unit.shape, unit.dtype) != (table.shape, table.dtype):
        unit = _kept[name] = np.empty_like(table)
    share(unit_rows, len(table), table, unit, length)
    return unit, length
