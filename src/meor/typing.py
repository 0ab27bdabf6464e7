"""The words and array shapes every layer shares.

Shape letters, used as suffixes of names: Q queries, E entities, N newcomers, J draws,
W columns of an embedding row, K scale sample, F facts, B facts of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

from meor.errors import ConfigError

Ids = NDArray[np.int64]
"""A vector of entity or relation ids; ids are admission order, so E_u is `0..n_u-1`."""

Facts = NDArray[np.int64]
"""[F, 3]: head, relation, tail."""

Floats = NDArray[np.float64]

HEAD_COLUMN, RELATION_COLUMN, TAIL_COLUMN = 0, 1, 2


class Side(IntEnum):
    """Which endpoint is missing: the paper's prediction mode d."""

    HEAD = 0
    TAIL = 1

    @classmethod
    def of(cls, side: Side | str) -> Side:
        """A side, or the side of a name."""
        if isinstance(side, str) and side.upper() in cls.__members__:
            return cls[side.upper()]
        if side in SIDES:
            return cls(side)
        raise ConfigError(f"there is no side {side!r}", remedy="Use head or tail")

    @classmethod
    def each(cls, sides: Iterable[Side | str] | Side | str) -> tuple[Side, ...]:
        """Several sides; a single one may be given as it is."""
        return tuple(map(cls.of, [sides] if isinstance(sides, Side | str) else sides))

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def answer_column(self) -> int:
        return HEAD_COLUMN if self is Side.HEAD else TAIL_COLUMN

    @property
    def anchor_column(self) -> int:
        """The column of the known endpoint."""
        return TAIL_COLUMN if self is Side.HEAD else HEAD_COLUMN


SIDES = (Side.HEAD, Side.TAIL)


class Split(StrEnum):
    """The part of a snapshot that a fact belongs to."""

    TRAIN = "train"
    VALID = "valid"
    TEST = "test"

    @classmethod
    def of(cls, split: Split | str) -> Split:
        """A split, or the split of a name."""
        try:
            return cls(split)
        except ValueError:
            raise ConfigError(f"there is no split {split!r}", remedy="Use train, valid or test") from None

    @classmethod
    def each(cls, splits: Iterable[Split | str] | str) -> tuple[Split, ...]:
        """Several splits; a single one may be given as it is."""
        return tuple(map(cls.of, [splits] if isinstance(splits, str) else splits))


SPLITS = (Split.TRAIN, Split.VALID, Split.TEST)


class Role(IntEnum):
    """What an evaluated query is about at an update (paper, Query Roles)."""

    HISTORICAL = 0
    TARGET_NEWCOMER = 1
    QUERY_NEWCOMER = 2
    SETTLED = 3  # a new fact between old entities; reported apart

    @property
    def label(self) -> str:
        return self.name.lower()
