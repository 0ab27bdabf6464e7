from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from meor.training.adam import Adam
from meor.training.loss import Embedding


def rows(seed: int) -> torch.Tensor:
    return torch.randn(6, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_makes_200_steps_of_torch_and_frozen_rows_stay() -> None:
    table = Embedding.of(rows(0), first=2)
    theirs = nn.Parameter(rows(0)[2:])
    adam, other = Adam({"rows": table.trained}, 0.03), torch.optim.Adam([theirs], lr=0.03)
    for step in range(200):
        # Gradients of many sizes, as training has them, and none at all in between.
        gradient = rows(step)[2:] * 10.0 ** (step % 7 - 3) if step % 11 else torch.zeros(4, 5).double()
        table.trained.grad, theirs.grad = gradient.clone(), gradient.clone()
        adam.step()
        other.step()
    assert adam.steps == 200
    torch.testing.assert_close(table.data[2:], theirs.data, rtol=1e-12, atol=1e-12)
    assert torch.equal(table.data[:2], rows(0)[:2])


def test_where_there_is_no_kernel_the_step_is_the_same() -> None:
    kernel, plain = (Adam({"rows": nn.Parameter(rows(0))}, 0.03, epsilon=1e-3) for _ in range(2))
    mean, square = torch.zeros(6, 5, dtype=torch.float64), torch.zeros(6, 5, dtype=torch.float64)
    value = rows(0)
    for step in range(1, 8):
        kernel.parameters["rows"].grad = rows(step)
        kernel.step()
        size, correction = 0.03 / (1 - 0.9**step), math.sqrt(1 - 0.999**step)
        plain._torch_step(value, rows(step), mean, square, size, correction)
    torch.testing.assert_close(value, kernel.parameters["rows"].data, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(mean, kernel.state()["mean.rows"], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(square, kernel.state()["square.rows"], rtol=1e-12, atol=1e-14)


def test_what_has_no_gradient_or_no_rows_stays() -> None:
    still, none = nn.Parameter(rows(0)), nn.Parameter(torch.empty(0, 5, dtype=torch.float64))
    none.grad = torch.empty(0, 5, dtype=torch.float64)
    adam = Adam({"still": still, "none": none}, 0.1)
    adam.step()
    assert torch.equal(still, rows(0))
    moved = nn.Parameter(rows(0))
    adam = Adam({"moved": moved}, 0.1)
    moved.grad = rows(1)
    adam.zero_grad()
    assert moved.grad is None


@pytest.mark.parametrize("after", [1, 5])
def test_it_goes_on_from_its_state(after: int) -> None:
    whole, parts = nn.Parameter(rows(0)), nn.Parameter(rows(0))
    one, other = Adam({"rows": whole}, 0.03), Adam({"rows": parts}, 0.03)
    for step in range(8):
        if step == after:
            state = {name: value.clone() for name, value in other.state().items()}
            other = Adam({"rows": parts}, 0.03)
            other.load(state)
        whole.grad, parts.grad = rows(step), rows(step)
        one.step()
        other.step()
    assert torch.equal(whole, parts)
    assert one.state()["steps"].dtype == torch.float64
    assert other.steps == 8
