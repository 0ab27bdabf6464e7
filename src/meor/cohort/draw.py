"""The kernel behind `References`: first cell with a member left, then entries of one permutation of it."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Final

import numpy as np

from meor.cohort.philox import below, block, occurrence_key
from meor.compiled import njit, prange

N_LEVELS: Final = 3  # keys: (d, b, rho), (d, b), (d)


@njit(cache=True)
def _remove(answer, known, begin, end, n_old, of_old, removed, size):
    """Take the answer and known answers out of the old entities; cells shrink with them (decision 32)."""
    for at in range(begin - 1, end):
        entity = answer if at < begin else known[at]
        if entity < n_old and not removed[entity]:
            removed[entity] = True
            for level in range(N_LEVELS):
                size[of_old[level, entity]] -= 1


@njit(cache=True)
def _refill(cell, start, member, removed, pool):
    """The eligible members of a cell, by id, at the cell's place in the pool."""
    put = start[cell]
    for at in range(start[cell], start[cell + 1]):
        if not removed[member[at]]:
            pool[put] = member[at]
            put += 1


@njit(cache=True)
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


@njit(cache=True)
def _draw_one(level, cell, start, member, removed, size, draw, kind, own0, own1, pool, taken, ids):
    """One draw: newcomers of a cell, by id, take the next entries of one permutation of it.

    The permutation is made as far as it is needed. An exhausted cell gives independent entries.
    """
    taken[:] = -1
    have = -1  # a block of four words serves two neighbours
    w0 = w1 = w2 = w3 = np.uint64(0)
    for i in range(len(level)):
        if level[i] < 0:
            ids[i] = -1
            continue
        if have != i >> 1:
            have = i >> 1
            w0, w1, w2, w3 = block(
                np.uint64(have), np.uint64(draw), np.uint64(0), np.uint64(kind), own0, own1
            )
        high, low = (w0, w1) if i & 1 == 0 else (w2, w3)
        c = cell[i]
        if taken[c] < 0:
            _refill(c, start, member, removed, pool)
            taken[c] = 0
        at = start[c]
        if taken[c] < size[c]:
            mine = at + taken[c]
            other = mine + below(high, low, size[c] - taken[c])
            ids[i] = pool[other]
            pool[other] = pool[mine]
            pool[mine] = ids[i]
            taken[c] += 1
        else:
            ids[i] = pool[at + below(high, low, size[c])]


@njit(cache=True, parallel=True)
def draw_cohorts(
    rows,
    fact,
    side,
    answer,
    known,
    known_start,
    known_end,
    start,
    member,
    of_old,
    of_new,
    first_level,
    kind,
    k0,
    k1,
    ids,
    levels,
):
    """All draws of some occurrences of one side; an occurrence is one thread's work from end to end."""
    n_old, n_new = of_old.shape[1], of_new.shape[1]
    for q in prange(len(rows)):
        removed = np.zeros(n_old, np.bool_)
        size = start[1:] - start[:-1]
        _remove(answer[q], known, known_start[q], known_end[q], n_old, of_old, removed, size)
        level = np.zeros(n_new, np.int8)
        for at in range(known_start[q], known_end[q]):
            if n_old <= known[at] < n_old + n_new:
                level[known[at] - n_old] = -1
        cell = np.empty(n_new, np.int64)
        _choose(of_new, size, first_level, level, cell)
        levels[rows[q]] = level
        own0, own1 = occurrence_key(fact[q, 0], fact[q, 1], fact[q, 2], side, k0, k1)
        pool = np.empty(len(member), np.int32)
        taken = np.empty(len(size), np.int64)
        for draw in range(ids.shape[1]):
            _draw_one(
                level,
                cell,
                start,
                member,
                removed,
                size,
                draw,
                kind,
                own0,
                own1,
                pool,
                taken,
                ids[rows[q], draw],
            )
