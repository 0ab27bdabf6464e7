from __future__ import annotations

import json

import numpy as np
import pytest
from tests import oracle

from meor.evaluation import forgetting
from meor.evaluation.forgetting import retention
from meor.evaluation.protocols import set_ranks, weighted_mean
from meor.evaluation.published import published


def _case():
    rng = np.random.default_rng(0)
    stream = oracle.small_stream(rng, base=8, admitted=5, facts=40)
    models = [oracle.dyadic_model("complex", n, len(stream.relations), rng) for n in stream.entity_counts]
    return stream, models


def test_the_figures_are_those_of_the_protocols():
    stream, models = _case()
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
    stream, models = _case()
    assert "forgetting" not in published(stream, models.__getitem__, [2])
    assert "forgetting" not in published(stream, models.__getitem__, [1, 2])


def test_an_undefined_measure_is_null():
    stream, models = _case()
    for model in models:
        model.entity[:] = 0.0
    # With ties by id nobody but entity 0 is ever first: Hits@1 may reach 0, which cannot shrink.
    found = published(stream, models.__getitem__, [0, 1, 2])["forgetting"]["A"]["ACF"]
    assert all(value is None or np.isfinite(value) for value in found.values())
