"""Snapshots and the stream they form: what is known, and when.

A vocabulary only grows and ids are the order of admission, so a universe of entities is a slice of ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from meor.typing import SPLITS, Facts, Split

LabelFact = tuple[str, str, str]


class Vocabulary:
    """label <-> id for one kind (entities or relations), with the snapshot that admitted each."""

    __slots__ = ("_admitted_at", "_id_of", "_labels")

    def __init__(self) -> None:
        self._labels: list[str] = []
        self._id_of: dict[str, int] = {}
        self._admitted_at: list[int] = []

    def admit(self, label: str, snapshot: int) -> int:
        """The id of a label; a label seen for the first time gets the next id."""
        known = self._id_of.get(label)
        if known is not None:
            return known
        new = len(self._labels)
        self._id_of[label] = new
        self._labels.append(label)
        self._admitted_at.append(snapshot)
        return new

    def id(self, label: str) -> int:
        return self._id_of[label]

    def label(self, id: int) -> str:
        return self._labels[id]

    @property
    def labels(self) -> Sequence[str]:
        return self._labels

    @property
    def admitted_at(self) -> Sequence[int]:
        return self._admitted_at

    def __len__(self) -> int:
        return len(self._labels)

    def __contains__(self, label: object) -> bool:
        return label in self._id_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The facts introduced at one moment, as ids."""

    train: Facts
    valid: Facts
    test: Facts

    def facts(self, splits: Iterable[Split | str] = SPLITS) -> Facts:
        parts = [getattr(self, split) for split in Split.each(splits)]
        return np.concatenate(parts) if parts else np.empty((0, 3), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.train) + len(self.valid) + len(self.test)


@dataclass(frozen=True, slots=True)
class Stream:
    """A growing graph. `entity_counts[u]` is |E_u|: E_u is `0..entity_counts[u]-1`."""

    name: str
    entities: Vocabulary
    relations: Vocabulary
    snapshots: tuple[Snapshot, ...]
    entity_counts: tuple[int, ...]
    relation_counts: tuple[int, ...]
    planted: tuple[LabelFact, ...] = field(default=())

    @property
    def updates(self) -> range:
        """The updates after the base: 1..T."""
        return range(1, len(self.snapshots))

    def newcomers(self, update: int) -> range:
        """The ids of the entities admitted at an update (all of them at snapshot 0)."""
        return range(self.entity_counts[update - 1] if update else 0, self.entity_counts[update])

    def growth(self, update: int) -> float:
        """How many entities an update brings, over those of snapshot 0; at most 1."""
        return min(1.0, len(self.newcomers(update)) / max(1, self.entity_counts[0]))

    def new_relations(self, update: int) -> range:
        return range(self.relation_counts[update - 1] if update else 0, self.relation_counts[update])

    def prefix(self, update: int, splits: Iterable[Split | str] = SPLITS) -> Facts:
        """Every fact of the given splits from snapshots 0..update, in admission order."""
        chosen = Split.each(splits)
        return np.concatenate([snapshot.facts(chosen) for snapshot in self.snapshots[: update + 1]])

    def content_hash(self, through: int | None = None) -> str:
        """sha256 of labels and facts up to a snapshot: equal prefixes of two streams hash equal."""
        last = len(self.snapshots) - 1 if through is None else through
        digest = hashlib.sha256()
        for vocabulary, count in (
            (self.entities, self.entity_counts[last]),
            (self.relations, self.relation_counts[last]),
        ):
            for label in vocabulary.labels[:count]:
                raw = label.encode()
                digest.update(len(raw).to_bytes(8, "little") + raw)
            digest.update(b"|")
        for snapshot in self.snapshots[: last + 1]:
            for split in SPLITS:
                facts = snapshot.facts([split])
                digest.update(len(facts).to_bytes(8, "little"))
                digest.update(np.ascontiguousarray(facts).tobytes())
        return digest.hexdigest()


def build_stream(
    name: str, snapshots: Sequence[dict[Split, Sequence[LabelFact]]], planted: Sequence[LabelFact] = ()
) -> Stream:
    """Number labels by first appearance: snapshots in order, train then valid then test, head before tail.

    Trusts its input: readers validate what comes from outside.
    """
    entities, relations = Vocabulary(), Vocabulary()
    built: list[Snapshot] = []
    entity_counts: list[int] = []
    relation_counts: list[int] = []
    for index, splits in enumerate(snapshots):
        arrays: dict[Split, Facts] = {}
        for split in SPLITS:
            ids = np.empty((len(splits.get(split, ())), 3), dtype=np.int64)
            for row, (head, relation, tail) in enumerate(splits.get(split, ())):
                ids[row, 0] = entities.admit(head, index)
                ids[row, 1] = relations.admit(relation, index)
                ids[row, 2] = entities.admit(tail, index)
            ids.flags.writeable = False
            arrays[split] = ids
        built.append(Snapshot(arrays[Split.TRAIN], arrays[Split.VALID], arrays[Split.TEST]))
        entity_counts.append(len(entities))
        relation_counts.append(len(relations))
    return Stream(
        name, entities, relations, tuple(built), tuple(entity_counts), tuple(relation_counts), tuple(planted)
    )
