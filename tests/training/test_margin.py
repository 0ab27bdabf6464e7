"""The fused margin loss is the one that torch differentiates, and it is the score of its backbone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from meor.backbone import BACKBONES, Model
from meor.compiled import set_threads
from meor.training.loss import Batch, Embedding
from meor.training.margin import items_of, margin_loss
from meor.typing import Side

ENTITIES, RELATIONS, DIM = 30, 5, 13


def tables(seed: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    entity, relation = rng.normal(0, 0.3, (ENTITIES, DIM)), rng.normal(0, 0.3, (RELATIONS, 2 * DIM))
    return torch.from_numpy(entity).to(dtype), torch.from_numpy(relation).to(dtype)


def items(seed: int, facts: int = 40, negatives: int = 6) -> Batch:
    rng = np.random.default_rng(seed)
    fact = np.stack([rng.integers(0, n, facts) for n in (ENTITIES, RELATIONS, ENTITIES)], 1)
    fact[0, 2] = fact[0, 0]  # a loop
    each = items_of(fact)
    replaced = rng.integers(0, 2, (len(each), negatives)).astype(np.int8)
    return Batch(each, rng.integers(0, ENTITIES, (len(each), negatives)), replaced)


def found(first: tuple[int, int], seed: int, fused: bool, margin: float) -> list[np.ndarray]:
    entity, relation = (Embedding.of(table, at) for table, at in zip(tables(seed), first, strict=True))
    loss = margin_loss(entity, relation, items(seed), divisor=7.0, margin=margin, fused=fused)
    loss.backward()
    gradients = [table.trained.grad for table in (entity, relation) if table.trained.numel()]
    return [loss.detach().numpy(), *(value.numpy() for value in gradients if value is not None)]


@pytest.mark.parametrize("first", [(0, 0), (17, 2), (30, 5)])
@pytest.mark.parametrize("margin", [8.0, 0.1])
def test_fused_loss_and_gradient_equal_autograd(first: tuple[int, int], margin: float) -> None:
    for seed in range(5):
        mine, theirs = (found(first, seed, fused, margin) for fused in (True, False))
        assert len(mine) == len(theirs)
        for one, two in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def test_a_small_margin_leaves_some_items_out() -> None:
    """So that the test above sees both sides of the hinge."""
    batch = items(0)
    kept = [
        float(
            margin_loss(*map(Embedding.of, tables(0)), batch[at : at + 1], divisor=1.0, margin=0.1).detach()
        )
        for at in range(len(batch))
    ]
    assert 0 < sum(value > 0 for value in kept) < len(kept)


def test_the_distance_is_that_of_the_backbone_on_both_sides() -> None:
    entity, relation = tables(3)
    model = Model(BACKBONES["transe-inverse"], entity, relation)
    fact = np.array([[4, 2, 9]])
    for item, side in zip(range(2), (Side.TAIL, Side.HEAD), strict=True):
        anchor, answer = fact[:, side.anchor_column], fact[:, side.answer_column]
        score = model.score(anchor, fact[:, 1], side)[0]
        put_in = 11
        batch = Batch(items_of(fact)[item : item + 1], np.array([[put_in]]), np.ones((1, 1), np.int8))
        loss = margin_loss(Embedding.of(entity), Embedding.of(relation), batch, divisor=1.0, margin=50.0)
        assert float(loss.detach()) == pytest.approx(float(50 - score[int(answer[0])] + score[put_in]))


def test_threads_and_what_came_before_change_no_bit() -> None:
    try:
        set_threads(2)
        several = [value.tobytes() for value in found((5, 1), 1, True, 8.0)]
        margin_loss(*map(Embedding.of, tables(2)), items(3, 97, 9), divisor=1.0).backward()
    finally:
        set_threads(1)
    assert [value.tobytes() for value in found((5, 1), 1, True, 8.0)] == several


def test_float32_stays_float32_and_close() -> None:
    entity, relation = (Embedding.of(table) for table in tables(2, torch.float32))
    loss = margin_loss(entity, relation, items(2), divisor=7.0)
    loss.backward()
    assert loss.dtype == torch.float32
    assert entity.trained.grad is not None
    assert entity.trained.grad.dtype == torch.float32
    np.testing.assert_allclose(entity.trained.grad.numpy(), found((0, 0), 2, False, 8.0)[1], atol=1e-5)


def test_an_upstream_factor_scales_the_gradient_and_backward_is_called_once() -> None:
    entity, relation = (Embedding.of(table) for table in tables(4))
    loss = 3 * margin_loss(entity, relation, items(4), divisor=7.0)
    loss.backward(retain_graph=True)
    assert entity.trained.grad is not None
    np.testing.assert_allclose(entity.trained.grad.numpy(), 3 * found((0, 0), 4, True, 8.0)[1], rtol=1e-12)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
