"""O2: the work of a step grows in proportion to |N|, J and K (Eq. complexity), counted rather than timed.

Eq. complexity is about a batch without score reuse, which is the general path. Work is every number that
torch writes in the forward and backward pass; what the scores themselves cost, its factor p, is left out.
Seconds are told by `make bench ONLY=cost`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.growth import growing, random_model
from torch.utils._python_dispatch import TorchDispatchMode

from meor.methods.comparison import Comparison, Settings
from meor.methods.dense import table_scores
from meor.methods.penalty import Penalty

pytestmark = pytest.mark.long

N_OLD = 1100  # room for the largest scale sample


class Written(TorchDispatchMode):
    """Counts the numbers that operations write; views write none."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for returned, made in zip(
            func._schema.returns, out if isinstance(out, tuple) else (out,), strict=False
        ):
            is_view = returned.alias_info is not None and not returned.alias_info.is_write
            if isinstance(made, torch.Tensor) and not is_view:
                self.numbers += made.numel()
        return out


def work(*, n_old: int = N_OLD, n_new: int = 64, draws: int = 4, sample: int = 16) -> int:
    """Numbers written in one step of six facts, forward and backward, old rows in the graph."""
    stream = growing(1, n_old=n_old, n_new=n_new, density=1)
    model = random_model(stream, "complex", 1, dim=4, newcomers=20.0)
    comparison = Comparison.build(
        stream,
        1,
        stream.snapshots[0].train[:6],
        run=0,
        settings=Settings(draws=draws, scale_sample=sample, detach_reference=False),
    )
    entity = model.entity.clone().requires_grad_()
    with Written() as written:
        loss = Penalty(comparison).of_scores(
            table_scores(model.backbone, entity, model.relation), np.arange(6)
        )
        assert loss.item() > 0  # an inactive penalty has no backward pass
        loss.backward()
    return written.numbers


def slope(sizes: list[int], counted: list[int]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(counted), 1)[0])


def test_work_is_proportional_to_the_newcomers():
    """A universe of few old entities: scoring those is the only part that does not grow."""
    sizes = [256, 512, 1024, 2048]
    assert slope(sizes, [work(n_old=32, n_new=n) for n in sizes]) == pytest.approx(1.0, abs=0.15)


def test_further_draws_add_work_in_proportion_to_their_number():
    """Beyond the first, with which the whole cost of having references at all comes."""
    more = [3, 7, 15, 31, 63]
    one = work(draws=1)
    assert slope(more, [work(draws=1 + j) - one for j in more]) == pytest.approx(1.0, abs=0.15)


def test_a_further_draw_costs_in_proportion_to_the_newcomers():
    sizes = [64, 128, 256, 512]
    added = [work(n_new=n, draws=8) - work(n_new=n, draws=4) for n in sizes]
    assert slope(sizes, added) == pytest.approx(1.0, abs=0.15)


def test_a_larger_scale_sample_adds_work_in_proportion_to_its_size():
    """Beyond a sample of one."""
    more = [63, 127, 255, 511, 1023]
    one = work(sample=1)
    assert slope(more, [work(sample=1 + k) - one for k in more]) == pytest.approx(1.0, abs=0.15)
