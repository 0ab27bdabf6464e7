"""A loss that is a sum of terms over rows: value and gradient are made a block of rows at a time.

A block stays in the cache while every term adds to it. Where nobody else needs the gradient, the optimizer
takes each block from there, and no table of gradients is ever written (`Adam.step`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from numpy.typing import NDArray
from torch import Tensor

from meor.compiled import share
from meor.training.loss import Embedding

Array = NDArray[Any]
BLOCK_BYTES: Final = 200_000
"""Of a block's gradient. Its values, moments and anchors take as much each; the second cache holds all."""

Part = Callable[[int, int, Array], None]
"""What adds to the gradient of the trained rows begin..end-1 of a table, given begin, end and that block."""


def block_rows(table: Array) -> int:
    return max(1, BLOCK_BYTES // max(1, table[:1].nbytes))


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a loss. Only the first of a sum may overwrite what is in a block."""

    value: Callable[[], float]  # once its gradient was made
    parts: tuple[tuple[Embedding, Part], ...]


@dataclass(frozen=True, slots=True)
class RowSum:
    """A sum of terms. Its gradient holds until the loss of another batch is made: they share memory."""

    entity: Embedding
    relation: Embedding
    terms: tuple[Term, ...]

    @property
    def value(self) -> float:
        """Once the whole gradient was made."""
        return sum(term.value() for term in self.terms)

    def parts(self) -> Mapping[str, Part]:
        """What fills a block of the gradient of each table, by the name that its rows have as a parameter."""
        return {"entity": self._filling(self.entity), "relation": self._filling(self.relation)}

    def _filling(self, table: Embedding) -> Part:
        parts = [part for term in self.terms for of, part in term.parts if of is table]

        def fill(begin: int, end: int, block: Array) -> None:
            for part in parts:
                part(begin, end, block)

        return fill

    def loss(self) -> Tensor:
        """The value, differentiable in the trained rows."""
        return _Summed.apply(self.entity.trained, self.relation.trained, self)  # type: ignore[no-untyped-call,no-any-return]


def _whole(part: Part, like: Tensor) -> Tensor:
    found = torch.empty_like(like)
    gradient = found.numpy()

    def fill(begin: int, end: int) -> None:
        part(begin, end, gradient[begin:end])

    share(fill, len(gradient), most=block_rows(gradient))
    return found


class _Summed(torch.autograd.Function):
    """Value and gradient are made together; backward only hands the gradient on."""

    @staticmethod
    def forward(context: Any, entity_rows: Tensor, relation_rows: Tensor, terms: RowSum) -> Tensor:
        parts = terms.parts()
        context.gradients = _whole(parts["entity"], entity_rows), _whole(parts["relation"], relation_rows)
        return entity_rows.new_tensor(terms.value)

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        if context.gradients is None:
            raise RuntimeError("Backward is called a second time. Compute the loss again before it.")
        entity_gradient, relation_gradient = context.gradients
        context.gradients = None  # the only owner hands them over; a second one would cost a copy
        factor = float(upstream[0])
        if factor != 1.0:
            entity_gradient, relation_gradient = entity_gradient * factor, relation_gradient * factor
        return entity_gradient, relation_gradient, None
