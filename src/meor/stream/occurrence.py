"""Query occurrences of an update: a fact, the side that is asked for, and its role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meor.stream.sample import ALL, facts_to_rank
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Facts, Ids, Role, Side, Split


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Queries x = (q, a, u, d) of one update and one side."""

    update: int
    side: Side
    fact: Facts  # [Q, 3]
    snapshot: Ids  # [Q] the snapshot that introduced the fact
    role: NDArray[np.int8]  # [Q] a Role

    @property
    def anchor(self) -> Ids:
        return self.fact[:, self.side.anchor_column]

    @property
    def relation(self) -> Ids:
        return self.fact[:, 1]

    @property
    def answer(self) -> Ids:
        return self.fact[:, self.side.answer_column]

    def __len__(self) -> int:
        return len(self.fact)

    def select(self, chosen: NDArray[np.bool_] | Ids) -> Occurrences:
        return Occurrences(
            self.update, self.side, self.fact[chosen], self.snapshot[chosen], self.role[chosen]
        )


def occurrences(
    stream: Stream, update: int, side: Side, split: Split = Split.TEST, *, sample: int = ALL
) -> Occurrences:
    """Every query of a split, or of a sample of its facts, that the model after `update` must answer.

    Oldest snapshot first. At the base there is no old universe: every answer counts as admitted now.
    """
    parts = [facts_to_rank(stream, index, split, sample) for index in range(update + 1)]
    fact = np.concatenate(parts)
    snapshot = np.repeat(np.arange(update + 1), [len(part) for part in parts])
    n_old = stream.entity_counts[update - 1] if update else 0
    answer, anchor = fact[:, side.answer_column], fact[:, side.anchor_column]
    role = np.select(
        [snapshot < update, answer >= n_old, anchor >= n_old],
        [Role.HISTORICAL, Role.TARGET_NEWCOMER, Role.QUERY_NEWCOMER],
        default=Role.SETTLED,
    ).astype(np.int8)
    return Occurrences(update, side, fact, snapshot, role)


def both_sides(
    stream: Stream, update: int, split: Split = Split.TEST, sides: Sequence[Side] = SIDES
) -> tuple[Occurrences, ...]:
    return tuple(occurrences(stream, update, side, split) for side in sides)
