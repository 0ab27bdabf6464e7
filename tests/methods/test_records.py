import numpy as np
import pytest
from tests.growth import growing, pressing, random_model

from meor.methods.comparison import Comparison
from meor.methods.dense import dense_pressures, dense_scale, table_scores
from meor.methods.penalty import Penalty, penalty_records
from meor.methods.registry import penalties
from meor.training.loss import Embedding


@pytest.mark.parametrize("kind", sorted(penalties()))
@pytest.mark.parametrize("name", ["complex", "distmult", "transe"])
def test_records_hold_what_the_general_path_computes(name, kind):
    stream = growing(4, n_old=15, n_new=5)
    model = random_model(stream, name, 4, newcomers=pressing(name))
    comparison = Comparison.build(stream, 1, stream.snapshots[0].train, run=0, variant=penalties()[kind])
    records = penalty_records(comparison, model)
    score = table_scores(model.backbone, model.entity, model.relation)
    index = np.flatnonzero(comparison.eligible)
    scale = dense_scale(comparison, score)
    new, reference = dense_pressures(comparison, score, index, scale)
    np.testing.assert_allclose(records.new[index], new.numpy(), rtol=1e-11, atol=1e-13)
    if comparison.variant.centered:
        np.testing.assert_allclose(records.reference[index], reference.numpy(), rtol=1e-11, atol=1e-13)
    penalised = np.maximum((new - reference).numpy(), 0)
    np.testing.assert_allclose(records.excess[index], penalised, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(records.scale.tau, scale.tau, rtol=1e-12)
    assert np.isnan(records.new[~records.eligible]).all()
    assert not records.active[~records.eligible].any()
    assert records.active_share() == records.active[index].mean()


def test_uncentered_records_show_the_reference_they_do_not_subtract():
    stream = growing(4, n_old=15, n_new=5)
    model = random_model(stream, "complex", 4, newcomers=2.0)
    meor, uncentered = (
        penalty_records(
            Comparison.build(stream, 1, stream.snapshots[0].train, run=0, variant=penalties()[kind]), model
        )
        for kind in ("meor", "uncentered")
    )
    assert np.array_equal(meor.reference, uncentered.reference, equal_nan=True)
    assert np.array_equal(uncentered.excess, uncentered.new, equal_nan=True)


def test_no_record_no_share():
    stream = growing(4)
    model = random_model(stream, "complex", 4)
    comparison = Comparison.build(stream, 1, stream.snapshots[0].train[:0], run=0)
    assert penalty_records(comparison, model).active_share() == 0


@pytest.mark.parametrize("name", sorted(penalties()))
def test_records_from_what_a_penalty_holds_are_those_made_anew(name):
    stream = growing(3)
    model = random_model(stream, "complex", 3)
    comparison = Comparison.build(stream, 1, stream.snapshots[0].train[:12], run=3, variant=penalties()[name])
    penalty = Penalty(comparison, model.backbone)
    entity, relation = (
        Embedding.of(model.entity, comparison.cohort.n_old),
        Embedding.of(model.relation, model.n_relations),
    )
    penalty(entity, relation, np.arange(12))
    assert (penalty.held is None) == (not penalty.comparison.variant.centered)
    held, anew = penalty_records(comparison, model, penalty.held), penalty_records(comparison, model)
    for part in ("answer_score", "new", "reference"):
        np.testing.assert_array_equal(getattr(held, part), getattr(anew, part))
    assert held.dropped == anew.dropped
