"""The graph of a version: its stream as two tables, and the same stream with one more snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from meor.errors import StoreError
from meor.storage.parquet import column, read_columns, table_bytes, table_of
from meor.stream.snapshot import LabelFact, Snapshot, Stream, Vocabulary
from meor.typing import SPLITS, Facts, Ids, Split

COLUMNS = ("snapshot", "split", "head", "relation", "tail")
Batch = Mapping[Split, Sequence[LabelFact]]
"""Facts by split, in labels."""


def facts_bytes(stream: Stream) -> bytes:
    """Every known fact as ids, in order of admission."""
    parts = [
        (at, split, snapshot.facts([split]))
        for at, snapshot in enumerate(stream.snapshots)
        for split in SPLITS
    ]
    fact = np.concatenate([part for _, _, part in parts])
    sizes = [len(part) for _, _, part in parts]
    table = {
        "snapshot": column(np.repeat([at for at, _, _ in parts], sizes).astype(np.int64)),
        "split": column([split.value for _, split, part in parts for _ in range(len(part))]),
        **{name: column(np.ascontiguousarray(fact[:, at])) for at, name in enumerate(COLUMNS[2:])},
    }
    return table_bytes(table_of(table))


def read_graph(
    name: str, snapshots: int, vocabulary: tuple[bytes, Path], facts: tuple[bytes, Path]
) -> Stream:
    """The stream that `vocabulary_bytes` and `facts_bytes` wrote."""
    remedy = "Put it back as it was."
    labels = read_columns(*vocabulary, ["id", "label", "kind", "admitted_at"], remedy)
    entities, entity_counts = _vocabulary(labels, "entity", snapshots)
    relations, relation_counts = _vocabulary(labels, "relation", snapshots)
    table = read_columns(*facts, COLUMNS, remedy)
    at, split = numbers(table, "snapshot"), np.array(table["split"].to_pylist())
    fact = np.column_stack([numbers(table, each) for each in COLUMNS[2:]])
    fact.flags.writeable = False
    found = tuple(
        Snapshot(*(fact[(at == index) & (split == each.value)] for each in SPLITS))
        for index in range(snapshots)
    )
    if sum(map(len, found)) != len(fact):
        raise StoreError(f"{facts[1]} holds facts of unknown snapshots: it is damaged. {remedy}")
    return Stream(name, entities, relations, found, entity_counts, relation_counts)


def _vocabulary(table: pa.Table, kind: str, snapshots: int) -> tuple[Vocabulary, tuple[int, ...]]:
    found = Vocabulary()
    rows = zip(*(table[name].to_pylist() for name in ("label", "kind", "admitted_at")), strict=True)
    for label, of, admitted_at in rows:
        if of == kind:
            found.admit(label, admitted_at)
    admitted = np.asarray(found.admitted_at, np.int64)
    counts = np.searchsorted(admitted, np.arange(snapshots), side="right")
    return found, tuple(int(count) for count in counts)


def numbers(table: pa.Table, name: str) -> Ids:
    return np.asarray(table[name].to_numpy(zero_copy_only=False), dtype=np.int64)


def through(stream: Stream, update: int) -> Stream:
    """The stream as it was after an update."""
    last = update + 1
    return Stream(
        stream.name,
        _first(stream.entities, stream.entity_counts[update]),
        _first(stream.relations, stream.relation_counts[update]),
        stream.snapshots[:last],
        stream.entity_counts[:last],
        stream.relation_counts[:last],
    )


def extended(stream: Stream, batch: Batch) -> Stream:
    """The stream with one more snapshot. Labels are numbered as a stream's reader numbers them."""
    entities, relations = _first(stream.entities, None), _first(stream.relations, None)
    at = len(stream.snapshots)
    arrays: dict[Split, Facts] = {}
    for split in SPLITS:
        rows = [
            (entities.admit(head, at), relations.admit(of, at), entities.admit(tail, at))
            for head, of, tail in batch.get(split, ())
        ]
        arrays[split] = np.array(rows, dtype=np.int64).reshape(-1, 3)
        arrays[split].flags.writeable = False
    return Stream(
        stream.name,
        entities,
        relations,
        (*stream.snapshots, Snapshot(*(arrays[split] for split in SPLITS))),
        (*stream.entity_counts, len(entities)),
        (*stream.relation_counts, len(relations)),
    )


def _first(known: Vocabulary, count: int | None) -> Vocabulary:
    found = Vocabulary()
    for label, admitted_at in zip(known.labels[:count], known.admitted_at[:count], strict=True):
        found.admit(label, admitted_at)
    return found


def waiting_bytes(batch: Batch) -> bytes:
    """Facts that wait, in labels: their newcomers have no id yet."""
    rows = [(*fact, split.value) for split in SPLITS for fact in batch.get(split, ())]
    names = ("head", "relation", "tail", "split")
    return table_bytes(table_of({name: column([row[at] for row in rows]) for at, name in enumerate(names)}))


def read_waiting(data: bytes, path: Path) -> dict[Split, list[LabelFact]]:
    table = read_columns(data, path, ["head", "relation", "tail", "split"], "Put it back as it was.")
    found: dict[Split, list[LabelFact]] = {split: [] for split in SPLITS}
    rows = zip(*(table[name].to_pylist() for name in ("head", "relation", "tail", "split")), strict=True)
    for head, relation, tail, split in rows:
        found[Split.of(split)].append((head, relation, tail))
    return found
