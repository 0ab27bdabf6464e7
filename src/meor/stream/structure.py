"""What matching may look at: degree bins and relation-role signatures of the training prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from meor.errors import ConfigError
from meor.stream.snapshot import Stream
from meor.typing import RELATION_COLUMN, SIDES, Facts, Ids, Split

Signature = Literal["all", "role"]
"""`all`: every (relation, role) pair of an entity; `role`: only pairs in the predicted role."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Numbers of every entity in E_u, one row a Side; equal numbers mean equal structure."""

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
