"""G1: analytic gradients against finite differences, away from kinks by 1e-3."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.growth import DISTANCES, growing, pressing, random_model
from torch import Tensor

from meor.backbone import BACKBONES
from meor.methods.comparison import Comparison, Settings
from meor.methods.dense import dense_pressures, dense_scale, score_all, table_scores
from meor.methods.equations import maximum, smooth_pressure, squared_hinge
from meor.methods.frozen import freeze
from meor.methods.penalty import Penalty
from meor.methods.registry import penalties
from meor.methods.sparse import sparse_penalty
from meor.training.loss import Embedding

UNEVEN = {"transe-inverse", *DISTANCES}
"""A distance has no second derivative to speak of."""

DRAWS = 50
KINK = 1e-3


def far_from_kinks(comparison: Comparison, model, index) -> bool:
    """No tie, no gap or excess near 0, no two large gaps alike, no coordinate of a distance near 0."""
    score = table_scores(model.backbone, model.entity, model.relation)
    scale = dense_scale(comparison, score)
    cohort = comparison.cohort
    score_QE = score_all(score, cohort, index)
    gap = (score_QE - score_QE.gather(1, torch.from_numpy(cohort.answer[index, None]))) / torch.from_numpy(
        scale.tau[index, None]
    )
    newcomers = gap[:, cohort.n_old :]
    if float(newcomers.abs().min()) < KINK:
        return False
    ordered = newcomers.sort(-1).values
    if ordered.shape[1] > 1 and float((ordered[:, -1] - ordered[:, -2]).min()) < KINK:
        return False
    new, reference = dense_pressures(comparison, score, index, scale)
    if float((new - reference).abs().min()) < KINK or not bool((new > reference).any()):
        return False
    if model.backbone.name != "transe":
        return True
    frozen = freeze(comparison, model.backbone, model.entity, model.relation)
    rows = model.entity[cohort.n_old :].numpy()
    return bool(np.abs(frozen.queries.row[index][:, None] - rows[None]).min() > KINK)


@pytest.mark.parametrize("kind", sorted(penalties()))
@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_the_penalty_has_the_gradient_of_finite_differences(name, kind):
    done, seed = 0, 0
    while done < DRAWS:
        seed += 1
        stream = growing(seed, n_old=8, n_new=2)
        model = random_model(stream, name, seed, dim=2, newcomers=pressing(name))
        comparison = Comparison.build(
            stream, 1, stream.snapshots[0].train[:2], run=seed, variant=penalties()[kind]
        )
        index = np.flatnonzero(comparison.eligible)
        if not len(index) or not far_from_kinks(comparison, model, index):
            continue
        done += 1
        n_old = comparison.cohort.n_old
        frozen = freeze(comparison, model.backbone, model.entity, model.relation)
        whole = model.entity.clone()

        def fast(rows: Tensor) -> Tensor:
            return sparse_penalty(comparison, frozen, Embedding(whole, n_old, rows), index)  # noqa: B023

        rows = model.entity[n_old:].clone().requires_grad_()
        assert torch.autograd.gradcheck(fast, (rows,), eps=1e-7, atol=1e-6, rtol=1e-5)
        if done <= 5:  # the same through autograd alone, every row in the graph
            scale = dense_scale(comparison, table_scores(model.backbone, whole, model.relation))

            def general(entity: Tensor) -> Tensor:
                score = table_scores(model.backbone, entity, model.relation)  # noqa: B023
                return squared_hinge(*dense_pressures(comparison, score, index, scale))  # noqa: B023

            cat = lambda part: general(torch.cat([whole[:n_old], part]))  # noqa: B023, E731
            assert torch.autograd.gradcheck(cat, (rows,), eps=1e-7, atol=1e-6, rtol=1e-5)


def far_from_reference_kinks(comparison: Comparison, model, index) -> bool:
    """As above for a host that moves old rows: no old gap near 0, no two alike, no coordinate near 0."""
    score = table_scores(model.backbone, model.entity, model.relation)
    scale = dense_scale(comparison, score)
    score_QE = score_all(score, comparison.cohort, index)
    for row, x in enumerate(index):
        gap = (score_QE[row] - score_QE[row, comparison.cohort.answer[x]]) / scale.tau[x]
        if float(gap.sort().values.diff().min()) < KINK:  # the answer's own gap, 0, is among them
            return False
    if model.backbone.name != "transe":
        return True
    frozen = freeze(comparison, model.backbone, model.entity, model.relation)
    apart = np.abs(frozen.queries.row[index][:, None] - model.entity.numpy()[None])
    return bool(apart.min() > KINK)


@pytest.mark.parametrize("kind", sorted(penalties()))
@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_a_host_that_moves_old_rows_may_differentiate_the_references_too(name, kind):
    """The whole penalty by every row, with no reference detached and the scale held; products twice."""
    done, seed = 0, 0
    while done < 5:
        seed += 1
        stream = growing(seed, n_old=6, n_new=2)
        model = random_model(stream, name, seed, dim=2, newcomers=pressing(name))
        comparison = Comparison.build(
            stream,
            1,
            stream.snapshots[0].train[:2],
            run=seed,
            variant=penalties()[kind],
            settings=Settings(draws=2, detach_reference=False),
        )
        index = np.flatnonzero(comparison.eligible)
        if not len(index) or not far_from_kinks(comparison, model, index):
            continue
        if not far_from_reference_kinks(comparison, model, index):
            continue
        scale = dense_scale(comparison, table_scores(model.backbone, model.entity, model.relation))

        def whole(entity: Tensor) -> Tensor:
            score = table_scores(model.backbone, entity, model.relation)  # noqa: B023
            return squared_hinge(*dense_pressures(comparison, score, index, scale))  # noqa: B023

        if float(whole(model.entity)) > 50:  # differences of a large number have too few digits
            continue
        done += 1
        rows = model.entity.clone().requires_grad_()
        assert torch.autograd.gradcheck(whole, (rows,), eps=1e-6, atol=1e-6, rtol=1e-5)
        if done == 1 and name not in UNEVEN:
            assert torch.autograd.gradgradcheck(whole, (rows,), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("seed", range(50))
def test_aggregates_have_first_and_second_derivatives_of_finite_differences(seed):
    draw = torch.Generator().manual_seed(seed)
    gap = torch.randn(2, 4, generator=draw, dtype=torch.float64)
    gap = (gap + gap.sign() * KINK).requires_grad_()
    smooth = lambda value: smooth_pressure(value, 5.0)  # noqa: E731
    assert torch.autograd.gradcheck(smooth, (gap,))
    assert torch.autograd.gradgradcheck(smooth, (gap,))
    assert torch.autograd.gradcheck(maximum, (gap,))
    new, reference = (torch.rand(3, generator=draw, dtype=torch.float64) for _ in range(2))
    new = (reference + (new - 0.5) + (new - 0.5).sign() * KINK).requires_grad_()
    assert torch.autograd.gradcheck(squared_hinge, (new, reference))


def test_a_user_may_wrap_the_penalty_in_a_second_loss():
    """The fast path's gradient is scaled by what comes after it."""
    stream = growing(3)
    model = random_model(stream, "complex", 3, newcomers=2.0)
    comparison = Comparison.build(stream, 1, stream.snapshots[0].train, run=0)
    found = []
    for factor in (1.0, 0.25):
        entity, relation = Embedding.of(model.entity.clone(), 12), Embedding.of(model.relation.clone(), 3)
        (factor * Penalty(comparison, model.backbone)(entity, relation, np.arange(9))).backward()
        found.append(entity.trained.grad)
    torch.testing.assert_close(found[0] * 0.25, found[1], rtol=1e-15, atol=0)
