"""Terms that hold rows near other rows, fused: loss and gradient in one sweep on the CPU, torch elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from meor.compiled import fast_kernel, share
from meor.training.loss import Embedding


@fast_kernel
def _squares(begin, end, first, value, before, weight, gradient, loss):  # type: ignore[no-untyped-def]
    """weight [rows, 1] counts for a whole row, weight [rows, W] per coordinate."""
    per_row = weight.shape[1] == 1
    for row in range(begin, end):
        total = 0.0
        if first + row < before.shape[0]:
            own, was, of = value[row], before[first + row], weight[first + row]
            for i in range(own.shape[0]):
                moved = own[i] - was[i]
                pull = (of[0] if per_row else of[i]) * moved
                total += pull * moved
                gradient[row, i] = 2.0 * pull
        else:
            gradient[row, :] = 0
        loss[row] = total


@fast_kernel
def _huber(begin, end, first, value, before, inner, outer, gradient, loss):  # type: ignore[no-untyped-def]
    for row in range(begin, end):
        own, was, total = value[row], before[first + row], 0.0
        within, of = inner[first + row], outer[first + row]
        for i in range(own.shape[0]):
            moved = within * (own[i] - was[i])
            slope = min(max(moved, -1.0), 1.0)
            total += slope * (moved - 0.5 * slope)  # moved^2 / 2 near 0, |moved| - 1/2 beyond 1
            gradient[row, i] = of * within * slope
        loss[row] = of * total


class _Held(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: Tensor, kernel: Any, first: int, *others: Tensor) -> Tensor:
        gradient, loss = torch.empty_like(rows), np.empty(len(rows))
        tables = rows.detach().numpy(), *(other.numpy() for other in others), gradient.numpy()
        share(kernel, len(rows), first, *tables, loss)
        context.gradient, context.others = gradient, len(others)
        return rows.new_tensor(loss.sum())

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        return (context.gradient * upstream[0], None, None, *(None,) * context.others)


def anchored(table: Embedding, before: Tensor, weight: Tensor) -> Tensor:
    """sum of weight * (x - before)^2 over trained rows that `before` has; weight [rows, 1] or [rows, W]."""
    if table.data.device.type == "cpu":
        return _Held.apply(table.trained, _squares, table.first, before, weight)  # type: ignore[no-untyped-call,no-any-return]
    moved = table.trained[: max(len(before) - table.first, 0)] - before[table.first :]
    return (weight[table.first : len(before)] * moved.square()).sum()


def distilled(table: Embedding, teacher: Tensor, inner: Tensor, outer: Tensor) -> Tensor:
    """sum over trained rows of outer * Huber(inner * (x - teacher)), with one inner and outer per row."""
    if table.data.device.type == "cpu":
        return _Held.apply(table.trained, _huber, table.first, teacher, inner, outer)  # type: ignore[no-untyped-call,no-any-return]
    rest = slice(table.first, None)
    moved = inner[rest, None] * (table.trained - teacher[rest])
    huber = torch.nn.functional.huber_loss(moved, torch.zeros_like(moved), reduction="none")
    return (outer[rest, None] * huber).sum()
