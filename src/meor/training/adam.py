"""Adam whose result does not depend on the thread count, with a state that fits in a tensor file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from meor.compiled import elementwise_kernel, fast_part, share
from meor.training.division import divided
from meor.training.rows import Array, Part, block_rows
from meor.typing import Floats


@fast_part
def _norm(row):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(row.shape[0]):
        total += row[i] * row[i]
    return math.sqrt(total)


@elementwise_kernel
def _adam_rows(  # type: ignore[no-untyped-def]
    begin,
    end,
    value,
    gradient,
    mean,
    square,
    beta1,
    beta2,
    step_size,
    root_correction,
    epsilon,
    longest,
    fixed,
):
    """One Adam step in place. Then rows above their longest norm are scaled to it (`fixed`: all rows are).

    `gradient` holds these rows alone. Row by row, so any division of the work gives the same bits.
    """
    inverse = 1.0 / root_correction
    for row in range(begin, end):
        for i in range(value.shape[1]):
            g = gradient[row - begin, i]
            m = beta1 * mean[row, i] + (1.0 - beta1) * g
            v = beta2 * square[row, i] + (1.0 - beta2) * (g * g)
            mean[row, i] = m
            square[row, i] = v
            value[row, i] -= step_size * m / (divided(math.sqrt(v), root_correction, inverse) + epsilon)
        if longest.shape[0]:
            norm = _norm(value[row])
            if norm > longest[row] or (fixed and norm > 0.0 and longest[row] < math.inf):
                for i in range(value.shape[1]):
                    value[row, i] *= longest[row] / norm


def _given(gradient: Tensor) -> Callable[[int, int], Array]:
    rows = gradient.numpy()
    return lambda begin, end: rows[begin:end]


def _made(part: Part, like: Array) -> Callable[[int, int], Array]:
    """Blocks of a gradient that never leave the cache."""

    def block(begin: int, end: int) -> Array:
        rows = np.empty_like(like[begin:end])
        part(begin, end, rows)
        return rows

    return block


@dataclass(frozen=True, slots=True)
class Longest:
    """How long each row of a table may become; infinity where it is free."""

    norm: Floats  # [rows], or none where all rows are free
    fixed: bool = False  # rows are kept at that norm instead of below it

    def shorten(self, value: Tensor) -> None:
        """What `_adam_rows` does, in torch: its reference, and used on devices other than the CPU."""
        if not len(self.norm):
            return
        norm = torch.linalg.vector_norm(value, dim=1)
        longest = torch.from_numpy(self.norm).to(value)
        bound = longest.isfinite() & (norm > 0) if self.fixed else norm > longest
        value[bound] *= (longest / norm)[bound, None]


FREE = Longest(np.empty(0))


class Adam:
    """Adam without weight decay: dense, so a row without gradient still moves by its moments."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        learning_rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        longest: Mapping[str, Longest] | None = None,
    ) -> None:
        self.parameters = dict(parameters)
        self.learning_rate = learning_rate
        self.betas = betas
        self.epsilon = epsilon
        self.steps = 0
        self._longest = dict(longest or {})
        self._mean = {name: torch.zeros_like(value.data) for name, value in self.parameters.items()}
        self._square = {name: torch.zeros_like(value.data) for name, value in self.parameters.items()}

    def zero_grad(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None

    def step(self, made: Mapping[str, Part] | None = None) -> None:
        """By the gradients of the parameters; by `made`, block by block, for a parameter that it names."""
        self.steps += 1
        beta1, beta2 = self.betas
        step_size = self.learning_rate / (1 - beta1**self.steps)
        root_correction = math.sqrt(1 - beta2**self.steps)
        numbers = beta1, beta2, step_size, root_correction, self.epsilon
        for name, parameter in self.parameters.items():
            part = (made or {}).get(name)
            if not parameter.numel():
                continue
            if part is not None:
                value = parameter.data.numpy()
                self._share_step(name, _made(part, value), numbers, most=block_rows(value))
            elif parameter.grad is None:
                continue
            elif parameter.device.type == "cpu":
                self._share_step(name, _given(parameter.grad), numbers)
            else:
                moments = self._mean[name], self._square[name]
                self._torch_step(parameter.data, parameter.grad, *moments, step_size, root_correction)
                self._longest.get(name, FREE).shorten(parameter.data)

    def _share_step(
        self,
        name: str,
        gradient: Callable[[int, int], Array],
        numbers: tuple[float, ...],
        most: int | None = None,
    ) -> None:
        longest = self._longest.get(name, FREE)
        tables = (self.parameters[name].data, self._mean[name], self._square[name])
        value, mean, square = (table.numpy() for table in tables)
        told = mean, square, *numbers, longest.norm, longest.fixed

        def step(begin: int, end: int) -> None:
            _adam_rows(begin, end, value, gradient(begin, end), *told)

        share(step, len(value), most=most)

    def _torch_step(
        self,
        value: Tensor,
        gradient: Tensor,
        mean: Tensor,
        square: Tensor,
        step_size: float,
        correction: float,
    ) -> None:
        """The same step where there is no kernel of ours: on devices other than the CPU."""
        beta1, beta2 = self.betas
        mean.mul_(beta1).add_(gradient, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        value.addcdiv_(mean, (square.sqrt() / correction).add_(self.epsilon), value=-step_size)

    def state(self) -> dict[str, Tensor]:
        """Moments and the step count, for a checkpoint."""
        tensors = {f"mean.{name}": value for name, value in self._mean.items()}
        tensors |= {f"square.{name}": value for name, value in self._square.items()}
        return tensors | {"steps": torch.tensor(self.steps, dtype=torch.float64)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.steps = int(state["steps"])
        for name in self.parameters:
            self._mean[name].copy_(state[f"mean.{name}"])
            self._square[name].copy_(state[f"square.{name}"])
