"""Score-blind matched references: nested keys, cells of old entities, J draws.

Cells of the three keys lie behind one another in one numbering: finest (bin and signature), then bin,
then the one cell of all old entities. Keys of different sides never meet, so each side has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from meor.cohort.draw import N_LEVELS, Cells, Drawn, draw_cohorts
from meor.cohort.newcomers import Cohort
from meor.cohort.philox import key_words
from meor.random import generator
from meor.stream.structure import Structure
from meor.threads import share
from meor.typing import SIDES, Ids, Side

Rule = Literal["matched", "role"]
"""`matched` walks the nested keys; `role` draws from the terminal cell only (UOR)."""

DRAWS = 4
"""J of the paper."""

TERMINAL = N_LEVELS - 1
_KIND = {"matched": 1, "role": 2}  # own address for UOR (decision 35)


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
            drawn = Drawn(
                cohort.fact[of], cohort.answer[of], cohort.known, cohort.known_start[of], cohort.known_end[of]
            )
            first_level = 0 if self.rule == "matched" else TERMINAL
            stream = (_KIND[self.rule], *words)
            share(
                draw_cohorts,
                len(of),
                rows,
                drawn,
                self.cells[side],
                int(side),
                first_level,
                stream,
                ids,
                level,
            )
        return Draws(ids, level)

    def draws_of(self, x: int) -> Ids:
        """[J, |N_x|] ids for one occurrence, aligned with `cohort.newcomers_of(x)`."""
        drawn = self.draw(np.array([x]))
        return np.asarray(drawn.id[0][:, drawn.level[0] >= 0], dtype=np.int64)

    def levels_of(self, x: int) -> NDArray[np.int8]:
        """[|N_x|] which key each newcomer of one occurrence was matched on."""
        level = self.draw(np.array([x])).level[0]
        return np.asarray(level[level >= 0], dtype=np.int8)

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
