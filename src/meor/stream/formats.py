"""Which format a file has, and those that other packages decode: Parquet, N-Triples and Turtle (extra `rdf`).

Sizes of a Parquet file are checked before anything is unpacked. A fact of RDF needs two entities with lasting
names. Literals are values, and a blank node has no name outside its file (Turtle's get a new one at every
read), so such statements are skipped and counted; with `literals="error"` they stop the reading.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal, cast

from meor.errors import StreamError
from meor.storage.parquet import batches, open_parquet
from meor.stream.columns import FactTable, fill
from meor.stream.header import columns_of
from meor.stream.source import (
    EXPANSION_RATIO,
    LINE_LIMIT,
    LabelPool,
    NumberedRow,
    Origin,
    Report,
    check_regular,
    expansion_limit,
    no_permission,
    row_limit,
    text_lines,
)

Literals = Literal["skip", "error"]

TAB, COMMA, PARQUET, RDF = (".tsv", ".txt"), (".csv",), (".parquet", ".pq"), (".nt", ".ttl")

_NEVER_IN_A_LABEL = re.compile("[\0\t\n\r\ufeff]")


def form_of(path: Path) -> tuple[str, str]:
    """The name without its endings, and the lower-case ending that says the format (.gz apart)."""
    plain = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    stem, form = os.path.splitext(plain)
    return stem, form.lower()


def parquet_table(path: Path, pool: LabelPool, named: Mapping[str, str]) -> FactTable:
    """Labels may be strings or whole numbers, dates also Parquet dates and timestamps."""
    import pyarrow as pa

    origin = Origin(path, "row")
    size = check_regular(path)
    try:
        # ArrowException is not the base of all that pyarrow raises on a damaged file.
        with open_parquet(path) as file:
            _check_sizes(origin, file.metadata, size)
            wanted = _wanted(origin, file.schema_arrow, named)
            places = {role: index for index, role in enumerate(wanted)}
            rows = _rows(origin, file, list(wanted.values()))
            return fill(origin, places, len(places), rows, pool)
    except PermissionError:
        raise no_permission(path) from None
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


def _wanted(origin: Origin, schema: Any, named: Mapping[str, str]) -> dict[str, str]:
    """The column of each role, if its type can hold it."""
    import pyarrow.types as kinds

    at = columns_of(origin, schema.names, named)
    for role, index in at.items():
        name, kind = schema.names[index], schema.field(index).type
        if kinds.is_dictionary(kind):
            kind = kind.value_type
        text = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
        moment = role == "date" and (kinds.is_date(kind) or kinds.is_timestamp(kind))
        if not (text or moment or kinds.is_integer(kind)):
            problem = f"column {name} holds {kind}"
            raise origin.error(problem, "Store names as strings, snapshots as whole numbers, dates as dates")
    return {role: schema.names[index] for role, index in at.items()}


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
            yield number, list(cells)


def _cells(column: Any) -> list[str]:
    """The text of each cell, empty where it is null; a date becomes the number that stores it."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_date32(column.type):
        column = column.cast(pa.int32())
    elif kinds.is_date64(column.type) or kinds.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return ["" if value is None else str(value) for value in column.to_pylist()]


def rdf_facts(path: Path, pool: LabelPool, *, turtle: bool, literals: Literals, report: Report) -> FactTable:
    """Facts, numbered by line (N-Triples) or statement (Turtle); labels are bare IRIs."""
    origin = Origin(path, "statement" if turtle else "line")
    table = FactTable(origin)
    feed = _Feed(text_lines(path))
    limit = expansion_limit(check_regular(path))
    skipped = total = 0
    for index, triple in enumerate(_statements(feed, path, turtle)):
        number = index + 1 if turtle else feed.statement_lines[index]
        labels = _labels(triple)
        if labels is None:
            if literals == "error":
                remedy = 'Remove the statement, or read with literals="skip"'
                raise origin.error("a literal or blank node is no entity", remedy, number)
            skipped += 1
            continue
        # With a prefix, a short file can hold very long names.
        total += sum(map(len, labels))
        if total > limit:
            problem = f"its names expand to more than {EXPANSION_RATIO} times its size"
            raise origin.error(problem, "Shorten the prefixes", number)
        table.facts.append(pool.fact(*labels))
        table.numbers.append(number)
    if skipped:
        report(f"{path}: skipped {skipped} statements about literals or blank nodes")
    return table


def _labels(triple: Any) -> tuple[str, str, str] | None:
    from pyoxigraph import NamedNode

    if isinstance(triple.subject, NamedNode) and isinstance(triple.object, NamedNode):
        return triple.subject.value, triple.predicate.value, triple.object.value
    return None


def _statements(feed: _Feed, path: Path, turtle: bool) -> Iterator[Any]:
    try:
        from pyoxigraph import RdfFormat, parse
    except ImportError:
        remedy = 'Install the extra: pip install "meor[rdf]"'
        raise StreamError("reading RDF needs the package pyoxigraph", remedy=remedy, path=path) from None
    read = 0
    try:
        form = RdfFormat.TURTLE if turtle else RdfFormat.N_TRIPLES
        for triple in parse(input=cast(IO[bytes], feed), format=form):
            read += 1
            yield triple
    except SyntaxError as error:
        # The parser notices an unfinished N-Triples statement one line too late.
        unknown = turtle or read >= len(feed.statement_lines)
        line = error.lineno if unknown else feed.statement_lines[read]
        problem = f"not valid {'Turtle' if turtle else 'N-Triples'} ({error.msg[:200]})"
        raise StreamError(problem, remedy="Correct the statement", path=path, line=line) from None
    except (ValueError, OSError) as error:
        raise StreamError(f"cannot be read ({error})", remedy="Check the file", path=path) from None


class _Feed:
    """Checked lines as the file that the parser reads; remembers the lines that hold N-Triples statements."""

    _BLOCK = 1 << 16

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = enumerate(lines, 1)
        self._block = b""
        self._at = 0
        self.statement_lines = array("q")

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; nothing at the end."""
        if self._at == len(self._block):
            self._block, self._at = self._next_block(), 0
        stop = len(self._block) if size < 0 else self._at + size
        chunk = self._block[self._at : stop]
        self._at += len(chunk)
        return chunk

    def _next_block(self) -> bytes:
        lines: list[str] = []
        held = 0
        for number, line in self._lines:
            text = line.lstrip(" \t")
            if text and not text.startswith("#"):
                self.statement_lines.append(number)
            lines.append(line)
            held += len(line) + 1
            if held >= self._BLOCK:
                break
        return "".join(f"{line}\n" for line in lines).encode()
