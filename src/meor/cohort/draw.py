"""Random draws inside kernels: Philox4x32-10, and the kernel that draws matched old entities.

A random number is a function of its key and counter. `meor.random` makes the key from the name of a draw; the
counter is the rest of the address. So a kernel may handle occurrences in any order, on any thread, and always
gets the same numbers.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meor.compiled import kernel, kernel_part
from meor.random import Address, key
from meor.typing import Facts, Ids

N_LEVELS: Final = 3  # keys: (d, b, rho), (d, b), (d)

_MASK = np.uint64(0xFFFFFFFF)
_MULTIPLY_0, _MULTIPLY_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_HALF = np.uint64(32)


class Cells(NamedTuple):
    """Old entities of one side by cell, and the three cells each entity belongs to."""

    start: Ids  # [C + 1] into `member`
    member: NDArray[np.int32]  # old ids, sorted within a cell
    of_old: NDArray[np.int32]  # [3, n_old]
    of_new: NDArray[np.int32]  # [3, n_new]; -1 where no old entity has that key


class Drawn(NamedTuple):
    """The occurrences that are drawn for: facts, answers, and known answers `known[start:end]`."""

    fact: Facts
    answer: Ids
    known: Ids
    known_start: Ids
    known_end: Ids


def key_words(*address: Address) -> tuple[np.uint64, np.uint64]:
    """The two 32-bit words of the key that a name has."""
    first, _ = key(*address)
    return np.uint64(first & 0xFFFFFFFF), np.uint64(first >> 32)


@kernel_part
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


@kernel_part
def fill_words(draw, kind, k0, k1, words):
    """`words[:, i]`: the block with counter (i, draw, 0, kind). Independent blocks are made side by side."""
    for i in range(words.shape[1]):
        w0, w1, w2, w3 = block(np.uint64(i), draw, np.uint64(0), kind, k0, k1)
        words[0, i], words[1, i], words[2, i], words[3, i] = w0, w1, w2, w3


@kernel
def below(high, low, bound):
    """A number in 0..bound-1 from 64 random bits; bias below bound / 2**64 (bound < 2**32)."""
    wide = np.uint64(bound)
    return np.int64((high * wide + ((low * wide) >> _HALF)) >> _HALF)


@kernel_part
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


@kernel_part
def _remove(answer, known, begin, end, n_old, of_old, removed, size):
    """Take the answer and known answers out of the old entities; cells shrink with them (decision 32)."""
    for at in range(begin - 1, end):
        entity = answer if at < begin else known[at]
        if entity < n_old and not removed[entity]:
            removed[entity] = True
            for level in range(N_LEVELS):
                size[of_old[level, entity]] -= 1


@kernel_part
def _fill_pool(size, start, member, removed, pool):
    """The eligible members of each cell, by id, at the cell's place in the pool."""
    for at in range(len(member)):
        pool[at] = member[at]
    for c in range(len(size)):
        if size[c] < start[c + 1] - start[c]:  # few cells lose a member
            put = start[c]
            for at in range(start[c], start[c + 1]):
                pool[put] = member[at]
                put += not removed[member[at]]


@kernel_part
def _choose(of_new, size, first_level, level, cell):
    """The first key whose cell still has a member, for every newcomer in N_x."""
    for i in range(len(level)):
        if level[i] < 0:
            continue
        level[i] = -1
        for try_level in range(first_level, N_LEVELS):
            candidate = of_new[try_level, i]
            if candidate >= 0 and size[candidate] > 0:
                level[i] = try_level
                cell[i] = candidate
                break


@kernel_part
def _draw_one(level, cell, size, start, words, pool, taken, other, ids):
    """One draw: newcomers of a cell, by id, take the next entries of one permutation of it.

    The permutation is made as far as it is needed. An exhausted cell gives independent entries. At the end
    the same entries are exchanged again, last first: that costs less than to fill the pool for each draw.
    """
    for i in range(len(level)):
        if level[i] < 0:
            ids[i] = -1
            continue
        # A block of four words serves two neighbours.
        high, low = words[2 * (i & 1), i >> 1], words[2 * (i & 1) + 1, i >> 1]
        c = cell[i]
        if taken[c] < size[c]:
            mine = start[c] + taken[c]
            other[i] = mine + below(high, low, size[c] - taken[c])
            ids[i] = pool[other[i]]
            pool[other[i]] = pool[mine]
            pool[mine] = ids[i]
            taken[c] += 1
        else:
            other[i] = -1
            ids[i] = pool[start[c] + below(high, low, size[c])]
    for i in range(len(level) - 1, -1, -1):
        if level[i] >= 0 and other[i] >= 0:
            taken[cell[i]] -= 1
            mine = start[cell[i]] + taken[cell[i]]
            pool[mine], pool[other[i]] = pool[other[i]], pool[mine]


@kernel
def draw_cohorts(begin, end, rows, occurrence, cells, side, first_level, stream, ids, levels):
    """All draws of occurrences begin..end-1 of one side, each from end to end.

    `stream` is the kind of the draws and the two words of their key.
    """
    n_old, n_new = cells.of_old.shape[1], cells.of_new.shape[1]
    kind, k0, k1 = stream
    removed, size = np.empty(n_old, np.bool_), np.empty(len(cells.start) - 1, np.int64)
    cell = np.empty(n_new, np.int64)
    pool, taken = np.empty(len(cells.member), np.int32), np.zeros(len(size), np.int64)
    other = np.empty(n_new, np.int64)
    words = np.empty((4, (n_new + 1) // 2), np.uint64)
    for q in range(begin, end):
        known, first, last = occurrence.known, occurrence.known_start[q], occurrence.known_end[q]
        removed[:] = False
        level = levels[rows[q]]
        level[:] = 0
        for c in range(len(size)):
            size[c] = cells.start[c + 1] - cells.start[c]
        _remove(occurrence.answer[q], known, first, last, n_old, cells.of_old, removed, size)
        for at in range(first, last):
            if n_old <= known[at] < n_old + n_new:
                level[known[at] - n_old] = -1
        _choose(cells.of_new, size, first_level, level, cell)
        _fill_pool(size, cells.start, cells.member, removed, pool)
        fact = occurrence.fact[q]
        own0, own1 = occurrence_key(fact[0], fact[1], fact[2], side, k0, k1)
        for draw in range(ids.shape[1]):
            fill_words(np.uint64(draw), np.uint64(kind), own0, own1, words)
            _draw_one(level, cell, size, cells.start, words, pool, taken, other, ids[rows[q], draw])
