"""Score-blind matched references: structure of entities, cells of old entities, J draws.

Matching looks at degree bins and relation-role signatures of the training prefix. Cells of the three nested
keys are numbered one after another: first those of bin and signature, then those of the bin, then the one
cell of all old entities. Keys of different sides never mix, so each side has its own cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from meor.cohort.draw import N_LEVELS, Cells, Drawn, draw_cohorts, key_words
from meor.cohort.newcomers import Cohort
from meor.compiled import share
from meor.errors import ConfigError
from meor.random import generator
from meor.stream.snapshot import Stream
from meor.typing import RELATION_COLUMN, SIDES, Facts, Ids, Side, Split

Rule = Literal["matched", "role"]
"""`matched` walks the nested keys; `role` draws from the terminal cell only (UOR)."""

Signature = Literal["all", "role"]
"""`all`: every (relation, role) pair of an entity; `role`: only pairs in the predicted role."""

DRAWS = 4
"""J of the paper."""

TERMINAL = N_LEVELS - 1
_KIND = {"matched": 1, "role": 2}  # UOR has random draws of its own (decision 35)


@dataclass(frozen=True, slots=True)
class Structure:
    """Numbers of every entity in E_u, one row per side; equal numbers mean equal structure."""

    update: int
    degree: NDArray[np.int64]  # [2, E] facts in which the entity plays that role
    degree_bin: NDArray[np.int64]  # [2, E] 0 for degree 0, else 1 + floor(log2(degree))
    signature: NDArray[np.int64]  # [2, E] 0 for the empty set

    @property
    def n_entities(self) -> int:
        return int(self.degree.shape[1])

    @classmethod
    def through(cls, stream: Stream, update: int, signature: Signature = "all") -> Structure:
        """b_u(e, d) and rho_u(e, d) from training facts of snapshots 0..update (decision 31)."""
        return cls.from_facts(
            stream.prefix(update, [Split.TRAIN]), stream.entity_counts[update], update, signature
        )

    @classmethod
    def from_facts(
        cls, facts: Facts, n_entities: int, update: int = 0, signature: Signature = "all"
    ) -> Structure:
        if signature not in get_args(Signature):
            raise ConfigError(f"unknown signature {signature!r}", remedy="Use 'all' or 'role'")
        degree = np.stack([np.bincount(facts[:, side.answer_column], minlength=n_entities) for side in SIDES])
        entity = np.concatenate([facts[:, side.answer_column] for side in SIDES])
        pair = np.concatenate([facts[:, RELATION_COLUMN] * 2 + int(side) for side in SIDES])
        if signature == "all":
            both = set_numbers(entity, pair, n_entities)
            numbers = np.stack([both, both])
        else:
            role = [pair % 2 == int(side) for side in SIDES]
            numbers = np.stack([set_numbers(entity[of], pair[of], n_entities) for of in role])
        return cls(update, degree.astype(np.int64), degree_bins(degree), numbers)


def degree_bins(degree: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 for degree 0, else 1 + floor(log2(degree)); exact, since frexp reads the exponent."""
    return np.frexp(degree.astype(np.float64))[1].astype(np.int64)


def set_numbers(owner: Ids, member: Ids, n_owners: int) -> Ids:
    """A number for the set of members of each owner: equal numbers iff equal sets, 0 for the empty set."""
    n_members = int(member.max()) + 1 if len(member) else 1
    distinct = np.unique(owner * n_members + member)
    owner, member = np.divmod(distinct, n_members)
    size = np.bincount(owner, minlength=n_owners)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    numbers = np.zeros(n_owners, dtype=np.int64)
    used = 1
    for count in np.unique(size[size > 0]):  # sets of one size form a matrix whose rows can be compared
        owners = np.flatnonzero(size == count)
        rows = member[start[owners, None] + np.arange(count)]
        kinds, number = np.unique(rows, axis=0, return_inverse=True)
        numbers[owners] = used + number.reshape(-1)
        used += len(kinds)
    return numbers


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
    """The J matched cohorts of every occurrence; drawn on demand, since the key of a draw is all it needs."""

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
        first_level = 0 if self.rule == "matched" else TERMINAL
        stream = (_KIND[self.rule], *key_words("references", cohort.run, cohort.update))
        for side in SIDES:
            rows = np.flatnonzero(cohort.side[index] == side)
            of = index[rows]
            drawn = Drawn(
                cohort.fact[of], cohort.answer[of], cohort.known, cohort.known_start[of], cohort.known_end[of]
            )
            of_side = drawn, self.cells[side], int(side)
            share(draw_cohorts, len(of), rows, *of_side, first_level, stream, ids, level)
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
    """[X] whose references an occurrence borrows (decision 35): one permutation per side, no fixed point.

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
