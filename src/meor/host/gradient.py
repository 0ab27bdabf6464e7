"""The gradient of the host objective over a whole pass: one half of the balance rule (decision 34)."""

from __future__ import annotations

import torch
from torch import Tensor

from meor.host.training import Training


def host_gradient(training: Training, pass_number: int) -> Tensor:
    """Mean over the batches of a pass of d L_host / d (trainable entity rows). Moves no weight."""
    rows = training.entity.trained
    total = torch.zeros_like(rows, requires_grad=False)
    steps = training.host.steps(pass_number)
    for index in range(len(steps)):
        loss = training.host.loss(steps[index].batch)
        (gradient,) = torch.autograd.grad(loss, [rows])
        total += gradient
    return total / max(len(steps), 1)
