"""One file with named columns: TSV, CSV or Parquet.

Columns are found by name, in any order and case: `head`, `relation`, `tail`, then `snapshot` (0, 1, 2, ...)
or `date`, and where there is one `split` (train, valid, test). Further columns are ignored.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from meor.stream.dates import DateColumn
from meor.stream.records import LabelPool, Origin, shown
from meor.stream.snapshot import LabelFact
from meor.stream.text import check_fact, text_lines
from meor.typing import Split

COLUMNS = ("head", "relation", "tail", "snapshot", "date", "split")
_LARGEST_SNAPSHOT_DIGITS = 9

NumberedRow = tuple[int, Sequence[str]]


@dataclass(slots=True)
class FactTable:
    """What a table says, row by row; `date`, `snapshot` and `split` are empty without such a column."""

    origin: Origin
    facts: list[LabelFact] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    date: list[int] = field(default_factory=list)
    snapshot: list[int] = field(default_factory=list)
    split: list[Split] = field(default_factory=list)


def text_table(path: Path, pool: LabelPool, *, comma: bool) -> FactTable:
    """A TSV (no quoting: a tab always ends a cell) or CSV (quoting as in RFC 4180) with a header line."""
    origin = Origin(path)
    rows = _csv_rows(path) if comma else _tab_rows(path)
    header = next(rows, None)
    if header is None:
        raise origin.error("the file is empty", "Give it a header line and facts")
    return fill(origin, header[1], rows, pool)


def bare_facts(path: Path, pool: LabelPool, *, dated: bool) -> FactTable:
    """A tab file of a graph that is not yet a stream: a header is welcome, but not needed.

    Without one the columns are head, relation, tail, and the date where `dated`.
    """
    origin = Origin(path)
    rows = _tab_rows(path)
    first = next(rows, None)
    if first is None:
        raise origin.error(
            "the file is empty", "Give it facts: head, relation and tail with a tab between them"
        )
    names = COLUMNS[:3] + (("date",) if dated else ())
    if is_header(first[1]):
        return fill(origin, first[1], rows, pool)
    return fill(origin, names, chain([first], rows), pool)


def is_header(cells: Sequence[str]) -> bool:
    return set(COLUMNS[:3]) <= {cell.strip().lower() for cell in cells}


def fill(origin: Origin, header: Sequence[str], rows: Iterable[NumberedRow], pool: LabelPool) -> FactTable:
    """Read every row by the header's names, or raise at the first that does not fit."""
    at = columns_of(origin, header)
    table = FactTable(origin)
    dates = DateColumn(origin)
    head, relation, tail = at["head"], at["relation"], at["tail"]
    snapshot, date, split = at.get("snapshot"), at.get("date"), at.get("split")
    for number, cells in rows:
        if len(cells) != len(header):
            problem = f"{len(cells)} column{'s' * (len(cells) != 1)} where {len(header)} are needed"
            raise origin.error(problem, "Give every row the columns of the first", number)
        labels = [cells[head], cells[relation], cells[tail]]
        check_fact(labels, origin, number)
        table.facts.append(pool.fact(*labels))
        table.numbers.append(number)
        if snapshot is not None:
            table.snapshot.append(_snapshot(cells[snapshot], origin, number))
        if date is not None:
            table.date.append(dates.key(cells[date], number))
        if split is not None:
            table.split.append(_split(cells[split], origin, number))
    return table


def columns_of(origin: Origin, header: Sequence[str]) -> dict[str, int]:
    """Where each column we know stands in a header."""
    names = [name.strip().lower() for name in header]
    for wanted in COLUMNS:
        if names.count(wanted) > 1:
            raise origin.error(f"two columns are called {wanted}", "Remove or rename one")
    at = {name: names.index(name) for name in COLUMNS if name in names}
    for needed in COLUMNS[:3]:
        if needed not in at:
            found = ", ".join(map(shown, names[:8]))
            remedy = "The first row must name the columns: head, relation, tail and snapshot or date"
            raise origin.error(f"no column is called {needed} (found {found})", remedy)
    return at


def _snapshot(cell: str, origin: Origin, number: int) -> int:
    text = cell.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _LARGEST_SNAPSHOT_DIGITS):
        raise origin.error(f"{shown(cell)} is not a snapshot number", "Number snapshots 0, 1, 2, ...", number)
    return int(text)


def _split(cell: str, origin: Origin, number: int) -> Split:
    try:
        return Split(cell.strip().lower())
    except ValueError:
        raise origin.error(f"{shown(cell)} is not a split", "Write train, valid or test", number) from None


def _tab_rows(path: Path) -> Iterator[NumberedRow]:
    blank = 0
    for number, line in enumerate(text_lines(path), 1):
        if not line:
            blank = blank or number
            continue
        if blank:
            raise Origin(path).error("an empty line between facts", "Remove it", blank)
        yield number, line.split("\t")


def _csv_rows(path: Path) -> Iterator[NumberedRow]:
    origin = Origin(path)
    reader = csv.reader((f"{line}\n" for line in text_lines(path)), strict=True)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise origin.error(f"not valid CSV ({error})", "Check the quotes", reader.line_num) from None
        if cells is None:
            return
        if not cells:
            continue
        for cell in cells:
            if "\n" in cell or "\t" in cell:
                problem = "a tab or line end inside a cell"
                raise origin.error(problem, "Names are single-line; replace it by a space", reader.line_num)
        yield reader.line_num, cells
