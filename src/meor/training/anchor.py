"""Terms that hold rows near other rows, fused: loss and gradient in one sweep, on the CPU as elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from meor.compiled import fast_kernel, share
from meor.training.loss import Embedding


@fast_kernel
def _squares(begin, end, first, value, before, weight, gradient, loss):  # type: ignore[no-untyped-def]
    """Rows before..: weight [rows, 1] counts for a whole row, weight [rows, W] per coordinate."""
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


class _Anchored(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: Tensor, first: int, before: Tensor, weight: Tensor) -> Tensor:
        gradient, loss = torch.empty_like(rows), np.empty(len(rows))
        tables = rows.detach().numpy(), before.numpy(), weight.numpy(), gradient.numpy()
        share(_squares, len(rows), first, *tables, loss)
        context.gradient = gradient
        return rows.new_tensor(loss.sum())

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        return context.gradient * upstream[0], None, None, None


def anchored(table: Embedding, before: Tensor, weight: Tensor) -> Tensor:
    """sum of weight * (x - before)^2 over trained rows that `before` has; weight [rows, 1] or [rows, W]."""
    if table.data.device.type != "cpu":
        moved = table.trained[: len(before) - table.first] - before[table.first :]
        return (weight[table.first : len(before)] * moved.square()).sum()
    return _Anchored.apply(table.trained, table.first, before, weight)  # type: ignore[no-untyped-call,no-any-return]
