"""Protected queries: the answers that an admission must not cost too much.

The first that is there: a golden file, held-out facts, a seeded sample of known facts. A golden file has
lines `head TAB relation TAB tail TAB answer`, one of head and tail being `?`; then, where wanted, the k of
the top k that the answer must not leave (0: none), and a weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from meor.errors import InputError
from meor.random import generator
from meor.store.answers import ASKED
from meor.stream.occurrence import Occurrences
from meor.stream.snapshot import Stream, Vocabulary
from meor.stream.source import shown, tab_rows
from meor.typing import SIDES, Facts, Floats, Ids, Role, Side, Split

Source = Literal["golden", "held-out", "sample"]
SHAPE = "head TAB relation TAB tail TAB answer [TAB keep-in-top [TAB weight]], one of head and tail being ?"


@dataclass(frozen=True, slots=True)
class Asked:
    """The protected queries of one side."""

    side: Side
    fact: Facts  # [Q, 3] with the answer in its place
    keep: Ids  # [Q] the k of the top k it must not leave; 0: none
    weight: Floats  # [Q] over both sides they sum to 1
    cluster: Ids  # [Q] queries of one fact vary together

    def occurrences(self, update: int) -> Occurrences:
        size = len(self.fact)
        return Occurrences(
            update, self.side, self.fact, np.zeros(size, np.int64), np.full(size, Role.HISTORICAL, np.int8)
        )

    @property
    def answer(self) -> Ids:
        return self.fact[:, self.side.answer_column]


@dataclass(frozen=True, slots=True)
class Protected:
    source: Source
    sides: tuple[Asked, ...]

    def __len__(self) -> int:
        return sum(len(each.fact) for each in self.sides)

    @property
    def estimated(self) -> bool:
        """A golden file is all that counts; facts stand for more than themselves."""
        return self.source != "golden"


def protected(stream: Stream, sample: int, golden: Path | None = None) -> Protected:
    """The protected queries of a store whose graph is `stream`, before the batch."""
    if golden is not None:
        return read_golden(golden, stream)
    last = len(stream.snapshots) - 1
    for split in (Split.TEST, Split.VALID):
        held = stream.prefix(last, [split])
        if len(held):
            return Protected("held-out", both_sides(_drawn(held, sample, stream.name)))
    return Protected("sample", both_sides(_drawn(stream.prefix(last), sample, stream.name)))


def _drawn(facts: Facts, sample: int, name: str) -> Facts:
    if len(facts) <= sample:
        return facts
    order = generator("protected", name, len(facts)).permutation(len(facts))
    return facts[np.sort(order[:sample])]


def both_sides(facts: Facts) -> tuple[Asked, ...]:
    size = len(facts)
    weight = np.full(size, 1 / max(2 * size, 1))
    return tuple(Asked(side, facts, np.zeros(size, np.int64), weight, np.arange(size)) for side in SIDES)


def read_golden(path: Path, stream: Stream) -> Protected:
    """A line that names what the store does not know is an error: nothing of it could be kept."""
    rows = list(_golden_rows(path, stream))
    if not rows:
        raise InputError("no query", remedy=f"Write {SHAPE}", path=path)
    total = sum(weight for *_, weight in rows)
    sides = []
    for side in SIDES:
        own = [(at, row) for at, row in enumerate(rows) if row[0] is side]
        sides.append(
            Asked(
                side,
                np.array([row[1] for _, row in own], np.int64).reshape(-1, 3),
                np.array([row[2] for _, row in own], np.int64),
                np.array([row[3] / total for _, row in own]),
                np.array([at for at, _ in own], np.int64),
            )
        )
    return Protected("golden", tuple(sides))


def _golden_rows(path: Path, stream: Stream) -> Iterator[tuple[Side, tuple[int, int, int], int, float]]:
    for number, cells in tab_rows(path):
        if number == 1 and [cell.strip().lower() for cell in cells[:2]] == ["head", "relation"]:
            continue
        if not 4 <= len(cells) <= 6 or (cells[0] == ASKED) == (cells[2] == ASKED):
            raise InputError("not a query with its answer", remedy=f"Write {SHAPE}", path=path, line=number)
        side = Side.HEAD if cells[0] == ASKED else Side.TAIL
        ends = (cells[3], cells[2]) if side is Side.HEAD else (cells[0], cells[3])
        head, tail = (_id(stream.entities, end, "entity", path, number) for end in ends)
        relation = _id(stream.relations, cells[1], "relation", path, number)
        keep = _number(cells[4], path, number) if len(cells) > 4 else 0.0
        weight = _number(cells[5], path, number) if len(cells) > 5 else 1.0
        if keep != int(keep) or weight <= 0:
            problem = "keep-in-top is a whole number, and a weight is above 0"
            raise InputError(problem, remedy=f"Write {SHAPE}", path=path, line=number)
        yield side, (head, relation, tail), int(keep), weight


def _id(known: Vocabulary, label: str, kind: str, path: Path, number: int) -> int:
    if label not in known:
        raise InputError(
            f"the store has no {kind} {shown(label)}",
            remedy="A protected query names what the store knows",
            path=path,
            line=number,
        )
    return known.id(label)


def _number(cell: str, path: Path, number: int) -> float:
    text = cell.strip()
    try:
        value = float(text) if text else 0.0
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise InputError(
            f"{shown(cell)} is no number from 0 on", remedy=f"Write {SHAPE}", path=path, line=number
        )
    return value
