from __future__ import annotations

import math

import numpy as np
import pytest
from tests import oracle

from meor.backbone import BACKBONES
from meor.evaluation import displacement
from meor.evaluation.audit import _newcomers
from meor.evaluation.blame import Blame, blame, name_newcomers
from meor.evaluation.rank import FilterPrefix, Rules, rank_update
from meor.typing import SIDES, Role


def _streams(n: int):
    for seed in range(n):
        rng = np.random.default_rng(seed)
        yield rng, oracle.small_stream(rng, snapshots=3, admitted=4)


def _known(stream, update, snapshot, prefix):
    return stream.prefix(update if prefix is FilterPrefix.CURRENT else int(snapshot))


@pytest.mark.parametrize("prefix", list(FilterPrefix))
@pytest.mark.parametrize("name", list(BACKBONES))
def test_every_newcomer_is_blamed_for_exactly_the_answers_it_stands_before(name, prefix):
    for rng, stream in _streams(6):
        model = oracle.dyadic_model(name, len(stream.entities), len(stream.relations), rng)
        for update in stream.updates:
            for ranks in rank_update(stream, model, update, rules=Rules(filter_prefix=prefix)):
                asked = ranks.occurrences
                expected = np.zeros(len(stream.newcomers(update)), dtype=int)
                dearest = [(0.0, -1)] * len(expected)
                for row in np.flatnonzero(asked.role == Role.HISTORICAL):
                    one = asked.select(np.array([row]))
                    known = _known(stream, update, asked.snapshot[row], prefix)
                    n_old, n_cur = stream.entity_counts[update - 1], stream.entity_counts[update]
                    for e in oracle.judge(model, one, known, n_old, n_cur)[0].ahead:
                        expected[e - n_old] += 1
                        old, cur = ranks.old[row], ranks.cur[row]
                        share = (1 / old - 1 / cur) / (cur - old)
                        dearest[e - n_old] = max(
                            dearest[e - n_old], (share, row), key=lambda each: (each[0], -each[1])
                        )
                found = blame(stream, model, ranks, rules=Rules(filter_prefix=prefix))
                assert found.displaced.tolist() == expected.tolist()
                assert found.dearest.tolist() == [row for _, row in dearest]
                assert found.charge.sum() == pytest.approx(displacement.tally([ranks]).lost, abs=1e-12)


def test_blame_does_not_depend_on_the_byte_budget():
    for rng, stream in _streams(4):
        model = oracle.dyadic_model("complex", len(stream.entities), len(stream.relations), rng)
        (ranks, _) = rank_update(stream, model, 2)
        whole, tiny = blame(stream, model, ranks), blame(stream, model, ranks, memory=1)
        assert whole.displaced.tobytes() == tiny.displaced.tobytes()
        assert whole.charge.tobytes() == tiny.charge.tobytes()
        assert whole.dearest.tobytes() == tiny.dearest.tobytes()


def test_the_worst_answers_name_their_newcomers_strongest_first():
    seen = 0
    for rng, stream in _streams(8):
        model = oracle.dyadic_model("distmult", len(stream.entities), len(stream.relations), rng)
        for update in stream.updates:
            ranks = rank_update(stream, model, update)
            n_old, n_cur = stream.entity_counts[update - 1], stream.entity_counts[update]
            for each in name_newcomers(stream, model, displacement.worst(ranks)):
                asked = ranks[SIDES.index(each.side)].occurrences
                row = int(np.flatnonzero((asked.fact == each.fact).all(1))[0])
                judged = oracle.judge(
                    model, asked.select(np.array([row])), stream.prefix(update), n_old, n_cur
                )[0]
                assert (each.old, each.cur, list(each.newcomers)) == (judged.old, judged.cur, judged.ahead)
                assert each.lost > 0
                seen += 1
    assert seen > 20


def test_ranks_of_another_model_are_refused():
    rng = np.random.default_rng(1)
    stream = oracle.small_stream(rng, admitted=4)
    one, other = (oracle.dyadic_model("complex", len(stream.entities), 2, rng, levels=9) for _ in range(2))
    (ranks, _) = rank_update(stream, one, 2)
    with pytest.raises(ValueError, match="not of this model"):
        blame(stream, other, ranks)


def test_a_limit_keeps_the_strongest():
    rng = np.random.default_rng(3)
    stream = oracle.small_stream(rng, admitted=6)
    model = oracle.dyadic_model("transe", len(stream.entities), len(stream.relations), rng)
    worst = displacement.worst(rank_update(stream, model, 2))
    for whole, cut in zip(
        name_newcomers(stream, model, worst), name_newcomers(stream, model, worst, limit=1), strict=True
    ):
        assert cut.newcomers == whole.newcomers[:1]
        assert math.isclose(cut.lost, whole.lost)


def test_a_newcomer_is_named_with_its_id_and_its_update():
    blamed = [Blame(3, 40, np.array([0, 2, 1]), np.array([0.0, 0.5, 0.1]), np.array([-1, 0, 1]))] * 2
    found = [(one.id, one.update, one.displaced, one.charge) for one in _newcomers(blamed)]
    assert found == [(41, 3, 4, 1.0), (42, 3, 2, 0.2)]
