"""The margin loss of TransE on unit rows, with inverse relations, fused; autograd is the reference.

A fact (h, r, t) gives two *items*, (h, r, t) and (t, r', h), and each item negatives of its own. With
f(h, r, t) = |n(h) + n(r) - n(t)|_1, the loss of an item is max(0, f - mean f of its negatives + margin). A
relation row holds r and r', so as vectors r is number 2 r and r' is number 2 r + 1.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from meor.compiled import share
from meor.training.loss import Batch, Embedding, buffer, grouped
from meor.training.margin_kernels import gather_relations, gather_rows, sweep_items
from meor.training.rows import Array, RowSum, Term
from meor.typing import Facts, Side

MARGIN = 8.0


def items_of(fact: Facts) -> Facts:
    """[2F, 3] each fact, then its inverse; the relation column numbers vectors."""
    head, relation, tail = fact.T
    forward = np.stack([head, 2 * relation, tail], axis=1)
    inverse = np.stack([tail, 2 * relation + 1, head], axis=1)
    return np.ascontiguousarray(np.stack([forward, inverse], axis=1).reshape(-1, 3))


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
        return RowSum(entity, relation, (margin_term(entity, relation, items, divisor, margin),)).loss()
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


def margin_term(
    entity: Embedding, relation: Embedding, items: Batch, divisor: float, margin: float = MARGIN
) -> Term:
    """What `margin_loss` is: the first term of a sum, as it overwrites blocks."""
    fact, negative, replaced = items.fact, items.negative, items.replaced
    width = entity.data.shape[1]
    rows, vectors = entity.data.numpy(), relation.data.reshape(-1, width).numpy()
    pairs = len(fact), negative.shape[1] + 1
    scratch = buffer("scratch", (3, len(fact), width), rows.dtype)
    signs = buffer("signs", (*pairs, width), np.int8)
    weight, loss = buffer("weight", pairs, rows.dtype), buffer("loss", (len(fact),), np.float64)
    told, work = (fact, negative, replaced), (scratch, signs, weight, loss)
    share(sweep_items, len(fact), margin, 1.0 / divisor, (rows, vectors), told, *work)
    named = np.concatenate([negative, fact[:, 2:], fact[:, :1], fact[:, 2:]], axis=1).ravel()
    batch = *grouped(named, entity.first, len(entity.trained)), scratch, signs, weight
    each = relation.data.shape[1] // width
    first = each * relation.first
    start, entry = grouped(np.ascontiguousarray(fact[:, 1]), first, len(vectors) - first)
    trained, trained_vectors = rows[entity.first :], vectors[first:]

    def of_entities(begin: int, end: int, block: Array) -> None:
        gather_rows(begin, end, trained, batch, block)

    def of_relations(begin: int, end: int, block: Array) -> None:
        of = each * begin, each * end, trained_vectors, start, entry
        gather_relations(*of, scratch, weight, block.reshape(-1, width))

    value = float(loss.sum()) / divisor
    return Term(lambda: value, ((entity, of_entities), (relation, of_relations)))
