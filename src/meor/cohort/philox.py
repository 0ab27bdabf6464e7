"""Philox4x32-10 for kernels: random numbers that are functions of an address, in any order.

`meor.random` names a draw; here the name has become a key and the rest of the address the counter, so
that a kernel may compute any occurrence on any thread and always get the same numbers.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from meor.compiled import kernel
from meor.random import Address, key

_MASK = np.uint64(0xFFFFFFFF)
_MULTIPLY_0, _MULTIPLY_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_HALF = np.uint64(32)


def key_words(*address: Address) -> tuple[np.uint64, np.uint64]:
    """The two 32-bit key words of an address."""
    first, _ = key(*address)
    return np.uint64(first & 0xFFFFFFFF), np.uint64(first >> 32)


@kernel
def block(c0, c1, c2, c3, k0, k1):
    """Four 32-bit words (held in uint64) for a counter of four and a key of two."""
    for _ in range(10):
        product_0 = _MULTIPLY_0 * c0
        product_1 = _MULTIPLY_1 * c2
        c0 = (product_1 >> _HALF) ^ c1 ^ k0
        c1 = product_1 & _MASK
        c2 = (product_0 >> _HALF) ^ c3 ^ k1
        c3 = product_0 & _MASK
        k0 = (k0 + _WEYL_0) & _MASK
        k1 = (k1 + _WEYL_1) & _MASK
    return c0, c1, c2, c3


@kernel
def below(high, low, bound):
    """A number in 0..bound-1 from 64 random bits; bias below bound / 2**64 (bound < 2**32)."""
    wide = np.uint64(bound)
    return np.int64((high * wide + ((low * wide) >> _HALF)) >> _HALF)


@kernel
def occurrence_key(head, relation, tail, side, k0, k1):
    """The key of one occurrence: its fact and side, never its place in a buffer or batch."""
    w0, w1, _, _ = block(
        np.uint64(head) & _MASK,
        np.uint64(relation) & _MASK,
        np.uint64(tail) & _MASK,
        np.uint64(side),
        k0,
        k1,
    )
    return w0, w1
