"""Parquet files of ours: columns in, bytes out; and columns as they were written, or one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from meor.errors import RunError
from meor.storage import parquet

UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
"""ArrowException is not the base of all that pyarrow raises on a damaged file."""

Column = Sequence[str] | NDArray[Any]
Mask = NDArray[np.bool_]


def column(values: Column, missing: Mask | None = None) -> pa.Array:
    """Text, whole numbers, floats or truths; null where `missing`.

    Made from buffers: `pa.array` would import pandas wherever that is installed, for a second or more.
    """
    valid = None if missing is None or not missing.any() else pa.py_buffer(_bits(~missing))
    if isinstance(values, np.ndarray) and values.dtype != object:
        kind = pa.from_numpy_dtype(values.dtype)
        data = _bits(values) if values.dtype == bool else np.ascontiguousarray(values)
        return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])
    known: dict[str, bytes] = {}  # of text that repeats, one copy
    encoded = [known.setdefault(text, text.encode()) for text in values]
    ends = np.cumsum([0, *map(len, encoded)])
    if ends[-1] > np.iinfo(np.int32).max:
        raise ValueError("a column of text is longer than 2 GiB")
    buffers = [valid, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def table_of(columns: Mapping[str, pa.Array]) -> pa.Table:
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))


def table_bytes(table: pa.Table, **options: Any) -> bytes:
    """The bytes of a Parquet file. Nothing is in it but the rows and the writer's version."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **{"compression": "zstd", "store_schema": False, **options})
    return bytes(sink.getvalue())


def read_columns(data: bytes, path: Path, columns: Sequence[str], remedy: str) -> pa.Table:
    """Columns from the bytes of a Parquet file; `path` is for the error alone."""
    try:
        table: pa.Table = parquet.read_table(path, columns, data)
    except UNREADABLE as error:
        raise RunError(f"{path} cannot be read as a table ({_first_line(error)}). {remedy}") from None
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise RunError(f"{path} has no column {missing[0]}. {remedy}")
    return table


def _bits(truth: NDArray[Any]) -> NDArray[np.uint8]:
    return np.packbits(truth.astype(bool), bitorder="little")


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__
