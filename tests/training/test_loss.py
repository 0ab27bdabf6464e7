"""The fused kernels and autograd are two ways to one number."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest
import torch

from meor.backbone import BACKBONES, Backbone
from meor.training.loss import PLAIN, Aim, Batch, Embedding, link_loss
from meor.typing import Side

FUSED = [backbone for backbone in BACKBONES.values() if backbone.fused_form is not None]


def tables(
    backbone: Backbone, seed: int, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    width = backbone.width(12)
    entity = torch.from_numpy(rng.normal(0, 0.7, (30, width))).to(dtype)
    return entity, torch.from_numpy(rng.normal(0, 0.7, (5, width))).to(dtype)


def batch(seed: int, n_facts: int = 40, n_negatives: int = 6) -> Batch:
    rng = np.random.default_rng(seed)
    fact = np.stack(
        [rng.integers(0, 30, n_facts), rng.integers(0, 5, n_facts), rng.integers(0, 30, n_facts)], 1
    )
    fact[0, 2] = fact[0, 0]  # a loop
    negative = rng.integers(0, 30, (n_facts, n_negatives))
    return Batch(fact, negative, rng.integers(0, 2, (n_facts, n_negatives)).astype(np.int8))


def loss_and_gradients(
    backbone: Backbone, first: int, seed: int, fused: bool, aim: Aim = PLAIN
) -> list[np.ndarray]:
    entity, relation = tables(backbone, seed)
    entity_table, relation_table = Embedding.of(entity, first), Embedding.of(relation, first // 10)
    given = replace(batch(seed), aim=aim)
    loss = link_loss(backbone, entity_table, relation_table, given, fused=fused)
    loss.backward()
    gradients = entity_table.trained.grad, relation_table.trained.grad
    return [loss.detach().numpy(), *(value.numpy() for value in gradients if value is not None)]


@pytest.mark.parametrize("backbone", FUSED, ids=lambda backbone: backbone.name)
@pytest.mark.parametrize("first", [0, 17, 30])
@pytest.mark.parametrize("aim", [PLAIN, Aim(lift=1.5), Aim(shrink=0.3), Aim(1.5, 0.3)], ids=str)
def test_fused_loss_and_gradient_equal_autograd(backbone: Backbone, first: int, aim: Aim) -> None:
    for seed in range(10):
        fused = loss_and_gradients(backbone, first, seed, True, aim)
        reference = loss_and_gradients(backbone, first, seed, False, aim)
        for mine, theirs in zip(fused, reference, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backbone", FUSED, ids=lambda backbone: backbone.name)
def test_the_gradient_is_the_derivative_of_the_loss(backbone: Backbone) -> None:
    entity, relation = tables(backbone, 0)
    table, relations = Embedding.of(entity.clone()), Embedding.of(relation)
    link_loss(backbone, table, relations, batch(0)).backward()
    assert table.trained.grad is not None
    step = 1e-6
    for row, column in ((0, 0), (3, 5), (29, 11)):
        shifted = []
        for sign in (1, -1):
            moved = entity.clone()
            moved[row, column] += sign * step
            shifted.append(float(link_loss(backbone, Embedding.of(moved), relations, batch(0)).detach()))
        slope = (shifted[0] - shifted[1]) / (2 * step)
        assert slope == pytest.approx(float(table.trained.grad[row, column]), abs=1e-8)


@pytest.mark.parametrize("backbone", FUSED, ids=lambda backbone: backbone.name)
def test_lifted_facts_have_the_loss_of_facts_that_score_less(backbone: Backbone) -> None:
    entity, relation = (Embedding.of(table) for table in tables(backbone, 0))
    fact = batch(0).fact
    query = backbone.query(entity.data[fact[:, 0]], relation.data[fact[:, 1]], Side.TAIL)
    score = backbone.compare(query, entity.data[fact[:, 2]])
    plain, lifted = (
        link_loss(backbone, entity, relation, replace(batch(0), aim=aim)).item() for aim in (PLAIN, Aim(2.0))
    )
    softplus = torch.nn.functional.softplus
    assert lifted - plain == pytest.approx((softplus(2.0 - score) - softplus(-score)).mean().item(), rel=1e-9)
    part = replace(batch(0), aim=Aim(lift=2.0))[3:9]
    assert (len(part), part.aim.lift) == (6, 2.0)


@pytest.mark.parametrize("backbone", FUSED, ids=lambda backbone: backbone.name)
def test_the_thread_count_does_not_change_a_bit(backbone: Backbone) -> None:
    before = numba.get_num_threads()
    try:
        found = []
        for threads in {1, before}:
            numba.set_num_threads(threads)
            found.append([value.tobytes() for value in loss_and_gradients(backbone, 5, 1, True)])
        assert all(one == found[0] for one in found)
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("backbone", FUSED, ids=lambda backbone: backbone.name)
def test_float32_stays_float32_and_close(backbone: Backbone) -> None:
    entity, relation = tables(backbone, 2, torch.float32)
    table, relations = Embedding.of(entity), Embedding.of(relation)
    loss = link_loss(backbone, table, relations, batch(2))
    loss.backward()
    assert loss.dtype == torch.float32
    assert table.trained.grad is not None
    assert table.trained.grad.dtype == torch.float32
    reference = loss_and_gradients(backbone, 0, 2, False)
    np.testing.assert_allclose(table.trained.grad.numpy(), reference[1], atol=1e-5)


@pytest.mark.parametrize("backbone", FUSED, ids=lambda backbone: backbone.name)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("first", "first_relation"), [(0, 0), (17, 5), (28, 4), (30, 4), (30, 5)])
def test_pairs_of_frozen_rows_are_left_out_without_a_bit_of_the_gradient(
    backbone: Backbone, dtype: torch.dtype, first: int, first_relation: int
) -> None:
    def trained(*, constants: bool) -> tuple[float, list[bytes]]:
        made = [Embedding.of(*each) for each in zip(tables(backbone, 3, dtype), starts, strict=True)]
        loss = link_loss(backbone, *made, given, constants=constants)
        loss.backward()
        return float(loss.detach()), [table.trained.grad.numpy().tobytes() for table in made]

    given, starts = batch(3, 200, 4), (first, first_relation)
    (whole, gradients), (part, same) = trained(constants=True), trained(constants=False)
    assert same == gradients
    assert (part == 0) == (starts == (30, 5))
    assert part < whole or starts == (0, 0)


def test_extreme_scores_give_finite_losses() -> None:
    backbone = BACKBONES["distmult"]
    entity, relation = (
        torch.full((3, 4), 1e3, dtype=torch.float64),
        torch.full((1, 4), 1e3, dtype=torch.float64),
    )
    entity[1] = -1e3
    table = Embedding.of(entity)
    facts = np.array([[0, 0, 1]])
    loss = link_loss(
        backbone, table, Embedding.of(relation), Batch(facts, np.array([[2]]), np.ones((1, 1), np.int8))
    )
    assert torch.isfinite(loss)
    assert float(loss.detach()) == pytest.approx(8e9)


def test_an_upstream_factor_scales_the_gradient() -> None:
    backbone = BACKBONES["complex"]
    entity, relation = tables(backbone, 4)
    plain, scaled, relations = (
        Embedding.of(entity.clone()),
        Embedding.of(entity.clone()),
        Embedding.of(relation),
    )
    link_loss(backbone, plain, relations, batch(4)).backward()
    (3 * link_loss(backbone, scaled, relations, batch(4))).backward()
    assert plain.trained.grad is not None
    assert scaled.trained.grad is not None
    torch.testing.assert_close(scaled.trained.grad, 3 * plain.trained.grad)


@pytest.mark.parametrize("backbone", FUSED, ids=lambda backbone: backbone.name)
def test_what_was_trained_before_does_not_change_a_bit(backbone: Backbone) -> None:
    before = [value.tobytes() for value in loss_and_gradients(backbone, 5, 1, True)]
    entity, relation = tables(backbone, 0)
    link_loss(
        backbone, Embedding.of(entity), Embedding.of(relation), batch(3, n_facts=97, n_negatives=9)
    ).backward()
    assert [value.tobytes() for value in loss_and_gradients(backbone, 5, 1, True)] == before
