"""Parquet files of ours: columns as they were written, or one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from meor.errors import RunError
from meor.storage import parquet

UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
"""ArrowException is not the base of all that pyarrow raises on a damaged file."""


def read_table(data: bytes, path: Path, columns: Sequence[str], remedy: str) -> pa.Table:
    """Columns from the bytes of a Parquet file; `path` is for the error alone."""
    try:
        table: pa.Table = parquet.read_table(path, columns, data)
    except UNREADABLE as error:
        raise RunError(f"{path} cannot be read as a table ({_first_line(error)}). {remedy}") from None
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise RunError(f"{path} has no column {missing[0]}. {remedy}")
    return table


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__
