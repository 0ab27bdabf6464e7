"""Terms of a loss that hold rows near other rows, each one sweep for value and gradient (`rows.Term`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from meor.compiled import fast_kernel
from meor.training.loss import Embedding
from meor.training.prefetch import prefetch
from meor.training.rows import Array, Term
from meor.typing import Floats


@fast_kernel
def _squares(begin, end, value, before, weight, strength, gradient, loss):  # type: ignore[no-untyped-def]
    """weight [rows, 1] counts for a whole row, weight [rows, W] per coordinate."""
    per_row = weight.shape[1] == 1
    for row in range(begin, end):
        own, was, of, total = value[row], before[row], weight[row], 0.0
        for i in range(own.shape[0]):
            moved = own[i] - was[i]
            pull = (of[0] if per_row else of[i]) * moved
            total += pull * moved
            gradient[row - begin, i] += 2.0 * strength * pull
        loss[row] = strength * total


@fast_kernel
def _huber(begin, end, value, teacher, weight, gradient, loss):  # type: ignore[no-untyped-def]
    for row in range(begin, end):
        if row + 1 < teacher.shape[0]:
            prefetch(teacher[row + 1])
        own, was, of, total = value[row], teacher[row], weight[row], 0.0
        for i in range(own.shape[0]):
            moved = own[i] - was[i]
            slope = min(max(moved, -1.0), 1.0)
            total += slope * (moved - 0.5 * slope)  # moved^2 / 2 near 0, |moved| - 1/2 beyond 1
            gradient[row - begin, i] += of * slope
        loss[row] = of * total


def anchored(table: Embedding, before: Tensor, weight: Tensor, strength: float) -> Term:
    """strength * sum of weight (x - before)^2 over trained rows that `before` has; weight [rows, 1 or W]."""
    return _held(_squares, table, before, weight.numpy(), strength)


def distilled(table: Embedding, teacher: Tensor, weight: Floats) -> Term:
    """sum over trained rows of weight * Huber(x - teacher), with one weight per row."""
    return _held(_huber, table, teacher, weight)


def _held(kernel: Any, table: Embedding, near: Tensor, weight: Array, *told: Any) -> Term:
    first, rows = table.first, max(len(near) - table.first, 0)
    tables = table.data.numpy()[first:], near.numpy()[first:], weight[first:]
    loss = np.empty(rows)

    def part(begin: int, end: int, block: Array) -> None:
        if begin < rows:
            kernel(begin, min(end, rows), *tables, *told, block, loss)

    return Term(lambda: float(loss.sum()), ((table, part),))


def copied(table: Embedding, into: Tensor, since: int) -> Term:
    """No loss: rows from `since` on are copied before a step moves them, while they are in the cache."""
    rows, copy = table.data.numpy(), into.numpy()

    def part(begin: int, end: int, _: Array) -> None:
        at = slice(max(table.first + begin, since), table.first + end)
        copy[at] = rows[at]

    return Term(lambda: 0.0, ((table, part),))
