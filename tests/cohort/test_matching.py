import numpy as np
import pytest
from tests.growth import growing

from meor.cohort.matching import Structure, build_references, degree_bins, set_numbers, shuffled_partners
from meor.cohort.newcomers import build_cohort
from meor.errors import ConfigError
from meor.typing import SIDES, Split


def references(seed: int, rule: str = "matched", draws: int = 4, **sizes: int):
    stream = growing(seed, **sizes)
    cohort = build_cohort(stream, 1, stream.snapshots[0].train, run=seed)
    return build_references(cohort, Structure.through(stream, 1), draws=draws, rule=rule)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["matched", "role"])
def test_an_entry_of_a_cell_is_uniform(rule):
    stream = growing(5, n_old=9, n_new=4)
    structure = Structure.through(stream, 1)
    fact = stream.snapshots[0].train[:1]
    n_runs = 4000
    counts = np.zeros((4, 9))
    for run in range(n_runs):
        made = build_references(build_cohort(stream, 1, fact, run=run), structure, draws=1, rule=rule)
        drawn = made.draw(np.array([1])).id[0, 0]
        for i in np.flatnonzero(drawn >= 0):
            counts[i, drawn[i]] += 1
    for row in counts:
        used = row[row > 0]
        if len(used):
            expected = n_runs / len(used)
            assert np.abs(used - expected).max() < 5 * np.sqrt(expected)


def test_draws_differ_from_one_another_and_more_draws_keep_the_first():
    few, many = references(3, draws=2, n_old=60), references(3, draws=6, n_old=60)
    index = np.arange(len(few.cohort))
    assert np.array_equal(few.draw(index).id, many.draw(index).id[:, :2])
    ids = many.draw(index).id
    assert all((ids[:, 0] != ids[:, j]).any() for j in range(1, 6))


def test_role_and_matched_references_have_addresses_of_their_own():
    matched, role = references(4, n_old=40), references(4, "role", n_old=40)
    index = np.arange(len(matched.cohort))
    assert (role.draw(index).level[role.draw(index).level >= 0] == 2).all()
    assert (matched.draw(index).id != role.draw(index).id).any()


@pytest.mark.parametrize("rule", ["matched", "role"])
def test_blocks_batches_and_order_do_not_change_a_draw(rule):
    made = references(6, rule)
    index = np.arange(len(made.cohort))
    whole = made.draw(index)
    for size in (1, 1000):
        at = 0
        for part, drawn in made.blocks(index, size):
            assert np.array_equal(drawn.id, whole.id[at : at + len(part)])
            assert np.array_equal(drawn.level, whole.level[at : at + len(part)])
            at += len(part)
        assert at == len(index)
    assert np.array_equal(made.draw(index[::-1]).id[::-1], whole.id)
    again = made.draw(np.array([3, 3, 1]))
    assert np.array_equal(again.id, whole.id[[3, 3, 1]])


def test_one_occurrence_is_aligned_with_its_newcomers():
    made = references(7)
    for x in range(len(made.cohort)):
        n = len(made.cohort.newcomers_of(x))
        assert made.draws_of(x).shape == (4, n)
        assert made.levels_of(x).shape == (n,)


def test_shuffled_partners_are_a_permutation_without_fixed_points_on_each_side():
    cohort = references(8).cohort
    partner = shuffled_partners(cohort)
    assert np.array_equal(np.sort(partner), np.arange(len(cohort)))
    assert (partner != np.arange(len(cohort)))[cohort.eligible].all()
    assert np.array_equal(cohort.side[partner], cohort.side)
    assert np.array_equal(partner, shuffled_partners(cohort))


def test_shuffled_partners_do_not_depend_on_the_order_of_the_buffer():
    stream = growing(8)
    fact = stream.snapshots[0].train
    one, other = build_cohort(stream, 1, fact, run=0), build_cohort(stream, 1, fact[::-1], run=0)
    mine, theirs = shuffled_partners(one), shuffled_partners(other)
    borrowed = {(*one.fact[x], one.side[x]): tuple(one.fact[mine[x]]) for x in range(len(one))}
    for x in range(len(other)):
        assert borrowed[(*other.fact[x], other.side[x])] == tuple(other.fact[theirs[x]])


def test_an_occurrence_alone_on_its_side_keeps_its_own_reference():
    stream = growing(9)
    cohort = build_cohort(stream, 1, stream.snapshots[0].train[:1], run=0)
    assert shuffled_partners(cohort).tolist() == [0, 1]


def test_bins_are_floor_log2_and_zero_has_its_own():
    degree = np.array([0, 1, 2, 3, 4, 7, 8, 2**40 - 1, 2**40])
    expected = [0] + [1 + int(d).bit_length() - 1 for d in degree[1:]]
    assert degree_bins(degree).tolist() == expected


@pytest.mark.parametrize("signature", ["all", "role"])
@pytest.mark.parametrize("seed", range(20))
def test_structure_equals_counting_by_hand(seed, signature):
    stream = growing(seed)
    facts = stream.prefix(1, [Split.TRAIN]).tolist()
    found = Structure.through(stream, 1, signature)
    for side in SIDES:
        pairs = {}
        for e in range(stream.entity_counts[1]):
            roles = [(r, 0) for h, r, t in facts if h == e] + [(r, 1) for h, r, t in facts if t == e]
            pairs[e] = frozenset(p for p in roles if signature == "all" or p[1] == side)
            assert found.degree[side, e] == sum(p[1] == side for p in roles)
        for a, mine in pairs.items():
            for b, theirs in pairs.items():
                assert (found.signature[side, a] == found.signature[side, b]) == (mine == theirs)


def test_validation_and_test_facts_change_nothing():
    stream = growing(3)
    only_train = Structure.from_facts(stream.prefix(1, [Split.TRAIN]), stream.entity_counts[1])
    assert np.array_equal(only_train.signature, Structure.through(stream, 1).signature)


def test_an_owner_without_members_has_number_zero():
    assert set_numbers(np.array([2, 2, 0]), np.array([5, 5, 5]), 4).tolist() == [1, 0, 1, 0]


def test_an_unknown_signature_is_refused():
    with pytest.raises(ConfigError, match="signature"):
        Structure.from_facts(np.zeros((0, 3), np.int64), 2, signature="both")  # type: ignore[arg-type]
