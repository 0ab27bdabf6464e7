import numpy as np
import pytest
from tests.growth import growing

from meor.errors import ConfigError
from meor.stream.structure import Structure, degree_bins, set_numbers
from meor.typing import SIDES, Split


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
