from __future__ import annotations

import json

import numpy as np
import pytest
from tests import oracle

from meor.errors import EmptyCellError, NonFiniteError
from meor.evaluation import forgetting
from meor.evaluation.endpoints import measure
from meor.evaluation.forgetting import Retention, published, retention
from meor.evaluation.protocols import set_ranks, weighted_mean


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
    stream, models = _several()
    sets = [each for update in range(3) for each in set_ranks(stream, models[update], update)]
    table = retention(sets, full=True, metric="hits@3")
    for each in sets:
        assert table.value[each.model, each.introduced] == measure(each.full, "hits@3")
    assert np.isnan(table.value[0, 1])
    # At its own update a set is ranked among the same entities under both forgetting.
    assert (
        np.diag(table.value).tolist() == np.diag(retention(sets, full=False, metric="hits@3").value).tolist()
    )


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
    expected = forgetting.average_forgetting(retention(sets, full=True, metric="hits@3"))
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
