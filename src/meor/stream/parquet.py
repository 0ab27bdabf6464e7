"""Parquet files as rows of text cells; sizes are checked before anything is unpacked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meor.errors import StreamError
from meor.storage.parquet import batches, open_parquet
from meor.stream.records import LabelPool, Origin
from meor.stream.table import COLUMNS, FactTable, NumberedRow, columns_of, fill
from meor.stream.text import LINE_LIMIT, check_regular, expansion_limit, row_limit

_NEVER_IN_A_LABEL = re.compile("[\0\t\n\r\ufeff]")


def parquet_table(path: Path, pool: LabelPool) -> FactTable:
    """Labels may be strings or whole numbers, dates also Parquet dates and timestamps."""
    import pyarrow as pa

    origin = Origin(path, "row")
    size = check_regular(path)
    try:
        # ArrowException is not the base of all that pyarrow raises on a damaged file.
        with open_parquet(path) as file:
            _check_sizes(origin, file.metadata, size)
            names = _wanted(origin, file.schema_arrow)
            return fill(origin, [name.lower() for name in names], _rows(origin, file, names), pool)
    except PermissionError:
        remedy = "Change its permissions or copy it"
        raise StreamError("no permission to read it", remedy=remedy, path=path) from None
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
        problem = f"not a readable Parquet file ({str(error)[:200]})"
        raise StreamError(problem, remedy="Write or fetch it again", path=path) from None


def _check_sizes(origin: Origin, metadata: Any, size: int) -> None:
    if metadata.num_rows < 0 or metadata.num_rows > row_limit(size):
        problem = f"claims {metadata.num_rows} rows in {size} bytes"
        raise origin.error(problem, "Distinct facts need more room: write the file again")
    limit = expansion_limit(size)
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    if sum(max(group.total_byte_size, 0) for group in groups) > limit:
        problem = f"expands to more than {limit} bytes"
        raise origin.error(problem, "Write it with less compression if you trust it")


def _wanted(origin: Origin, schema: Any) -> list[str]:
    import pyarrow.types as kinds

    fields = [field for field in schema if field.name.strip().lower() in COLUMNS]
    names = [field.name for field in fields]
    columns_of(origin, names)
    for field in fields:
        name, kind = field.name, field.type
        if kinds.is_dictionary(kind):
            kind = kind.value_type
        text = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
        moment = name.strip().lower() == "date" and (kinds.is_date(kind) or kinds.is_timestamp(kind))
        if not (text or moment or kinds.is_integer(kind)):
            problem = f"column {name} holds {kind}"
            raise origin.error(problem, "Store names as strings, snapshots as whole numbers, dates as dates")
    return names


def _rows(origin: Origin, file: Any, names: list[str]) -> Iterator[NumberedRow]:
    number = 0
    for batch in batches(origin.path, file, names):
        columns = [_cells(batch.column(index)) for index in range(len(names))]
        for cells in zip(*columns, strict=True):
            number += 1
            for cell in cells:
                if len(cell) > LINE_LIMIT or _NEVER_IN_A_LABEL.search(cell):
                    problem = "a name that is too long or holds a tab, a line end or a NUL"
                    raise origin.error(problem, "Names are single-line text", number)
            yield number, cells


def _cells(column: Any) -> list[str]:
    """Text of each cell, empty where it is null; dates become the numbers they are stored as."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_date32(column.type):
        column = column.cast(pa.int32())
    elif kinds.is_date64(column.type) or kinds.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return ["" if value is None else str(value) for value in column.to_pylist()]
