"""One file of facts: TSV, CSV, or what `formats` reads from Parquet.

Columns are found by name, in any order and case (see `header`): head, relation and tail, then a snapshot
(0, 1, 2, ...) or a date, and where there is one a split (train, valid, test). Further columns are ignored. A
tab file needs no header: its columns are then head, relation, tail and, if there are four, the date. Dates
become numbers that sort by time.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from meor.escape import shell
from meor.stream.header import FACT, columns_of, is_header
from meor.stream.snapshot import LabelFact
from meor.stream.source import LabelPool, NumberedRow, Origin, Report, check_fact, shown, tab_rows, text_lines
from meor.typing import Split

_LARGEST_SNAPSHOT_DIGITS = 9
_LONGEST_NAME = 40  # of a column
_DELIMITERS = ",;\t"

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_ISO = re.compile(
    r"(?P<month>[0-9]{4}-[0-9]{2})"
    r"(?P<day>-[0-9]{2}"
    r"(?P<time>[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXPECTED = "Write whole numbers (years, days, seconds) or ISO 8601: 2024-05, 2024-05-31, 2024-05-31T12:00:00"

_FOURTH = f"The fourth column of a file without a header is the date. {_EXPECTED}; or add a header"


@dataclass(slots=True)
class FactTable:
    """The rows of a file; `date`, `snapshot` and `split` are empty without such a column."""

    origin: Origin
    facts: list[LabelFact] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    date: list[int] = field(default_factory=list)
    snapshot: list[int] = field(default_factory=list)
    split: list[Split] = field(default_factory=list)


def comma_table(path: Path, pool: LabelPool, named: Mapping[str, str]) -> FactTable:
    """A CSV with a header line, quoted as in RFC 4180; commas, semicolons or tabs part its columns."""
    origin = Origin(path)
    rows = _csv_rows(path, named)
    header = next(rows, None)
    if header is None:
        raise origin.error("the file is empty", "Give it a header line and facts")
    return fill(origin, columns_of(origin, header[1], named), len(header[1]), rows, pool)


def tab_table(path: Path, pool: LabelPool, named: Mapping[str, str], report: Report) -> FactTable:
    """A tab file, with a header or without; there is no quoting, since a tab always ends a cell."""
    origin = Origin(path)
    rows = tab_rows(path)
    first = next(rows, None)
    if first is None:
        raise origin.error(
            "the file is empty", "Give it facts: head, relation and tail with a tab between them"
        )
    number, cells = first
    if named or is_header(cells, named):
        return fill(origin, columns_of(origin, cells, named), len(cells), rows, pool)
    if len(cells) not in (3, 4):
        problem = f"{len(cells)} column{'s' * (len(cells) != 1)} where 3 are needed, and no header"
        raise origin.error(problem, _bare(cells), number)
    places = {role: index for index, role in enumerate((*FACT, "date")[: len(cells)])}
    table = fill(origin, places, len(cells), chain([first], rows), pool, expected=_FOURTH)
    _remark_on_a_lone_first_line(table, report)
    return table


def _bare(cells: Sequence[str]) -> str:
    if len(cells) == 1 and any(cells[0].count(mark) >= 2 for mark in ",;"):
        return "It looks like CSV: end its name in .csv"
    return "Write head, relation and tail with a tab between them, or name the columns in the first line"


def _remark_on_a_lone_first_line(table: FactTable, report: Report) -> None:
    """A header with names that we do not know would pass for a fact about `from` and `to`."""
    first, *others = table.facts
    if others and max(map(len, first)) < _LONGEST_NAME and all(map({*first}.isdisjoint, others)):
        names = shell(["--columns", "h={},r={},t={}".format(*first)])
        report(f"{table.origin.place(1)} shares no name with another line; if it is a header, give {names}")


def fill(
    origin: Origin,
    at: Mapping[str, int],
    width: int,
    rows: Iterable[NumberedRow],
    pool: LabelPool,
    *,
    expected: str = _EXPECTED,
) -> FactTable:
    """Read every row, each role at its place; the first row that does not fit is an error."""
    table = FactTable(origin)
    dates = _DateColumn(origin, expected)
    head, relation, tail = at["head"], at["relation"], at["tail"]
    snapshot, date, split = at.get("snapshot"), at.get("date"), at.get("split")
    for number, cells in rows:
        if len(cells) != width:
            problem = f"{len(cells)} column{'s' * (len(cells) != 1)} where {width} are needed"
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


def _csv_rows(path: Path, named: Mapping[str, str]) -> Iterator[NumberedRow]:
    origin = Origin(path)
    lines = text_lines(path)
    first = next(lines, "")
    reader = csv.reader(
        (f"{line}\n" for line in chain([first], lines)), strict=True, delimiter=_delimiter(first, named)
    )
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


def _delimiter(header: str, named: Mapping[str, str]) -> str:
    """The mark by which the header names the columns; else the one that makes most of them."""

    def columns(mark: str) -> tuple[bool, int]:
        try:
            cells = next(csv.reader([header], delimiter=mark), [])
        except csv.Error:  # said when the line is read
            return False, 0
        return is_header(cells, named), len(cells)

    return max(_DELIMITERS, key=columns)


class _DateColumn:
    """The dates of one file: all of one form, since 2024-05 is neither before nor after 2024-05-31."""

    __slots__ = ("_expected", "_form", "_known", "_origin")

    def __init__(self, origin: Origin, expected: str) -> None:
        self._origin = origin
        self._expected = expected
        self._form: str | None = None
        self._known: dict[str, int] = {}

    def key(self, cell: str, number: int) -> int:
        """Microseconds since 1970, or the whole number itself."""
        known = self._known.get(cell)
        if known is not None:
            return known
        parsed = _parse(cell.strip())
        if parsed is None:
            raise self._origin.error(f"{shown(cell)} is not a date", self._expected, number)
        form, key = parsed
        if self._form not in (None, form):
            problem = f"{shown(cell)} is a {form}, the dates before it are each a {self._form}"
            raise self._origin.error(problem, "Write all dates of a file in one form", number)
        self._form = form
        self._known[cell] = key
        return key


def _parse(text: str) -> tuple[str, int] | None:
    if _INTEGER.fullmatch(text):
        return "whole number", int(text)
    matched = _ISO.fullmatch(text)
    if matched is None:
        return None
    try:
        moment = datetime.fromisoformat(text if matched["day"] else f"{text}-01")
    except ValueError:
        return None
    form = "time" if matched["time"] else "day" if matched["day"] else "month"
    if matched["zone"]:
        form = "time with a zone"
    else:
        moment = moment.replace(tzinfo=UTC)
    return form, (moment - _EPOCH) // timedelta(microseconds=1)
