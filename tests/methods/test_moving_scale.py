"""tau_x of a step has the bits of tau_x made from all occurrences, however rows have moved since."""

import numpy as np
import pytest
import torch
from tests.growth import growing, random_model

from meor.backbone import BACKBONES
from meor.errors import NonFiniteError
from meor.evaluation.tally import candidate_rows
from meor.methods.comparison import Comparison
from meor.methods.equations import TERMS
from meor.methods.frozen import present_scale, query_rows
from meor.methods.moving_scale import MovingScale
from meor.search.exact import exact_columns

STEP = np.array([1, 6, 6, 9, 20])


def moving(name, seed=3):
    stream = growing(seed, n_old=40, n_new=6)
    model = random_model(stream, name, seed)
    comparison = Comparison.build(stream, 1, stream.snapshots[0].train[:12], run=seed)
    return comparison, model, MovingScale(comparison, model.backbone.scoring)


def told(comparison, model):
    everyone = np.arange(len(comparison.cohort))
    return (
        query_rows(comparison.cohort, everyone, model.backbone, model.entity, model.relation),
        candidate_rows(model.backbone, model.entity),
    )


def full(comparison, model):
    return present_scale(comparison, model.backbone, model.entity, model.relation)


@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_small_steps_keep_the_pools_and_the_bits(name):
    comparison, model, scale = moving(name)
    steps = np.random.default_rng(1)
    for _ in range(12):
        tau = scale.tau(*told(comparison, model), STEP)
        np.testing.assert_array_equal(tau, full(comparison, model).tau[STEP])
        for table in (model.entity, model.relation):  # in place, as an optimiser does
            table.add_(1e-4 * torch.from_numpy(steps.standard_normal(table.shape)).to(table))
    assert scale.made == (1 if model.backbone.geometry else 12)  # without a geometry there is no bound


@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_a_scale_that_the_pool_decides_is_made_from_the_whole_pool(name):
    comparison, model, scale = moving(name)
    scale.tau(*told(comparison, model), STEP)
    # Nearly equal rows: an IQR of next to nothing inside each query, while queries lie far apart.
    model.entity[:] = model.entity[:1] + 1e-6 * model.entity
    model.relation[:] *= 20
    expected = full(comparison, model)
    assert (expected.term[STEP] == TERMS.index("mad")).any()
    np.testing.assert_array_equal(scale.tau(*told(comparison, model), STEP), expected.tau[STEP])
    assert scale.made == 2


@pytest.mark.parametrize("name", sorted(name for name, each in BACKBONES.items() if each.geometry))
def test_no_score_moves_by_more_than_the_bound(name):
    comparison, model, scale = moving(name)
    before = told(comparison, model)
    scale.tau(*before, STEP)
    model.entity += 0.3 * torch.randn(model.entity.shape, generator=torch.Generator().manual_seed(2))
    after = told(comparison, model)
    bound = scale._moved(scale._held, after[0], after[1][: comparison.cohort.n_old])
    scoring, scale_ids = model.backbone.scoring, comparison.cohort.scale
    one, two = (exact_columns(scoring, *rows, scale_ids) for rows in (before, after))
    assert 0 < np.abs(two - one).max() <= bound


def test_a_row_that_is_not_finite_is_refused():
    comparison, model, scale = moving("transe-inverse")
    scale.tau(*told(comparison, model), STEP)
    model.entity[:] = torch.nan
    with pytest.raises(NonFiniteError):
        scale.tau(*told(comparison, model), STEP)
