"""Every Parquet file is read and written here; none is read that would unpack to more than a byte budget.

Twenty million equal rows fit in a quarter of a megabyte, and each of them may hold a label of a megabyte. The
number of rows is known beforehand; how wide they are is not. So text is decoded as a dictionary, which does
not grow with repetition, and is written out only where it fits the budget. pyarrow is imported where it is
used: commands that meet no Parquet file start without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from meor.errors import MemoryBudgetError, RunError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

DEFAULT_BUDGET = 2**30
UNREADABLE = (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
"""What `read_table` raises on a damaged file; an ArrowInvalid is a ValueError."""

Column = Sequence[str] | NDArray[Any]

_BATCH = 1 << 15
_NO_DICTIONARY = "Not yet implemented"  # what pyarrow says of text coded by differences
_TEXT_CELL = 64  # bytes of a Python string apart from its characters, and of what refers to it
_PLAIN_CELL = 16  # a number, and the copy that becomes an array

_allowed: ContextVar[int] = ContextVar("allowed", default=DEFAULT_BUDGET)


@contextmanager
def byte_budget(size: int) -> Iterator[None]:
    """No Parquet file that would unpack to more than so many bytes is read inside the `with` block."""
    before = _allowed.set(size)
    try:
        yield
    finally:
        _allowed.reset(before)


def read_table(path: Path, columns: Sequence[str] | None = None, data: bytes | None = None) -> pa.Table:
    """The table of a file, or the named columns of it. Whatever is wrong with the content is an ArrowInvalid.

    `data` are its bytes where they were read before, such as to verify them.
    """
    import pyarrow as pa

    try:
        with open_parquet(path, data) as file:
            names = file.schema_arrow.names if columns is None else list(columns)
            schema = _plain_schema(file, names)
            return pa.Table.from_batches(list(batches(path, file, names, data)), schema=schema)
    except (pa.ArrowException, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise pa.ArrowInvalid(str(error)[:200] or "not enough memory") from None


def read_columns(data: bytes, path: Path, columns: Sequence[str], remedy: str) -> pa.Table:
    """Columns from the bytes of a Parquet file of ours; `path` is for the error alone."""
    try:
        return read_table(path, columns, data)
    except UNREADABLE as error:
        lines = str(error).splitlines()
        reason = lines[0][:200] if lines else type(error).__name__
        raise RunError(f"{path} cannot be read as a table ({reason}). {remedy}") from None


def column(values: Column, missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Text, whole numbers, floats or truth values; null where `missing`.

    Made from buffers: `pa.array` would import pandas wherever that is installed, for a second or more.
    """
    import pyarrow as pa

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
    import pyarrow as pa

    return pa.Table.from_arrays(list(columns.values()), names=list(columns))


def table_bytes(table: pa.Table, **options: Any) -> bytes:
    """The bytes of a Parquet file. Nothing is in it but the rows and the writer's version."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **{"compression": "zstd", "store_schema": False, **options})
    return bytes(sink.getvalue())


def _bits(truth: NDArray[Any]) -> NDArray[np.uint8]:
    return np.packbits(truth.astype(bool), bitorder="little")


def open_parquet(path: Path, data: bytes | None = None) -> pq.ParquetFile:
    """A file whose repeated text stays a dictionary, as `batches` wants it."""
    with _opened(path, data) as file:
        schema = file.metadata.schema
    columns = (schema.column(at) for at in range(len(schema)))
    return _opened(path, data, [each.path for each in columns if each.physical_type == "BYTE_ARRAY"])


def _opened(path: Path, data: bytes | None, once: Sequence[str] = ()) -> pq.ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = path if data is None else pa.BufferReader(data)
    return pq.ParquetFile(source, memory_map=False, read_dictionary=once, page_checksum_verification=True)


def batches(
    path: Path, file: pq.ParquetFile, names: Sequence[str], data: bytes | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows some at a time, text as plain text; a MemoryBudgetError as soon as all would be too much."""
    done = 0
    try:
        for batch in _within_budget(path, file, names, _BATCH):
            yield batch
            done += batch.num_rows
    except OSError as error:
        if _NO_DICTIONARY not in str(error):
            raise
        # Text that is coded by differences. A page of it may hold one value as wide as its row group.
        with _opened(path, data) as plain:
            size = max(1, min(_BATCH, _allowed.get() // max(1, *_group_sizes(plain))))
            for batch in _within_budget(path, plain, names, size):
                yield batch.slice(min(done, batch.num_rows))
                done -= min(done, batch.num_rows)


def _within_budget(
    path: Path, file: pq.ParquetFile, names: Sequence[str], size: int
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    budget, rows = _allowed.get(), file.metadata.num_rows
    schema = _plain_schema(file, names)
    spent = rows * sum(map(_cell, schema.types))
    _require(path, rows, max(spent, sum(_group_sizes(file))), budget)
    for batch in file.iter_batches(batch_size=size, columns=list(names), use_threads=False):
        batch.validate(full=True)
        spent += sum(map(_text_bytes, batch.columns))
        _require(path, rows, spent, budget)
        plain = [_plain(batch.column(at)) for at in map(batch.schema.get_field_index, names)]
        yield pa.RecordBatch.from_arrays(plain, schema=schema)


def _group_sizes(file: pq.ParquetFile) -> list[int]:
    """Decompressed bytes of each row group. Not of its columns: pyarrow ends the process when the
    metadata of a column contradict themselves."""
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    return [max(group.total_byte_size, 0) for group in groups]


def _text_bytes(column: Any) -> int:
    """What the text of a column takes once it is written out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes) if _is_text(column.type) else 0
    if not _is_text(column.type.value_type):
        return 0
    length = pc.binary_length(column.dictionary).cast(pa.int64())
    return int(pc.sum(length.take(column.indices)).as_py() or 0)


def _is_text(kind: Any) -> bool:
    import pyarrow.types as kinds

    views = kinds.is_string_view(kind) or kinds.is_binary_view(kind)
    large = kinds.is_large_string(kind) or kinds.is_large_binary(kind)
    return bool(views or large or kinds.is_string(kind) or kinds.is_binary(kind))


def _cell(kind: Any) -> int:
    """The least that one value takes."""
    import pyarrow.types as kinds

    if _is_text(kind):
        return _TEXT_CELL
    return max(_PLAIN_CELL, 0 if kinds.is_null(kind) else kind.bit_width // 4)


def _plain_schema(file: pq.ParquetFile, names: Sequence[str]) -> pa.Schema:
    """Of the named columns, which must each be there once and hold single values."""
    import pyarrow as pa

    fields = []
    for name in names:
        if file.schema_arrow.names.count(name) != 1:
            raise pa.ArrowInvalid(f"{file.schema_arrow.names.count(name)} columns are called {name}")
        field = file.schema_arrow.field(name)
        if pa.types.is_nested(field.type):
            raise pa.ArrowInvalid(f"column {name} holds {field.type}")
        fields.append(field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field)
    return pa.schema(fields)


def _plain(column: Any) -> Any:
    import pyarrow.types as kinds

    return column.dictionary_decode() if kinds.is_dictionary(column.type) else column


def _require(path: Path, rows: int, needed: int, budget: int) -> None:
    if needed > budget:
        raise MemoryBudgetError(
            f"{path} holds {rows:,} rows that unpack to at least {needed / 2**20:,.0f} MiB, but "
            f"{budget / 2**20:,.0f} MiB are allowed. Raise --memory if you trust the file."
        )
