import numpy as np
import pytest

from meor.cohort.draw import below, block, key_words

# Known answers of Philox4x32-10 from the Random123 distribution.
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_blocks_equal_the_published_vectors(counter, key, expected):
    words = block(*(np.uint64(part) for part in (*counter, *key)))
    assert tuple(int(word) for word in words) == expected


def test_bounded_numbers_are_the_high_part_of_a_product():
    draw = np.random.default_rng(0)
    for high, low, bound in draw.integers(1, 2**32, (2000, 3)).tolist():
        expected = ((high << 32 | low) * bound) >> 64
        assert below(np.uint64(high), np.uint64(low), bound) == expected


def test_key_words_depend_on_every_part_of_the_address():
    seen = {tuple(map(int, key_words("references", run, update))) for run in range(5) for update in range(5)}
    assert len(seen) == 25
