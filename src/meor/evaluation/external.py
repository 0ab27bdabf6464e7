"""Embeddings made elsewhere: two arrays and a file that says whose row is whose.

The vocabulary file has lines `entity|relation TAB row TAB label`. Arrays are `.npy` or `.safetensors`, real
or complex; a real ComplEx array holds the real half of each row, then the imaginary half. Nothing is
unpickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from meor.backbone import BACKBONES, Model
from meor.errors import InputError, ModelError
from meor.evaluation.array_file import read_array
from meor.evaluation.label_file import read_rows
from meor.stream.snapshot import Stream
from meor.stream.vocabulary import Vocabulary
from meor.typing import Floats, Ids

KINDS = ("entity", "relation")


@dataclass(frozen=True, slots=True)
class _Table:
    """One array and where it came from, for the messages."""

    kind: str
    path: Path
    rows: Floats


def load_external(
    stream: Stream,
    backbone: str,
    entity: Path,
    relation: Path | None = None,
    vocabulary: Path | None = None,
    *,
    through: int,
) -> Model:
    """A model in the stream's ids, float64, with a row for all that was admitted through an update.

    Rows of entities and relations that the stream admits later may be given; they are left out. Without
    `relation` both tables come from `entity`, a safetensors file. Without `vocabulary` rows are in id order.
    """
    if backbone not in BACKBONES:
        raise ModelError(f"unknown backbone {backbone!r}", remedy=f"Use one of {', '.join(BACKBONES)}")
    tables = [
        _Table(kind, path, _real_rows(read_array(path, kind), backbone, kind, path))
        for kind, path in zip(KINDS, (entity, relation or entity), strict=True)
    ]
    _require_equal_width(*tables)
    needed = {"entity": stream.entity_counts[through], "relation": stream.relation_counts[through]}
    labels = {"entity": stream.entities, "relation": stream.relations}
    row_of = None if vocabulary is None else _read_vocabulary(vocabulary, stream)
    ordered = []
    for table in tables:
        known = labels[table.kind]
        if vocabulary is None or row_of is None:
            order = _in_id_order(table, needed[table.kind], known)
        else:
            order = _in_named_order(table, row_of[table.kind], needed[table.kind], known, vocabulary)
        ordered.append(_finite(table, order, known))
    return Model(BACKBONES[backbone], *ordered)


def _real_rows(array: NDArray[Any], backbone: str, kind: str, path: Path) -> Floats:
    """[n, W] float64; a complex array becomes its real half, then its imaginary half."""
    if array.ndim != 2 or 0 in array.shape:
        raise ModelError(
            f"the {kind} array has shape {array.shape}", remedy="Give one row of numbers a label", path=path
        )
    if array.dtype.kind == "c":
        if backbone != "complex":
            raise ModelError(
                f"complex numbers, but {backbone} takes real ones",
                remedy="Use --backbone complex or give a real array",
                path=path,
            )
        return np.concatenate([array.real, array.imag], axis=1).astype(np.float64)
    if array.dtype.kind != "f":
        raise ModelError(
            f"the {kind} array holds {array.dtype} values",
            remedy="Give floating-point or complex numbers",
            path=path,
        )
    if backbone == "complex" and array.shape[1] % 2:
        raise ModelError(
            f"rows are {array.shape[1]} wide, an odd number",
            remedy="A real ComplEx row holds the real half, then the imaginary half",
            path=path,
        )
    return np.ascontiguousarray(array, dtype=np.float64)


def _require_equal_width(entity: _Table, relation: _Table) -> None:
    if entity.rows.shape[1] != relation.rows.shape[1]:
        raise ModelError(
            f"relation rows are {relation.rows.shape[1]} wide, entity rows ({entity.path}) "
            f"{entity.rows.shape[1]}",
            remedy="Give two arrays of equal width",
            path=relation.path,
        )


def _read_vocabulary(path: Path, stream: Stream) -> dict[str, dict[int, int]]:
    """kind -> row -> id in the stream."""
    known = {"entity": stream.entities, "relation": stream.relations}
    row_of: dict[str, dict[int, int]] = {kind: {} for kind in KINDS}
    line_of: dict[tuple[str, str], int] = {}
    for line, (kind, row, label) in read_rows(path, ("entity|relation", "row", "label")):
        problem = None
        if kind not in KINDS:
            problem = f"the kind {kind!r} is neither entity nor relation"
        elif not (row.isascii() and row.isdecimal() and len(row) <= 18):
            problem = f"the row {row!r} is not a number counted from 0"
        elif label not in known[kind]:
            problem = f"the stream {stream.name} has no {kind} {label!r}"
        elif int(row) in row_of[kind]:
            problem = f"{kind} row {int(row)} was already named"
        elif (kind, label) in line_of:
            problem = f"the {kind} {label!r} was already given on line {line_of[kind, label]}"
        if problem is not None:
            raise InputError(
                problem, remedy="Write entity|relation TAB row TAB label, each once", path=path, line=line
            )
        line_of[kind, label] = line
        row_of[kind][int(row)] = known[kind].id(label)
    return row_of


def _in_named_order(
    table: _Table, id_of_row: dict[int, int], needed: int, known: Vocabulary, vocabulary: Path
) -> Ids:
    """Row numbers in id order."""
    rows = np.fromiter(id_of_row, dtype=np.int64, count=len(id_of_row))
    ids = np.fromiter(id_of_row.values(), dtype=np.int64, count=len(id_of_row))
    beyond = rows[rows >= len(table.rows)]
    if len(beyond):
        raise ModelError(
            f"{table.kind} row {beyond.min()} is named, but {table.path} has {len(table.rows)} rows",
            remedy="Give the array and the vocabulary of the same model",
            path=vocabulary,
        )
    if len(rows) < len(table.rows):
        unnamed = np.setdiff1d(np.arange(len(table.rows)), rows)
        raise ModelError(
            f"{len(unnamed)} {table.kind} rows have no name in {vocabulary}, the first is row {unnamed[0]}",
            remedy="Name every row, or leave it out of the array",
            path=table.path,
        )
    order = np.full(len(known), -1, dtype=np.int64)
    order[ids] = rows
    missing = np.flatnonzero(order[:needed] < 0)
    if len(missing):
        raise ModelError(
            f"{len(missing)} {table.kind} labels have no row, "
            f"the first being {known.label(int(missing[0]))!r}",
            remedy="Every label that the stream admits through the audited updates needs a row",
            path=vocabulary,
        )
    return order[:needed]


def _in_id_order(table: _Table, needed: int, known: Vocabulary) -> Ids:
    if not needed <= len(table.rows) <= len(known):
        raise ModelError(
            f"{len(table.rows)} {table.kind} rows, but the stream needs {needed} and has {len(known)} in all",
            remedy="Give rows in the order of the stream's ids, or a vocabulary",
            path=table.path,
        )
    return np.arange(needed)


def _finite(table: _Table, order: Ids, known: Vocabulary) -> torch.Tensor:
    rows = table.rows[order]
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(broken):
        first = int(broken[0])
        raise ModelError(
            f"{len(broken)} {table.kind} rows hold NaN or infinity, the first being row {order[first]} "
            f"({known.label(first)!r})",
            remedy="Repair or retrain these rows; they cannot be ranked",
            path=table.path,
        )
    return torch.from_numpy(rows)
