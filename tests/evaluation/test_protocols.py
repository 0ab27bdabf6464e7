from __future__ import annotations

import numpy as np
import pytest
from tests import oracle

from meor.backbone import BACKBONES
from meor.evaluation import protocols
from meor.evaluation.endpoints import METRICS, measure
from meor.evaluation.protocols import SetRanks, beside_current, set_ranks, weighted_mean
from meor.evaluation.rank import Counts, FilterPrefix, Rules, Ties, rank_update
from meor.stream.occurrence import occurrences
from meor.typing import SIDES, SPLITS, Split


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


@pytest.mark.parametrize("splits", [SPLITS, (Split.TRAIN,)])
@pytest.mark.parametrize("sample", [0, 3])
def test_three_figures_of_a_run_are_those_of_ranking_everything_anew(splits, sample):
    stream, model = _case("transe", 5)
    update = 2
    given = rank_update(stream, model, update, rules=Rules(filter_splits=splits), sample=sample)
    found = beside_current(stream, model, given, filter_splits=splits, sample=sample)
    assert set(found) == {"A", "B", "current"}
    rules = Rules(filter_prefix=FilterPrefix.INTRODUCED, filter_splits=splits)
    sets = set_ranks(stream, model, update, rules=rules, sample=sample)
    now = set_ranks(stream, model, update, rules=Rules(filter_splits=splits), sample=sample)
    for metric in METRICS:
        assert found["A"][metric] == weighted_mean(sets, full=False, metric=metric)
        assert found["B"][metric] == weighted_mean(sets, full=True, metric=metric)
        assert found["current"][metric] == weighted_mean(now, full=True, metric=metric)
    assert found["current"]["mrr"] == measure(np.concatenate([each.cur for each in given]))


def test_facts_of_the_last_snapshot_are_not_ranked_again(monkeypatch):
    stream, model = _case("complex")
    given = rank_update(stream, model, 2)
    asked: list[int] = []
    real = protocols.count

    def spied(model, occurrences, *args, **kwargs):
        asked.extend(occurrences.snapshot.tolist())
        return real(model, occurrences, *args, **kwargs)

    monkeypatch.setattr(protocols, "count", spied)
    beside_current(stream, model, given, filter_splits=SPLITS)
    assert set(asked) == {0, 1}
