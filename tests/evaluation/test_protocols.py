from __future__ import annotations

import numpy as np
import pytest
from tests import oracle

from meor.backbone import BACKBONES
from meor.errors import EmptyCellError, NonFiniteError
from meor.evaluation import forgetting
from meor.evaluation.endpoints import measure
from meor.evaluation.forgetting import Retention, retention
from meor.evaluation.protocols import (
    FilterPrefix,
    SetRanks,
    Ties,
    rank_update_with,
    resolve,
    set_ranks,
    weighted_mean,
)
from meor.evaluation.rank import Counts, rank_update
from meor.stream.occurrence import occurrences
from meor.typing import SIDES


def _case(name: str, seed: int = 0):
    rng = np.random.default_rng(seed)
    stream = oracle.small_stream(rng, admitted=4, facts=20)
    return stream, oracle.dyadic_model(name, len(stream.entities), len(stream.relations), rng)


@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_the_defaults_are_the_papers_ranks(name):
    stream, model = _case(name)
    for update in range(len(stream.snapshots)):
        for one, other in zip(
            rank_update(stream, model, update), rank_update_with(stream, model, update), strict=True
        ):
            assert one.cur.tolist() == other.cur.tolist()
            assert one.old.tolist() == other.old.tolist()


@pytest.mark.parametrize("name", sorted(BACKBONES))
@pytest.mark.parametrize("prefix", list(FilterPrefix))
def test_protocol_a_ranks_among_the_introducing_universe_and_b_among_the_current_one(name, prefix):
    stream, model = _case(name, 3)
    update = 2
    for each in set_ranks(stream, model, update, filter_prefix=prefix):
        known = stream.prefix(update if prefix is FilterPrefix.CURRENT else each.introduced)
        restricted, full = [], []
        for side in SIDES:
            asked = occurrences(stream, update, side)
            asked = asked.select(asked.snapshot == each.introduced)
            n = stream.entity_counts[each.introduced]
            restricted += [found.cur for found in oracle.judge(model, asked, known, n, n)]
            full += [
                found.cur for found in oracle.judge(model, asked, known, n, stream.entity_counts[update])
            ]
        assert each.restricted.tolist() == restricted
        assert each.full.tolist() == full


def test_the_weighted_mean_lets_big_sets_weigh_more():
    sets = [
        SetRanks(1, 0, np.array([1, 1, 1]), np.array([2, 2, 2])),
        SetRanks(1, 1, np.array([4]), np.array([4])),
    ]
    assert weighted_mean(sets, full=False) == (3 + 0.25) / 4
    assert weighted_mean(sets, full=True) == (1.5 + 0.25) / 4
    assert weighted_mean(sets, full=True, metric="hits@3") == 0.75


def test_realistic_ties_are_halves_and_newcomers_have_no_old_rank():
    stream, model = _case("distmult")
    model.entity[:] = 1.0
    (ranks, _) = rank_update_with(stream, model, 2, ties=Ties.REALISTIC)
    n_old = stream.entity_counts[1]
    assert ranks.cur.dtype == np.float64
    assert ((ranks.old == 0) == (ranks.occurrences.answer >= n_old)).all()
    assert (ranks.cur * 2 == np.round(ranks.cur * 2)).all()


def _table() -> Retention:
    value = np.array([[0.5, 0.1, np.nan], [0.4, 0.6, 0.2], [0.3, 0.7, 0.8]])
    return Retention(value, np.array([10, 20, 30]))


def test_forgetting_measures_follow_their_formulas():
    table = _table()
    acf = (0.3 - 0.5) / (2 * 0.5) * 10 / 30 + (0.7 - 0.6) / (1 * 0.6) * 20 / 30
    assert forgetting.average_forgetting(table) == pytest.approx(acf, abs=1e-15)
    assert forgetting.backward_transfer(table) == pytest.approx(((0.3 - 0.5) + (0.7 - 0.6)) / 2, abs=1e-15)
    assert forgetting.forward_transfer(table) == pytest.approx((0.1 + 0.2) / 2, abs=1e-15)
    assert forgetting.acquisition(table) == pytest.approx((0.6 * 20 + 0.8 * 30) / 50, abs=1e-15)
    assert forgetting.base_kept(table) == pytest.approx((0.8 + 0.6) / 2, abs=1e-15)
    assert forgetting.new_learned(table) == pytest.approx((0.6 + 0.8) / 2, abs=1e-15)


def test_base_kept_does_not_credit_gains():
    table = Retention(np.array([[0.5, np.nan], [0.9, 0.2]]), np.array([4, 4]))
    assert forgetting.base_kept(table) == 1.0


def test_forgetting_is_undefined_rather_than_zero():
    with pytest.raises(EmptyCellError, match="no update"):
        forgetting.backward_transfer(Retention(np.array([[0.5]]), np.array([3])))
    missing = Retention(np.array([[0.5, np.nan], [np.nan, 0.2]]), np.array([4, 4]))
    with pytest.raises(EmptyCellError, match=r"a\[1, 0\]"):
        forgetting.average_forgetting(missing)
    with pytest.raises(EmptyCellError, match=r"a\[0, 1\]"):
        forgetting.forward_transfer(missing)
    never = Retention(np.array([[0.0, np.nan], [0.1, 0.2]]), np.array([4, 4]))
    for measure_of in (forgetting.average_forgetting, forgetting.base_kept):
        with pytest.raises(NonFiniteError):
            measure_of(never)
    with pytest.raises(EmptyCellError):
        retention([], full=True)


def test_a_set_without_facts_has_no_figure_and_no_weight():
    value = np.array([[0.5, np.nan, np.nan], [0.4, np.nan, np.nan], [0.3, np.nan, 0.8]])
    table = Retention(value, np.array([10, 0, 30]))
    assert forgetting.acquisition(table) == 0.8
    assert forgetting.average_forgetting(table) == pytest.approx((0.3 - 0.5) / (2 * 0.5))
    with pytest.raises(EmptyCellError):
        forgetting.new_learned(table)


def test_the_retention_table_is_made_of_set_ranks():
    stream, model = _case("complex")
    sets = [each for update in range(3) for each in set_ranks(stream, model, update)]
    table = retention(sets, full=True, metric="hits@3")
    for each in sets:
        assert table.value[each.model, each.introduced] == measure(each.full, "hits@3")
    assert np.isnan(table.value[0, 1])
    # At its own update a set is ranked among the same entities under both protocols.
    assert (
        np.diag(table.value).tolist() == np.diag(retention(sets, full=False, metric="hits@3").value).tolist()
    )


def test_each_tie_rule_by_hand():
    """Old: 2 ahead, 3 ties before and 1 after the answer; newcomers: 4 ahead, 5 before, 2 after."""
    counts = Counts(*(np.array([number]) for number in (2, 3, 1, 4, 5, 2)))
    found = {ties: tuple(float(rank[0]) for rank in resolve(counts, ties)) for ties in Ties}
    assert found == {
        Ties.ID: (6, 15),
        Ties.OPTIMISTIC: (3, 7),
        Ties.PESSIMISTIC: (7, 18),
        Ties.REALISTIC: (5, 12.5),
    }
    assert resolve(counts) == resolve(counts, Ties.ID)
