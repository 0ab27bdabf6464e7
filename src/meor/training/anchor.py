"""Terms of a loss that hold rows near other rows, each one sweep that adds its gradient (`margin.summed`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from meor.compiled import fast_kernel, share
from meor.training.loss import Embedding
from meor.training.margin import Array, Term


@fast_kernel
def _squares(begin, end, first, value, before, weight, strength, gradient, loss):  # type: ignore[no-untyped-def]
    """weight [rows, 1] counts for a whole row, weight [rows, W] per coordinate."""
    per_row = weight.shape[1] == 1
    for row in range(begin, end):
        own, was, of, total = value[first + row], before[first + row], weight[first + row], 0.0
        for i in range(own.shape[0]):
            moved = own[i] - was[i]
            pull = (of[0] if per_row else of[i]) * moved
            total += pull * moved
            gradient[row, i] += 2.0 * strength * pull
        loss[row] = strength * total


@fast_kernel
def _huber(begin, end, first, value, teacher, weight, gradient, loss):  # type: ignore[no-untyped-def]
    for row in range(begin, end):
        own, was, of, total = value[first + row], teacher[first + row], weight[first + row], 0.0
        for i in range(own.shape[0]):
            moved = own[i] - was[i]
            slope = min(max(moved, -1.0), 1.0)
            total += slope * (moved - 0.5 * slope)  # moved^2 / 2 near 0, |moved| - 1/2 beyond 1
            gradient[row, i] += of * slope
        loss[row] = of * total


def anchored(table: Embedding, before: Tensor, weight: Tensor, strength: float) -> Term:
    """strength * sum of weight (x - before)^2 over trained rows that `before` has; weight [rows, 1 or W]."""
    told = before.numpy(), weight.numpy(), strength
    return _held(_squares, table, max(len(before) - table.first, 0), *told)


def distilled(table: Embedding, teacher: Tensor, weight: Tensor) -> Term:
    """sum over trained rows of weight * Huber(x - teacher), with one weight per row."""
    return _held(_huber, table, len(table.trained), teacher.numpy(), weight.numpy())


def _held(kernel: Any, table: Embedding, rows: int, *told: Any) -> Term:
    def term(of: Array) -> float:
        loss = np.empty(rows)
        share(kernel, rows, table.first, table.data.numpy(), *told, of, loss)
        return float(loss.sum())

    return lambda gradient: term(gradient[id(table)])
