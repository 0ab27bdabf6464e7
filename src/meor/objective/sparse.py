"""The fast path of frozen hosts: only newcomers above the answer are ever touched (decision 29).

Newcomers are screened in tiles under the byte budget; outrankers come back with exact float64 scores.
Loss and gradient are made together, as in `backbone.loss`: backward only hands the gradient on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Geometry
from meor.backbone.loss import Table
from meor.backbone.outrankers import Outrankers, outrankers
from meor.backbone.screen import Candidates
from meor.objective.comparison import Comparison, require_finite
from meor.objective.frozen import Frozen
from meor.objective.kernels import add_row_gradients, by_row, newcomer_pressures
from meor.typing import Floats, Ids


@dataclass(frozen=True, slots=True)
class Pressed:
    """Outrankers of some occurrences, by occurrence, and the pressure they make."""

    start: Ids  # [Q + 1]
    column: Ids  # newcomer n_old + column
    weight: Floats  # d pressure / d score of each outranker
    value: Floats  # [Q] U_beta or V


def sparse_pressures(comparison: Comparison, frozen: Frozen, tiles: Tiles, index: Ids) -> Pressed:
    """U_beta (Eq. aggregate) or V of the newcomers, from outrankers alone."""
    cohort, settings = comparison.cohort, comparison.settings
    above = _outrankers(comparison, frozen, tiles, index)
    require_finite(cohort, above.score, np.repeat(index, np.diff(above.start)))
    value, weight = np.empty(len(index)), np.empty(len(above.score))
    newcomer_pressures(
        above.start,
        above.score,
        frozen.answer_score[index],
        frozen.scale.tau[index],
        cohort.n_newcomers[index],
        settings.beta,
        comparison.variant.aggregate == "smooth",
        value,
        weight,
    )
    return Pressed(above.start, above.column, weight, value)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Newcomer rows cut so that what is prepared of one tile stays under the byte budget."""

    row: Floats  # [N, W], of any float type
    size: int
    whole: Candidates | None  # prepared once where one tile holds everything

    @classmethod
    def of(cls, row_NW: Floats, geometry: Geometry, memory: int) -> Tiles:
        size = max(64, memory // (24 * row_NW.shape[1]))
        whole = Candidates.prepare(geometry, row_NW) if len(row_NW) <= size else None
        return cls(row_NW, size, whole)

    def prepared(self, geometry: Geometry) -> Iterator[tuple[int, Candidates]]:
        if self.whole is not None:
            yield 0, self.whole
            return
        for first in range(0, len(self.row), self.size):
            yield first, Candidates.prepare(geometry, self.row[first : first + self.size])


def _outrankers(comparison: Comparison, frozen: Frozen, tiles: Tiles, index: Ids) -> Outrankers:
    """Newcomers above the answer, tile by tile of rows, joined by occurrence."""
    cohort, query = comparison.cohort, frozen.query[index]
    found = []
    for first, candidates in tiles.prepared(frozen.geometry):
        if candidates.screened is None:
            _require_finite_scores(comparison, query, candidates, index)
        above = outrankers(
            candidates,
            query,
            frozen.answer_score[index],
            cohort.known_start[index],
            cohort.known_end[index],
            cohort.known,
            offset=cohort.n_old + first,
        )
        found.append(Outrankers(above.start, above.column + first, above.score) if first else above)
    return found[0] if len(found) == 1 else _join(found, len(index))


def _join(found: list[Outrankers], n_queries: int) -> Outrankers:
    of = np.concatenate([np.repeat(np.arange(n_queries), np.diff(one.start)) for one in found])
    order = np.argsort(of, kind="stable")
    start = np.append(0, np.cumsum(np.bincount(of, minlength=n_queries)))
    column = np.concatenate([one.column for one in found])[order]
    return Outrankers(start, column, np.concatenate([one.score for one in found])[order])


def _require_finite_scores(comparison: Comparison, query: Floats, candidates: Candidates, index: Ids) -> None:
    """Rows that could not be screened may make scores of -inf, which outrank nobody: look for them."""
    block = max(1, comparison.settings.memory // (8 * max(len(candidates.row), 1)))
    for begin in range(0, len(query), block):
        part = slice(begin, begin + block)
        with np.errstate(all="ignore"):
            require_finite(comparison.cohort, query[part] @ candidates.row.T, index[part])


def sparse_penalty(comparison: Comparison, frozen: Frozen, entity: Table, index: Ids) -> Tensor:
    """L_MEOR (Eq. meor) over eligible occurrences, differentiable in the newcomer rows."""
    size = max(1, comparison.settings.memory // (24 * max(comparison.cohort.n_new, 1)))
    rows = entity.trained
    row_NW = rows.detach().numpy()
    tiles = Tiles.of(row_NW, frozen.geometry, comparison.settings.memory)
    parts: list[tuple[Ids, Pressed, Floats]] = []
    total = 0.0
    for begin in range(0, len(index), size):
        part = index[begin : begin + size]
        pressed = sparse_pressures(comparison, frozen, tiles, part)
        excess = np.maximum(pressed.value - frozen.reference[part], 0.0)
        if excess.any():
            total += float(np.square(excess).sum())
            parts.append((part, pressed, 2.0 * excess / len(index)))
    loss = rows.detach().new_tensor(total / max(len(index), 1))
    if not (parts and rows.requires_grad and torch.is_grad_enabled()):
        return loss
    return _FromOutrankers.apply(rows, loss, frozen, parts)  # type: ignore[no-untyped-call,no-any-return]


def _add_gradient(
    frozen: Frozen, pressed: Pressed, slope: Floats, part: Ids, row_NW: Floats, gradient_NW: Floats
) -> None:
    n_entries = len(pressed.column)
    row_start = np.empty(len(row_NW) + 1, np.int64)
    query, entry = np.empty(n_entries, np.int64), np.empty(n_entries, np.int64)
    by_row(pressed.start, pressed.column, slope, row_start, query, entry)
    add_row_gradients(
        frozen.geometry is Geometry.DOT,
        row_start,
        query,
        entry,
        pressed.weight,
        slope,
        frozen.query[part],
        row_NW,
        gradient_NW,
    )


class _FromOutrankers(torch.autograd.Function):
    """A known value; the gradient is summed when asked for, with the upstream factor already in it."""

    @staticmethod
    def forward(
        context: Any, rows: Tensor, loss: Tensor, frozen: Frozen, parts: list[tuple[Ids, Pressed, Floats]]
    ) -> Tensor:
        context.made_from = rows.detach(), frozen, parts
        return loss.clone()

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        rows, frozen, parts = context.made_from
        factor, gradient = float(upstream[0]), torch.zeros_like(rows)
        for part, pressed, slope in parts:
            _add_gradient(frozen, pressed, factor * slope, part, rows.numpy(), gradient.numpy())
        return gradient, None, None, None
