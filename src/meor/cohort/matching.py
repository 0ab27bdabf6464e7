"""Score-blind matched references: nested keys, cells of old entities, J draws.

Cells of the three keys lie behind one another in one numbering: finest (bin and signature), then bin,
then the one cell of all old entities. Keys of different sides never meet, so each side has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numba as nb
import numpy as np
from numpy.typing import NDArray

from meor.cohort.newcomers import Cohort
from meor.cohort.philox import below, block, key_words, occurrence_key
from meor.random import generator
from meor.stream.structure import Structure
from meor.typing import SIDES, Ids, Side

Rule = Literal["matched", "role"]
"""`matched` walks the nested keys; `role` draws from the terminal cell only (UOR)."""

DRAWS = 4
"""J of the paper."""

N_LEVELS = 3
TERMINAL = N_LEVELS - 1
_KIND = {"matched": 1, "role": 2}  # own address for UOR (decision 35)


@dataclass(frozen=True, slots=True)
class Cells:
    """Old entities of one side by cell, and the three cells each entity belongs to."""

    start: Ids  # [C + 1] into `member`
    member: NDArray[np.int32]  # old ids, sorted within a cell
    of_old: NDArray[np.int32]  # [3, n_old]
    of_new: NDArray[np.int32]  # [3, n_new]; -1 where no old entity has that key


def build_cells(structure: Structure, side: Side, n_old: int, n_cur: int) -> Cells:
    """The nested keys (d, b, rho), (d, b), (d) as cells; each coarser key merges cells of the finer."""
    degree_bin = structure.degree_bin[side, :n_cur]
    pair = np.stack([degree_bin, structure.signature[side, :n_cur]], axis=1)
    _, fine = np.unique(pair, axis=0, return_inverse=True)
    keys = (fine.reshape(-1), degree_bin, np.zeros(n_cur, dtype=np.int64))
    starts, members, of_old, of_new = [], [], [], []
    n_cells = 0
    for key in keys:
        kinds, cell = np.unique(key[:n_old], return_inverse=True)
        order = np.argsort(cell, kind="stable")
        starts.append(np.bincount(cell, minlength=len(kinds)))
        members.append(order)
        of_old.append(n_cells + cell)
        at = np.minimum(np.searchsorted(kinds, key[n_old:]), max(len(kinds) - 1, 0))
        found = kinds[at] == key[n_old:] if len(kinds) else np.zeros(n_cur - n_old, dtype=bool)
        of_new.append(np.where(found, n_cells + at, -1))
        n_cells += len(kinds)
    return Cells(
        start=np.concatenate([[0], np.cumsum(np.concatenate(starts))]).astype(np.int64),
        member=np.concatenate(members).astype(np.int32),
        of_old=np.stack(of_old).astype(np.int32),
        of_new=np.stack(of_new).astype(np.int32),
    )


@dataclass(frozen=True, slots=True)
class Draws:
    """Matched old ids of some occurrences, aligned with the newcomers; -1 where one is not in N_x."""

    id: NDArray[np.int32]  # [Q, J, n_new]
    level: NDArray[np.int8]  # [Q, n_new] 0 finest, 1, 2; -1 where not in N_x


@dataclass(frozen=True, slots=True)
class References:
    """The J matched cohorts of every occurrence; made on demand, since an address is all they need."""

    cohort: Cohort
    cells: tuple[Cells, Cells]
    draws: int = DRAWS
    rule: Rule = "matched"

    def draw(self, index: Ids) -> Draws:
        """O_x^(j) of the given occurrences (decisions 31 to 33)."""
        index = np.asarray(index, dtype=np.int64)
        cohort = self.cohort
        ids = np.empty((len(index), self.draws, cohort.n_new), dtype=np.int32)
        level = np.empty((len(index), cohort.n_new), dtype=np.int8)
        words = key_words("references", cohort.run, cohort.update)
        for side in SIDES:
            rows = np.flatnonzero(cohort.side[index] == side)
            of = index[rows]
            _draw(
                rows,
                cohort.fact[of],
                int(side),
                cohort.answer[of],
                cohort.known,
                cohort.known_start[of],
                cohort.known_end[of],
                self.cells[side].start,
                self.cells[side].member,
                self.cells[side].of_old,
                self.cells[side].of_new,
                0 if self.rule == "matched" else TERMINAL,
                _KIND[self.rule],
                *words,
                ids,
                level,
            )
        return Draws(ids, level)

    def draws_of(self, x: int) -> Ids:
        """[J, |N_x|] ids for one occurrence, aligned with `cohort.newcomers_of(x)`."""
        drawn = self.draw(np.array([x]))
        return drawn.id[0][:, drawn.level[0] >= 0].astype(np.int64)

    def levels_of(self, x: int) -> NDArray[np.int8]:
        """[|N_x|] which key each newcomer of one occurrence was matched on."""
        level = self.draw(np.array([x])).level[0]
        return level[level >= 0]

    def blocks(self, index: Ids, memory: int) -> Iterator[tuple[Ids, Draws]]:
        """The draws of many occurrences, a few at a time, under a byte budget."""
        each = max(self.cohort.n_new, 1) * (4 * self.draws + 1)
        size = max(1, memory // each)
        for begin in range(0, len(index), size):
            yield index[begin : begin + size], self.draw(index[begin : begin + size])


def build_references(
    cohort: Cohort, structure: Structure, *, draws: int = DRAWS, rule: Rule = "matched"
) -> References:
    cells = tuple(build_cells(structure, side, cohort.n_old, cohort.n_cur) for side in SIDES)
    return References(cohort, (cells[0], cells[1]), draws, rule)


def shuffled_partners(cohort: Cohort) -> Ids:
    """[X] whose references an occurrence borrows (decision 35): one permutation a side, no fixed point.

    It runs over the eligible occurrences in order of their facts, so that it does not depend on the
    order of the buffer. An occurrence that is alone on its side keeps its own.
    """
    partner = np.arange(len(cohort))
    for side in SIDES:
        own = np.flatnonzero((cohort.side == side) & cohort.eligible)
        own = own[np.lexsort(cohort.fact[own].T[::-1])]
        if len(own) < 2:
            continue
        draw = generator("shuffled", cohort.run, cohort.update, int(side))
        moved = draw.permutation(len(own))
        while (moved == np.arange(len(own))).any():
            moved = draw.permutation(len(own))
        partner[own] = own[moved]
    return partner


@nb.njit(cache=True)
def _remove(answer, known, begin, end, n_old, of_old, removed, size):  # type: ignore[no-untyped-def]
    """Take the answer and known answers out of the old entities; cells shrink with them (decision 32)."""
    for at in range(begin - 1, end):
        entity = answer if at < begin else known[at]
        if entity < n_old and not removed[entity]:
            removed[entity] = True
            for level in range(N_LEVELS):
                size[of_old[level, entity]] -= 1


@nb.njit(cache=True)
def _refill(cell, start, member, removed, pool):  # type: ignore[no-untyped-def]
    """The eligible members of a cell, by id, at the cell's place in the pool."""
    put = start[cell]
    for at in range(start[cell], start[cell + 1]):
        if not removed[member[at]]:
            pool[put] = member[at]
            put += 1


@nb.njit(cache=True)
def _choose(of_new, size, first_level, level, cell):  # type: ignore[no-untyped-def]
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


@nb.njit(cache=True)
def _draw_one(level, cell, start, member, removed, size, draw, kind, own0, own1, pool, taken, ids):  # type: ignore[no-untyped-def]
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
            w0, w1, w2, w3 = block(np.uint64(have), np.uint64(draw), np.uint64(0), np.uint64(kind), own0, own1)
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


@nb.njit(cache=True, parallel=True)
def _draw(  # type: ignore[no-untyped-def]
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
    for q in nb.prange(len(rows)):
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
                level, cell, start, member, removed, size, draw, kind, own0, own1, pool, taken, ids[rows[q], draw]
            )
