from dataclasses import replace

import numpy as np
import pytest
from tests.growth import growing

from meor.cohort.newcomers import SCALE_SAMPLE, build_cohort
from meor.errors import InputError
from meor.stream.occurrence import TrainAnswers
from meor.stream.snapshot import Stream, build_stream
from meor.typing import SIDES, Side, Split


def by_hand(stream: Stream, fact: list[int], side: Side) -> tuple[list[int], list[int]]:
    """N_x and the old pool, read off the definitions."""
    train = {tuple(one) for one in stream.prefix(1, [Split.TRAIN]).tolist()}
    head, relation, tail = fact
    answer = head if side is Side.HEAD else tail
    free = []
    for e in range(stream.entity_counts[1]):
        asked = (e, relation, tail) if side is Side.HEAD else (head, relation, e)
        if e != answer and asked not in train:
            free.append(e)
    n_old = stream.entity_counts[0]
    return [e for e in free if e >= n_old], [e for e in free if e < n_old]


@pytest.mark.parametrize("seed", range(20))
def test_cohorts_and_pools_equal_their_definition(seed):
    stream = growing(seed)
    fact = stream.snapshots[0].train
    cohort = build_cohort(stream, 1, fact, run=seed, scale_sample=5)
    member = cohort.is_newcomer(np.arange(len(cohort)))
    for x in range(len(cohort)):
        side = SIDES[cohort.side[x]]
        assert (x // 2, x % 2) == (np.flatnonzero((fact == cohort.fact[x]).all(1))[0], int(side))
        newcomers, pool = by_hand(stream, cohort.fact[x].tolist(), side)
        assert cohort.newcomers_of(x).tolist() == newcomers
        assert (cohort.n_old + np.flatnonzero(member[x])).tolist() == newcomers
        assert cohort.old_pool_of(x).tolist() == pool
        assert (cohort.n_newcomers[x], cohort.n_pool[x]) == (len(newcomers), len(pool))
        sample = cohort.scale_of(x).tolist()
        assert len(sample) == min(5, len(pool)) == len(set(sample))
        assert set(sample) <= set(pool)
        assert sample == sorted(sample)
        assert cohort.eligible[x] == (bool(newcomers) and bool(pool))


def test_a_scale_sample_is_uniform_over_the_pool():
    stream = growing(1, n_old=10)
    fact = stream.snapshots[0].train[:1]
    counts = np.zeros(10)
    for run in range(3000):
        cohort = build_cohort(stream, 1, fact, run=run, scale_sample=3)
        counts[cohort.scale_of(0)] += 1
    pool = cohort.old_pool_of(0)
    expected = 3000 * 3 / len(pool)
    assert (counts[np.setdiff1d(np.arange(10), pool)] == 0).all()
    assert np.abs(counts[pool] - expected).max() < 5 * np.sqrt(expected)


def test_an_occurrence_does_not_depend_on_its_company():
    stream = growing(2, n_old=20)
    fact = stream.snapshots[0].train
    whole = build_cohort(stream, 1, fact, run=7, scale_sample=4)
    turned = build_cohort(stream, 1, fact[::-1], run=7, scale_sample=4)
    alone = build_cohort(stream, 1, fact[5:6], run=7, scale_sample=4)
    assert np.array_equal(whole.scale[10:12], alone.scale)
    assert np.array_equal(whole.scale.reshape(len(fact), 2, -1)[::-1].reshape(-1, 4), turned.scale)


def test_the_answer_leaves_even_when_training_does_not_know_it():
    stream = growing(4)
    fact = np.array([[0, 0, 5]])
    nothing = TrainAnswers.from_facts(np.zeros((0, 3), np.int64), len(stream.relations))
    cohort = build_cohort(stream, 1, fact, run=0, known=nothing)
    assert 0 not in cohort.old_pool_of(0)
    assert 5 not in cohort.old_pool_of(1)
    assert cohort.n_pool.tolist() == [stream.entity_counts[0] - 1] * 2
    assert cohort.n_newcomers.tolist() == [stream.entity_counts[1] - stream.entity_counts[0]] * 2


def test_validation_and_test_facts_change_no_id():
    base = [(f"e{i}", "r", f"e{(i + 1) % 8}") for i in range(8)]
    new = [("n0", "r", "e0"), ("n1", "r", "e1"), ("e3", "r", "n1")]
    plain = build_stream("plain", [{Split.TRAIN: base}, {Split.TRAIN: new}])
    leak = {Split.VALID: [("e0", "r", "n0")], Split.TEST: [("e1", "r", "n1")]}
    planted = build_stream("planted", [{Split.TRAIN: base}, {Split.TRAIN: new, **leak}])
    fact = plain.snapshots[0].train
    one, other = (build_cohort(stream, 1, fact, run=0, scale_sample=3) for stream in (plain, planted))
    for x in range(len(one)):
        assert np.array_equal(one.newcomers_of(x), other.newcomers_of(x))
    assert np.array_equal(one.scale, other.scale)


def test_an_update_without_newcomers_has_no_eligible_occurrence():
    base = [(f"e{i}", "r", f"e{(i + 1) % 5}") for i in range(5)]
    stream = build_stream("still", [{Split.TRAIN: base}, {Split.TRAIN: [("e0", "r", "e3")]}])
    assert not build_cohort(stream, 1, stream.snapshots[0].train, run=0).eligible.any()


def test_no_facts_make_an_empty_cohort():
    stream = growing(0)
    assert len(build_cohort(stream, 1, np.zeros((0, 3), np.int64), run=0)) == 0


def test_a_fact_that_is_not_historical_is_refused():
    stream = growing(0)
    with pytest.raises(InputError, match="not old"):
        build_cohort(stream, 1, stream.snapshots[1].train, run=0)


def test_an_occurrence_asks_for_one_end_of_its_fact_from_the_other():
    stream = growing(3)
    fact = stream.snapshots[0].train[:4]
    cohort = build_cohort(stream, 1, fact, run=0)
    for side, missing, given in ((Side.HEAD, 0, 2), (Side.TAIL, 2, 0)):
        on = cohort.side == side
        assert np.array_equal(cohort.answer[on], fact[:, missing])
        assert np.array_equal(cohort.anchor[on], fact[:, given])
        assert np.array_equal(cohort.relation[on], fact[:, 1])


def test_one_old_entity_in_the_pool_is_enough_and_a_scale_sample_has_the_papers_size():
    stream = growing(3, n_old=20, n_new=8)
    cohort = build_cohort(stream, 1, stream.snapshots[0].train[:12], run=0)
    assert SCALE_SAMPLE == 256
    assert cohort.scale.shape[1] == SCALE_SAMPLE
    assert replace(cohort, n_pool=np.ones_like(cohort.n_pool)).eligible.any()
    assert not replace(cohort, n_pool=np.zeros_like(cohort.n_pool)).eligible.any()
