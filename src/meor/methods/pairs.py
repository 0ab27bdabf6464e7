"""From scores of single pairs back to the rows they were made of."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from meor.backbone.base import Backbone, Geometry
from meor.cohort.newcomers import Cohort
from meor.compiled import fast_kernel, share
from meor.search.exact import TILE_NUMBERS
from meor.training.loss import Embedding, grouped
from meor.typing import SIDES, Floats, Ids, Side


@dataclass(frozen=True, slots=True)
class Pairs:
    """Queries that meet entities, and how much a loss grows with the score of each pair."""

    anchor: Ids  # [Q]
    relation: Ids  # [Q]
    side: NDArray[np.int8]  # [Q]
    row: Floats  # [Q, W] query rows
    query: Ids  # [P]
    entity: Ids  # [P]
    weight: Floats  # [P] d(loss) / d(score)

    @classmethod
    def of(cls, cohort: Cohort, index: Ids, row: Floats, query: Ids, entity: Ids, weight: Floats) -> Pairs:
        """Pairs of occurrences; those without a weight are left out."""
        at = np.flatnonzero(weight)
        asked = cohort.anchor[index], cohort.relation[index], cohort.side[index]
        return cls(*asked, row, query[at], entity[at], weight[at])

    def times(self, factor: float) -> Pairs:
        return replace(self, weight=factor * self.weight)


def through_rows(
    loss: float,
    backbone: Backbone,
    entity: Embedding,
    relation: Embedding,
    row_EW: Floats,
    pairs: Sequence[Pairs],
) -> Tensor:
    """A known loss that is differentiable in the trained rows through the given pairs."""
    tables = _Tables(backbone, entity, relation, row_EW)
    value = entity.data.new_tensor(loss)
    return _Through.apply(entity.trained, relation.trained, value, tables, pairs)  # type: ignore[no-any-return]


class _Through(torch.autograd.Function):
    """A known value; the gradient is summed in `backward`, with the upstream factor in it."""

    @staticmethod
    def forward(
        context: Any,
        entity_rows: Tensor,
        relation_rows: Tensor,
        loss: Tensor,
        tables: _Tables,
        pairs: Sequence[Pairs],
    ) -> Tensor:
        context.made_from = tables, pairs
        return loss.clone()

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        if context.made_from is None:
            raise RuntimeError("Backward is called a second time. Compute the penalty again before it.")
        tables, pairs = context.made_from
        context.made_from = None
        return *tables.gradients([each.times(float(upstream[0])) for each in pairs]), None, None, None


@dataclass(frozen=True, slots=True)
class _Tables:
    backbone: Backbone
    entity: Embedding
    relation: Embedding
    candidate: Floats  # [E, W] entity rows as they are compared

    def gradients(self, pairs: Sequence[Pairs]) -> tuple[Tensor, Tensor]:
        found = torch.zeros_like(self.entity.trained), torch.zeros_like(self.relation.trained)
        for each in pairs:
            by_query, by_candidate = self._of_pairs(each, found[0])
            if by_candidate is not None:
                ids, gradient = by_candidate
                stored = self.entity.data[ids].double()
                _add_trained(found[0], self.entity, ids, self.backbone.candidate_gradient(stored, gradient))
            for side in SIDES:
                self._to_queries(each, side, by_query, *found)
        return found

    def _of_pairs(self, pairs: Pairs, into: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """By query rows, and by the rows of entities: their ids, and gradients by candidate rows."""
        if self.backbone.geometry is None:
            return self._by_autograd(pairs, into), None
        trained = pairs.entity >= self.entity.first
        ids, place = np.unique(pairs.entity[trained], return_inverse=True)
        is_dot = self.backbone.geometry is Geometry.DOT
        by_query, by_candidate = np.zeros_like(pairs.row), np.zeros((len(ids), pairs.row.shape[1]))
        everyone = np.arange(len(by_query))
        start, entry = grouped(pairs.query, 0, len(by_query))
        told = pairs.row, everyone, self.candidate, pairs.entity, pairs.weight, start, entry, by_query
        share(_pull_rows, len(by_query), is_dot, *told)
        start, entry = grouped(place, 0, len(ids))
        weight, query = pairs.weight[trained], pairs.query[trained]
        told = self.candidate, ids, pairs.row, query, weight, start, entry, by_candidate
        share(_pull_rows, len(ids), is_dot, *told)
        return torch.from_numpy(by_query), (torch.from_numpy(ids), torch.from_numpy(by_candidate))

    def _by_autograd(self, pairs: Pairs, into: Tensor) -> Tensor:
        """By query rows where no kernel knows the score; rows of entities get theirs here."""
        by_query = torch.zeros(pairs.row.shape, dtype=torch.float64)
        parts = 1 + len(pairs.weight) * pairs.row.shape[1] // TILE_NUMBERS
        for part in np.array_split(np.arange(len(pairs.weight)), parts):
            query, of = (torch.from_numpy(each[part]) for each in (pairs.query, pairs.entity))
            with torch.enable_grad():
                asked = torch.from_numpy(pairs.row)[query].requires_grad_()
                own = self.entity.data[of].double().requires_grad_()
                score = self.backbone.compare(asked, own)
                found = torch.autograd.grad(
                    score, (asked, own), torch.from_numpy(pairs.weight[part]).to(score)
                )
            by_query.index_add_(0, query, found[0])
            _add_trained(into, self.entity, of, found[1])
        return by_query

    def _to_queries(
        self, pairs: Pairs, side: Side, by_query: Tensor, by_entity: Tensor, by_relation: Tensor
    ) -> None:
        on = np.flatnonzero(pairs.side == side)
        anchor, of = (torch.from_numpy(each[on]) for each in (pairs.anchor, pairs.relation))
        with torch.enable_grad():
            rows = [
                table.data[ids].double().requires_grad_()
                for table, ids in ((self.entity, anchor), (self.relation, of))
            ]
            made = self.backbone.query(rows[0], rows[1], side)
            found = torch.autograd.grad(made, rows, by_query[torch.from_numpy(on)])
        _add_trained(by_entity, self.entity, anchor, found[0])
        _add_trained(by_relation, self.relation, of, found[1])


def _add_trained(into: Tensor, table: Embedding, ids: Tensor, gradient: Tensor) -> None:
    """Frozen rows have no place in a gradient."""
    on = ids >= table.first
    if not bool(on.all()):
        ids, gradient = ids[on], gradient[on]
    into.index_add_(0, ids - table.first, gradient.to(into.dtype))


@fast_kernel
def _pull_rows(begin, end, is_dot, table, place, other, partner, weight, start, entry, gradient):
    """Rows `place` of one table: what the pairs of each contribute, added in their order."""
    for row in range(begin, end):
        own, mine = table[place[row]], gradient[row]
        for at in range(start[row], start[row + 1]):
            p = entry[at]
            theirs = other[partner[p]]
            for i in range(mine.shape[0]):
                if is_dot:
                    mine[i] += weight[p] * theirs[i]
                else:
                    apart = own[i] - theirs[i]
                    mine[i] -= weight[p] * (math.copysign(1.0, apart) if apart != 0 else 0.0)
