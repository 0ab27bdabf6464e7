"""Embeddings made elsewhere: two arrays and a file that says whose row is whose.

The vocabulary file has lines `entity|relation TAB row TAB label`. Arrays are `.npy` or `.safetensors`, real
or complex; a real array of ComplEx or RotatE holds the real half of each row, then the imaginary half, unless
its layout is said to be interleaved. Nothing is unpickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from meor.backbone import BACKBONES, Model
from meor.errors import ModelError
from meor.evaluation.foreign_file import KINDS, RowNames, read_array, read_row_names, release
from meor.evaluation.labelled import halves
from meor.stream.snapshot import Stream, Vocabulary
from meor.typing import Ids

HALVES, INTERLEAVED = LAYOUTS = ("halves", "interleaved")
COMPLEX = ("complex", "rotate")
"""Backbones of complex rows."""

TILE_BYTES = 2**24
"""So much of a mapped array is converted at a time."""

Rows = Path | str | NDArray[Any]
"""A table: an array, or the path of a file that holds one."""

_FITS_FLOAT32 = {"float16", "float32", "complex64"}


@dataclass(frozen=True, slots=True)
class _Table:
    """One array as it is stored, and where it came from, for the messages."""

    kind: str
    path: Path | None  # None: it came as an array
    rows: NDArray[Any]
    interleaved: bool = False  # real rows of complex numbers: re, im, re, im, ...

    @classmethod
    def read(cls, kind: str, given: Rows, interleaved: bool) -> _Table:
        if isinstance(given, np.ndarray):
            return cls(kind, None, given, interleaved)
        return cls(kind, Path(given), read_array(Path(given), kind), interleaved)

    @property
    def name(self) -> str:
        return f"the {self.kind} array" if self.path is None else str(self.path)

    @property
    def width(self) -> int:
        """The width of a row of the model, where a complex number takes two places."""
        return int(self.rows.shape[1]) * (2 if self.rows.dtype.kind == "c" else 1)

    def real(self, numbers: Ids) -> NDArray[Any]:
        """Rows by number; of complex ones the real half, then the imaginary half."""
        chosen = self.rows[numbers]
        release(self.rows)
        if chosen.dtype.kind == "c":
            return np.concatenate([chosen.real, chosen.imag], axis=1)
        return halves(chosen) if self.interleaved else chosen


def load_external(
    stream: Stream,
    backbone: str,
    entity: Rows,
    relation: Rows | None = None,
    vocabulary: Path | str | None = None,
    *,
    through: int,
    widen: bool = True,
    layout: str = HALVES,
) -> Model:
    """A model in the stream's ids, float64, with a row for all that was admitted through an update.

    Tables are arrays, or files of them. Rows of entities and relations that the stream admits later may be
    given; they are left out. Without `relation` both tables come from `entity`, a safetensors file. Without
    `vocabulary` rows are in id order. `widen=False` keeps entity rows of at most 32 bits in float32, which is
    half the memory: scores are float64 all the same, since relation rows are. `layout` says how real arrays
    hold complex numbers, which no shape can tell: `halves`, or `interleaved` as in PyKEEN.
    """
    if backbone not in BACKBONES:
        raise ModelError(f"unknown backbone {backbone!r}", remedy=f"Use one of {', '.join(BACKBONES)}")
    require_layout(layout, backbone)
    given = entity, entity if relation is None else relation
    tables = [_Table.read(kind, each, layout == INTERLEAVED) for kind, each in zip(KINDS, given, strict=True)]
    for table in tables:
        _require_numbers(table, backbone)
    _require_equal_width(*tables)
    needed = {"entity": stream.entity_counts[through], "relation": stream.relation_counts[through]}
    labels = {"entity": stream.entities, "relation": stream.relations}
    sizes = {table.kind: len(table.rows) for table in tables}
    named = None if vocabulary is None else read_row_names(Path(vocabulary), stream, sizes)
    ordered = []
    for table in tables:
        known = labels[table.kind]
        if vocabulary is None or named is None:
            order = _in_id_order(table, needed[table.kind], known)
        else:
            order = _in_named_order(table, named[table.kind], needed[table.kind], Path(vocabulary))
        narrow = not widen and table.kind == "entity" and table.rows.dtype.name in _FITS_FLOAT32
        ordered.append(_gathered(table, order, known, np.float32 if narrow else np.float64))
    return Model(BACKBONES[backbone], ordered[0], ordered[1])


def require_layout(layout: str, backbone: str) -> None:
    if layout not in LAYOUTS:
        raise ModelError(f"unknown layout {layout!r}", remedy=f"Use one of {', '.join(LAYOUTS)}")
    if layout == INTERLEAVED and backbone not in COMPLEX:
        raise ModelError(
            f"{backbone} has no complex numbers to interleave",
            remedy=f"Leave --layout out; it is for {' and '.join(COMPLEX)}",
        )


def _require_numbers(table: _Table, backbone: str) -> None:
    """Numbers that the backbone can take."""
    array, kind, path = table.rows, table.kind, table.path
    if array.ndim != 2 or 0 in array.shape:
        raise ModelError(
            f"the {kind} array has shape {array.shape}", remedy="Give one row of numbers a label", path=path
        )
    if array.dtype.kind == "c":
        if backbone not in COMPLEX:
            raise ModelError(
                f"complex numbers, but {backbone} takes real ones",
                remedy=f"Use --backbone {' or '.join(COMPLEX)}, or give a real array",
                path=path,
            )
        return
    if array.dtype.kind != "f":
        raise ModelError(
            f"the {kind} array holds {array.dtype} values",
            remedy="Give floating-point or complex numbers",
            path=path,
        )
    if backbone in COMPLEX and array.shape[1] % 2:
        raise ModelError(
            f"rows are {array.shape[1]} wide, an odd number",
            remedy="A real ComplEx row holds the real half, then the imaginary half",
            path=path,
        )


def _require_equal_width(entity: _Table, relation: _Table) -> None:
    if entity.width != relation.width:
        raise ModelError(
            f"relation rows are {relation.width} wide, entity rows ({entity.name}) {entity.width}",
            remedy="Give two arrays of equal width",
            path=relation.path,
        )


def _in_named_order(table: _Table, names: RowNames, needed: int, vocabulary: Path) -> Ids:
    """Row numbers in id order."""
    if names.beyond:
        raise ModelError(
            f"{table.kind} row {min(names.beyond)} is named, but {table.name} has {len(table.rows)} rows",
            remedy="Give the array and the vocabulary of the same model",
            path=vocabulary,
        )
    unnamed = np.flatnonzero(~names.named)
    if len(unnamed):
        raise ModelError(
            f"{len(unnamed)} {table.kind} rows have no name in {vocabulary}, the first is row {unnamed[0]}",
            remedy="Name every row, or leave it out of the array",
            path=table.path,
        )
    order = names.row_of[:needed]
    missing = np.flatnonzero(order < 0)
    if len(missing):
        raise ModelError(
            f"{len(missing)} {table.kind} labels have no row, "
            f"the first being {names.known.label(int(missing[0]))!r}",
            remedy="Every label that the stream admits through the audited updates needs a row",
            path=vocabulary,
        )
    return order


def _in_id_order(table: _Table, needed: int, known: Vocabulary) -> Ids:
    if not needed <= len(table.rows) <= len(known):
        raise ModelError(
            f"{len(table.rows)} {table.kind} rows, but the stream needs {needed} and has {len(known)} in all",
            remedy="Give rows in the order of the stream's ids, or a vocabulary",
            path=table.path,
        )
    return np.arange(needed)


def _gathered(table: _Table, order: Ids, known: Vocabulary, dtype: type[np.floating[Any]]) -> torch.Tensor:
    """Rows in id order. They are read in the file's own order, so that little of it is mapped at a time."""
    rows = np.empty((len(order), table.width), dtype)
    healthy = np.empty(len(order), np.bool_)
    as_stored = np.argsort(order)
    size = max(1, TILE_BYTES // (8 * table.width))
    for first in range(0, len(order), size):
        ids = as_stored[first : first + size]
        part = table.real(order[ids])
        rows[ids], healthy[ids] = part, np.isfinite(part).all(axis=1)
    broken = np.flatnonzero(~healthy)
    if len(broken):
        raise ModelError(
            f"{len(broken)} {table.kind} rows hold NaN or infinity, the first being row {order[broken[0]]} "
            f"({known.label(int(broken[0]))!r})",
            remedy="Repair or retrain these rows; they cannot be ranked",
            path=table.path,
        )
    return torch.from_numpy(rows)
