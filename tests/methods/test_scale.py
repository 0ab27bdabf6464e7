import numpy as np
import pytest

from meor.methods.equations import (
    ADEQUATE_OCCURRENCES,
    ADEQUATE_SCORES,
    EPSILON_TAU,
    ETA_MAD,
    POOLS,
    fallback_mad,
    interquartile_range,
    median_absolute_deviation,
    scales,
)


@pytest.mark.parametrize("seed", range(30))
def test_iqr_is_linear_interpolation_over_the_sample_alone(seed):
    draw = np.random.default_rng(seed)
    size = draw.integers(0, 9, 6)
    score = draw.normal(size=(6, 8)) * 10
    found = interquartile_range(score, size)
    for row in range(6):
        sample = score[row, : size[row]]
        expected = np.subtract(*np.quantile(sample, [0.75, 0.25])) if len(sample) else 0.0
        assert found[row] == pytest.approx(expected, rel=1e-13, abs=1e-13)


def test_mad_is_unscaled_and_from_the_median():
    assert median_absolute_deviation(np.array([1.0, 2, 4, 8, 100])) == 3.0


def samples(relations, sides, size, width=256):
    draw = np.random.default_rng(0)
    score = draw.normal(size=(len(relations), width)) * 3 + np.arange(len(relations))[:, None]
    return score, np.array(size), np.array(relations), np.array(sides, dtype=np.int8)


def expected_mad(score, size, chosen):
    return median_absolute_deviation(np.concatenate([score[x, : size[x]] for x in chosen]))


def test_mad_pools_fall_back_from_relation_to_side_to_update():
    # Relation 0 on side 0 is adequate; relation 1 on side 0 is alone; side 1 has one occurrence.
    score, size, relation, side = samples([0, 0, 1, 0], [0, 0, 0, 1], [256, 256, 256, 256])
    mad, pool = fallback_mad(score, size, relation, side)
    assert [POOLS[p] for p in pool] == ["relation", "relation", "side", "update"]
    assert mad[0] == mad[1] == expected_mad(score, size, [0, 1])
    assert mad[2] == expected_mad(score, size, [0, 1, 2])
    assert mad[3] == expected_mad(score, size, [0, 1, 2, 3])


def test_a_pool_needs_two_occurrences_and_256_scores():
    score, size, relation, side = samples([0, 0], [0, 0], [128, 127])
    mad, pool = fallback_mad(score, size, relation, side)
    assert mad.tolist() == [0, 0]
    assert [POOLS[p] for p in pool] == ["none", "none"]
    score, size, relation, side = samples([0, 0], [0, 0], [128, 128])
    assert fallback_mad(score, size, relation, side)[1].tolist() == [0, 0]
    score, size, relation, side = samples([0], [0], [256])
    assert fallback_mad(score, size, relation, side)[1].tolist() == [POOLS.index("none")]


def test_an_occurrence_without_a_sample_has_no_pool():
    score, size, relation, side = samples([0, 0, 0], [0, 0, 0], [256, 256, 0])
    mad, pool = fallback_mad(score, size, relation, side)
    assert mad[2] == 0
    assert POOLS[pool[2]] == "none"


def test_tau_is_the_largest_term_and_says_which():
    score = np.zeros((4, 256))
    score[0] = np.linspace(0, 1, 256)  # IQR .5 against .1 MAD
    score[2:, ::2] = 1000.0  # an IQR of its own, and it makes the pool of side 1 wide
    size, relation = np.full(4, 256), np.array([0, 1, 2, 3])
    side = np.array([0, 0, 1, 1], dtype=np.int8)
    found = scales(score, size, relation, side)
    assert found.tau[0] == pytest.approx(0.5)
    assert found.tau[1] == 1e-8 or found.term[1] == 1
    flat = scales(np.zeros((2, 256)), size[:2], relation[:2], side[:2])
    assert flat.tau.tolist() == [1e-8, 1e-8]
    assert flat.wins() == {"iqr": 0, "mad": 0, "epsilon": 2}


def test_the_mad_wins_where_single_queries_are_flat_but_shifted():
    score = np.zeros((4, 256)) + np.array([0.0, 10.0, 20.0, 30.0])[:, None]
    found = scales(score, np.full(4, 256), np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int8))
    assert found.iqr.tolist() == [0] * 4
    assert found.tau.tolist() == [pytest.approx(1.0)] * 4  # a tenth of the MAD of 0, 10, 20, 30
    assert found.wins() == {"iqr": 0, "mad": 4, "epsilon": 0}


def test_an_occurrence_without_a_sample_does_not_make_a_pool_adequate():
    score, size, relation, side = samples([0, 0], [0, 0], [256, 0])
    mad, pool = fallback_mad(score, size, relation, side)
    assert mad.tolist() == [0, 0]
    assert [POOLS[p] for p in pool] == ["none", "none"]


def test_no_sample_no_range_whatever_stands_in_its_place():
    score = np.array([[7.0, -3.0], [1.0, 5.0]])
    assert interquartile_range(score, np.array([0, 2])).tolist() == [0.0, 2.0]
    assert interquartile_range(np.empty((2, 0)), np.array([0, 0])).tolist() == [0.0, 0.0]


def test_the_scale_has_the_numbers_of_decisions_25_and_26():
    assert (ETA_MAD, EPSILON_TAU, ADEQUATE_OCCURRENCES, ADEQUATE_SCORES) == (0.1, 1e-8, 2, 256)


def test_what_pads_a_row_is_no_score_of_a_pool():
    rng = np.random.default_rng(3)
    score = rng.normal(size=(6, 200))
    size, relation, side = np.full(6, 150), np.zeros(6, np.int64), np.zeros(6, np.int8)
    padded = score.copy()
    padded[:, 150:] = 1e9
    found, pool = fallback_mad(padded, size, relation, side)
    assert found == pytest.approx(median_absolute_deviation(score[:, :150].ravel()), rel=1e-12)
    assert (pool == POOLS.index("relation")).all()
