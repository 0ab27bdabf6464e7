from __future__ import annotations

import json

import numpy as np
import pytest
from tests import oracle

from meor.backbone import BACKBONES
from meor.errors import EmptyCellError, NonFiniteError
from meor.evaluation import protocols
from meor.evaluation.endpoints import measure
from meor.evaluation.protocols import Retention, SetRanks, published, retention, set_ranks, weighted_mean
from meor.evaluation.rank import Counts, FilterPrefix, Rules, Ties, rank_update
from meor.stream.occurrence import occurrences
from meor.typing import SIDES


def _case(name: str, seed: int = 0):
    rng = np.random.default_rng(seed)
    stream = oracle.small_stream(rng, admitted=4, facts=20)
    return stream, oracle.dyadic_model(name, len(stream.entities), len(stream.relations), rng)


@pytest.mark.parametrize("name", sorted(BACKBONES))
@pytest.mark.parametrize("prefix", list(FilterPrefix))
def test_protocol_a_ranks_among_the_introducing_universe_and_b_among_the_current_one(name, prefix):
    stream, model = _case(name, 3)
    update = 2
    for each in set_ranks(stream, model, update, rules=Rules(filter_prefix=prefix)):
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
    (ranks, _) = rank_update(stream, model, 2, rules=Rules(Ties.REALISTIC))
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
    assert protocols.average_forgetting(table) == pytest.approx(acf, abs=1e-15)
    assert protocols.backward_transfer(table) == pytest.approx(((0.3 - 0.5) + (0.7 - 0.6)) / 2, abs=1e-15)
    assert protocols.forward_transfer(table) == pytest.approx((0.1 + 0.2) / 2, abs=1e-15)
    assert protocols.acquisition(table) == pytest.approx((0.6 * 20 + 0.8 * 30) / 50, abs=1e-15)
    assert protocols.base_kept(table) == pytest.approx((0.8 + 0.6) / 2, abs=1e-15)
    assert protocols.new_learned(table) == pytest.approx((0.6 + 0.8) / 2, abs=1e-15)


def test_base_kept_does_not_credit_gains():
    table = Retention(np.array([[0.5, np.nan], [0.9, 0.2]]), np.array([4, 4]))
    assert protocols.base_kept(table) == 1.0


def test_forgetting_is_undefined_rather_than_zero():
    with pytest.raises(EmptyCellError, match="no update"):
        protocols.backward_transfer(Retention(np.array([[0.5]]), np.array([3])))
    missing = Retention(np.array([[0.5, np.nan], [np.nan, 0.2]]), np.array([4, 4]))
    with pytest.raises(EmptyCellError, match=r"a\[1, 0\]"):
        protocols.average_forgetting(missing)
    with pytest.raises(EmptyCellError, match=r"a\[0, 1\]"):
        protocols.forward_transfer(missing)
    never = Retention(np.array([[0.0, np.nan], [0.1, 0.2]]), np.array([4, 4]))
    for measure_of in (protocols.average_forgetting, protocols.base_kept):
        with pytest.raises(NonFiniteError):
            measure_of(never)
    with pytest.raises(EmptyCellError):
        retention([], full=True)


def test_a_set_without_facts_has_no_figure_and_no_weight():
    value = np.array([[0.5, np.nan, np.nan], [0.4, np.nan, np.nan], [0.3, np.nan, 0.8]])
    table = Retention(value, np.array([10, 0, 30]))
    assert protocols.acquisition(table) == 0.8
    assert protocols.average_forgetting(table) == pytest.approx((0.3 - 0.5) / (2 * 0.5))
    with pytest.raises(EmptyCellError):
        protocols.new_learned(table)


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
    counts = Counts(np.array([[2, 3, 1]]), np.array([[4, 5, 2]]))
    found = {ties: tuple(float(rank[0]) for rank in counts.ranks(ties)) for ties in Ties}
    assert found == {
        Ties.ID: (6, 15),
        Ties.OPTIMISTIC: (3, 7),
        Ties.PESSIMISTIC: (7, 18),
        Ties.REALISTIC: (5, 12.5),
    }
    assert counts.ranks() == counts.ranks(Ties.ID)


def _several():
    rng = np.random.default_rng(0)
    stream = oracle.small_stream(rng, base=8, admitted=5, facts=40)
    models = [oracle.dyadic_model("complex", n, len(stream.relations), rng) for n in stream.entity_counts]
    return stream, models


def test_the_figures_are_those_of_the_protocols():
    stream, models = _several()
    found = published(stream, models.__getitem__, [0, 1, 2])
    sets = [each for update in range(3) for each in set_ranks(stream, models[update], update)]
    last = [each for each in sets if each.model == 2]
    assert found["A"]["mrr"] == weighted_mean(last, full=False)
    assert found["B"]["hits@3"] == weighted_mean(last, full=True, metric="hits@3")
    assert found["A"]["mrr"] >= found["B"]["mrr"]
    expected = protocols.average_forgetting(retention(sets, full=True, metric="hits@3"))
    assert found["forgetting"]["B"]["ACF"]["hits@3"] == pytest.approx(expected)
    json.dumps(found, allow_nan=False)


def test_one_embedding_has_figures_but_no_forgetting():
    stream, models = _several()
    assert "forgetting" not in published(stream, models.__getitem__, [2])
    assert "forgetting" not in published(stream, models.__getitem__, [1, 2])


def test_an_undefined_measure_is_null():
    stream, models = _several()
    for model in models:
        model.entity[:] = 0.0
    # With ties by id nobody but entity 0 is ever first: Hits@1 may reach 0, which cannot shrink.
    found = published(stream, models.__getitem__, [0, 1, 2])["forgetting"]["A"]["ACF"]
    assert all(value is None or np.isfinite(value) for value in found.values())
