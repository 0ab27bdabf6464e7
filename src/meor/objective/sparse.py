"""The fast path of frozen hosts: only newcomers above the answer are ever touched (decision 29).

Newcomers are screened in tiles under the byte budget; outrankers come back with exact float64 scores.
Loss and gradient are made together, as in `backbone.loss`: backward only hands the gradient on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Geometry
from meor.backbone.loss import Table
from meor.objective.comparison import Comparison, require_finite
from meor.objective.frozen import Frozen
from meor.objective.kernels import add_row_gradients, by_row, newcomer_pressures
from meor.objective.outrank import outrankers
from meor.typing import Floats, Ids


@dataclass(frozen=True, slots=True)
class Pressed:
    """Outrankers of some occurrences, by occurrence, and the pressure they make."""

    start: Ids  # [Q + 1]
    column: Ids  # newcomer n_old + column
    weight: Floats  # d pressure / d score of each outranker
    value: Floats  # [Q] U_beta or V


def sparse_pressures(comparison: Comparison, frozen: Frozen, row_NW: Floats, index: Ids) -> Pressed:
    """U_beta (Eq. aggregate) or V of the newcomers, from outrankers alone."""
    cohort, settings = comparison.cohort, comparison.settings
    start, column, score = _outrankers(comparison, frozen, row_NW, index)
    if len(score):
        require_finite(cohort, score, np.repeat(index, np.diff(start)))
    value, weight = np.empty(len(index)), np.empty(len(score))
    newcomer_pressures(
        start,
        score,
        frozen.answer_score[index],
        frozen.scale.tau[index],
        cohort.n_newcomers[index],
        settings.beta,
        comparison.variant.aggregate == "smooth",
        value,
        weight,
    )
    return Pressed(start, column, weight, value)


def _outrankers(
    comparison: Comparison, frozen: Frozen, row_NW: Floats, index: Ids
) -> tuple[Ids, Ids, Floats]:
    """Newcomers above the answer, tile by tile of rows, joined by occurrence."""
    cohort = comparison.cohort
    _require_moderate(comparison, frozen, row_NW, index)
    size = max(64, comparison.settings.memory // (24 * row_NW.shape[1]))
    tiles = [
        outrankers(
            frozen.geometry,
            frozen.query[index],
            row_NW[first : first + size],
            frozen.answer_score[index],
            cohort.known_start[index],
            cohort.known_end[index],
            cohort.known,
            cohort.n_old + first,
        )
        for first in range(0, len(row_NW), size)
    ]
    if len(tiles) == 1:
        return tiles[0]
    of = np.concatenate([np.repeat(np.arange(len(index)), np.diff(start)) for start, _, _ in tiles])
    order = np.argsort(of, kind="stable")
    column = np.concatenate([column + tile * size for tile, (_, column, _) in enumerate(tiles)])[order]
    score = np.concatenate([score for _, _, score in tiles])[order]
    start = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(index)))])
    return start, column, score


def _require_moderate(comparison: Comparison, frozen: Frozen, row_NW: Floats, index: Ids) -> None:
    """A score that is no number never exceeds a threshold, so it is looked for in the rows instead."""
    largest = float(np.abs(row_NW).max(initial=0.0)) * float(np.abs(frozen.query[index]).max(initial=0.0))
    if np.isfinite(largest) and largest < 1e290:
        return
    with np.errstate(all="ignore"):
        score = frozen.query[index] @ row_NW.T
    require_finite(comparison.cohort, score, index)


def sparse_penalty(comparison: Comparison, frozen: Frozen, entity: Table, index: Ids) -> Tensor:
    """L_MEOR (Eq. meor) over eligible occurrences, differentiable in the newcomer rows."""
    size = max(1, comparison.settings.memory // (24 * max(comparison.cohort.n_new, 1)))
    rows = entity.trained
    row_NW = rows.detach().numpy()
    gradient = None
    total = 0.0
    for begin in range(0, len(index), size):
        part = index[begin : begin + size]
        pressed = sparse_pressures(comparison, frozen, row_NW, part)
        excess = np.maximum(pressed.value - frozen.reference[part], 0.0)
        if not excess.any():
            continue
        total += float(np.square(excess).sum())
        if rows.requires_grad and torch.is_grad_enabled():
            gradient = torch.zeros_like(rows) if gradient is None else gradient
            slope = 2.0 * excess / len(index)
            _add_gradient(frozen, pressed, slope, part, row_NW, gradient.numpy())
    loss = rows.detach().new_tensor(total / max(len(index), 1))
    if gradient is None:
        return loss
    return _WithGradient.apply(rows, loss, gradient)  # type: ignore[no-untyped-call,no-any-return]


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


class _WithGradient(torch.autograd.Function):
    """A known value with a known gradient."""

    @staticmethod
    def forward(context: Any, rows: Tensor, loss: Tensor, gradient: Tensor) -> Tensor:
        context.gradient = gradient
        return loss.clone()

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        factor = float(upstream[0])
        return context.gradient if factor == 1.0 else context.gradient * factor, None, None
