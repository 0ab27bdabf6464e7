from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.growth import growing, random_model, tables

from meor.errors import NonFiniteError
from meor.methods.coefficient import (
    ENOUGH,
    MULTIPLES,
    RECORDS,
    Balance,
    Candidate,
    balance,
    balance_penalty,
    best_multiple,
    mean_gradient,
    most_telling,
    penalty_gradient,
)
from meor.methods.comparison import Comparison, sample_records
from meor.methods.penalty import Penalty, penalty_records


def built(newcomers: float):
    stream = growing(1, n_old=20, n_new=8)
    model = random_model(stream, "complex", 1, newcomers=newcomers)
    comparison = Comparison.build(stream, 1, stream.snapshots[0].train, run=1)
    return stream, model, comparison


def test_the_coefficient_makes_both_gradients_equally_long():
    stream, model, comparison = built(2.0)
    entity, relation = tables(model, stream)
    penalty = Penalty(comparison, model.backbone)
    losses = [entity.trained.square().sum(), entity.trained.sum()]
    found = balance_penalty(penalty, entity, relation, losses, records=24)
    host = (2 * entity.trained.detach() + 1) / 2
    gradient, records, active = penalty_gradient(penalty, entity, relation, records=24)
    assert found.host_norm == pytest.approx(float(host.norm()))
    assert found.coefficient * float(gradient.norm()) == pytest.approx(found.host_norm)
    assert (found.records, found.active, found.update) == (records, active, 1) == (24, active, 1)
    assert ENOUGH <= active <= 24
    assert "of 24 records active at update 1" in found.describe()


def test_active_records_are_those_with_an_excess():
    stream, model, comparison = built(1.0)
    records = penalty_records(comparison, model)
    chosen = sample_records(comparison.cohort, 16)
    _, _, active = penalty_gradient(Penalty(comparison, model.backbone), *tables(model, stream), records=16)
    assert active == records.active[chosen].sum()
    assert records.active_share(chosen) == active / 16


def test_nothing_active_means_a_coefficient_of_zero_and_says_so():
    stream, model, comparison = built(0.0)
    # Newcomers score 0 on every query; push every answer above that.
    model.entity[: comparison.cohort.n_old] = model.entity[: comparison.cohort.n_old].abs() + 0.1
    half = model.entity.shape[1] // 2
    model.entity[: comparison.cohort.n_old, half:] = 0
    model.relation.abs_()
    entity, relation = tables(model, stream)
    found = balance_penalty(Penalty(comparison, model.backbone), entity, relation, [entity.trained.sum()])
    assert found.is_inactive
    assert found.coefficient == 0
    assert "inactive" in found.describe()


def test_a_balance_that_is_no_number_raises():
    with pytest.raises(NonFiniteError):
        balance(torch.tensor([float("nan")]), torch.ones(1), records=16, active=16, update=1)


def test_fewer_than_16_active_records_give_no_coefficient_and_16_do():
    few, enough = (balance(torch.ones(2), torch.ones(2), records=1024, active=n, update=3) for n in (15, 16))
    assert (few.coefficient, few.is_inactive, few.active) == (0.0, True, 15)
    assert "15 of 1,024 records active at update 3" in few.describe()
    assert (enough.coefficient, enough.is_inactive) == (1.0, False)


def test_the_balance_that_is_shown_is_the_deciding_one_or_else_the_most_active():
    few, more = (Balance(0.0, 1.0, 1.0, 64, active, active) for active in (2, 9))
    decided = Balance(0.5, 1.0, 2.0, 64, 3, 7)
    assert most_telling([few, more]) is more
    assert most_telling([few, few]) is few
    assert most_telling([more, decided]) is decided


def test_up_to_1024_records_are_looked_at():
    assert RECORDS == 1024


def test_the_host_gradient_is_the_mean_over_batches():
    rows = torch.zeros(2, requires_grad=True)
    found = mean_gradient([rows.sum(), 3 * rows.sum()], rows)
    assert found.tolist() == [2, 2]
    assert mean_gradient([], rows).tolist() == [0, 0]


def test_where_nobody_is_eligible_no_record_is_active():
    stream, model, comparison = built(3)
    nobody = replace(comparison.cohort, n_pool=np.zeros_like(comparison.cohort.n_pool))
    empty = Comparison(replace(comparison.references, cohort=nobody))
    _, records, active = penalty_gradient(Penalty(empty, model.backbone), *tables(model, stream))
    assert (records, active) == (0, 0)


def test_one_batch_is_its_own_mean_and_none_is_nothing():
    rows = torch.ones(2, 3, requires_grad=True)
    assert mean_gradient([(5 * rows).sum()], rows).tolist() == [[5.0] * 3] * 2
    assert mean_gradient([], rows).tolist() == [[0.0] * 3] * 2


def test_multiples_are_those_of_the_decision_and_a_candidate_is_admitted_unless_it_loses():
    assert MULTIPLES == (1, 3, 10, 30, 100, 300, 1e3, 3e3, 1e4, 3e4, 1e5)
    assert Candidate(1.0, 0.2, 0.1).admitted


def test_where_nothing_is_admitted_the_multiple_is_zero_and_of_equals_the_smallest():
    alone = Candidate(0.0, 0.2, 0.1)
    lost = [Candidate.against(alone, multiple, 0.9, 0.0) for multiple in (1.0, 3.0)]
    assert best_multiple(lost) == 0.0
    kept = [Candidate.against(alone, multiple, 0.3, 0.1) for multiple in (3.0, 1.0)]
    assert best_multiple([*lost, *kept]) == 1.0
