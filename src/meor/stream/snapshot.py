"""Snapshots and the stream they form: what is known, and when."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from meor.stream.vocabulary import Vocabulary
from meor.typing import SPLITS, Facts, Split

LabelFact = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The facts introduced at one moment, as ids."""

    train: Facts
    valid: Facts
    test: Facts

    def facts(self, splits: Iterable[Split] = SPLITS) -> Facts:
        parts = [getattr(self, split.value) for split in splits]
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

    def new_relations(self, update: int) -> range:
        return range(self.relation_counts[update - 1] if update else 0, self.relation_counts[update])

    def prefix(self, update: int, splits: Iterable[Split] = SPLITS) -> Facts:
        """Every fact of the given splits from snapshots 0..update, in admission order."""
        chosen = tuple(splits)
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
