"""One file with named columns: TSV, CSV, or what `formats` reads from Parquet.

Columns are found by name, in any order and case: `head`, `relation`, `tail`, then `snapshot` (0, 1, 2, ...)
or `date`, and where there is one `split` (train, valid, test). Further columns are ignored. Dates become
numbers that sort by time.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from meor.stream.snapshot import LabelFact
from meor.stream.source import LabelPool, NumberedRow, Origin, check_fact, shown, tab_rows, text_lines
from meor.typing import Split

COLUMNS = ("head", "relation", "tail", "snapshot", "date", "split")
_LARGEST_SNAPSHOT_DIGITS = 9

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_ISO = re.compile(
    r"(?P<month>[0-9]{4}-[0-9]{2})"
    r"(?P<day>-[0-9]{2}"
    r"(?P<time>[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXPECTED = "Write whole numbers (years, days, seconds) or ISO 8601: 2024-05, 2024-05-31, 2024-05-31T12:00:00"


@dataclass(slots=True)
class FactTable:
    """The rows of a file; `date`, `snapshot` and `split` are empty without such a column."""

    origin: Origin
    facts: list[LabelFact] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    date: list[int] = field(default_factory=list)
    snapshot: list[int] = field(default_factory=list)
    split: list[Split] = field(default_factory=list)


def text_table(path: Path, pool: LabelPool, *, comma: bool) -> FactTable:
    """A TSV (no quoting: a tab always ends a cell) or CSV (quoting as in RFC 4180) with a header line."""
    origin = Origin(path)
    rows = _csv_rows(path) if comma else tab_rows(path)
    header = next(rows, None)
    if header is None:
        raise origin.error("the file is empty", "Give it a header line and facts")
    return fill(origin, header[1], rows, pool)


def bare_facts(path: Path, pool: LabelPool, *, dated: bool) -> FactTable:
    """A tab file of a graph that is not yet a stream: it may have a header, but needs none.

    Without one the columns are head, relation, tail, and the date where `dated`.
    """
    origin = Origin(path)
    rows = tab_rows(path)
    first = next(rows, None)
    if first is None:
        raise origin.error(
            "the file is empty", "Give it facts: head, relation and tail with a tab between them"
        )
    if set(COLUMNS[:3]) <= {cell.strip().lower() for cell in first[1]}:
        return fill(origin, first[1], rows, pool)
    names = COLUMNS[:3] + (("date",) if dated else ())
    return fill(origin, names, chain([first], rows), pool)


def fill(origin: Origin, header: Sequence[str], rows: Iterable[NumberedRow], pool: LabelPool) -> FactTable:
    """Read every row by the names in the header; the first row that does not fit is an error."""
    at = columns_of(origin, header)
    table = FactTable(origin)
    dates = _DateColumn(origin)
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
    """The position of each known column in a header."""
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


class _DateColumn:
    """The dates of one file: all of one form, since 2024-05 is neither before nor after 2024-05-31."""

    __slots__ = ("_form", "_known", "_origin")

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._form: str | None = None
        self._known: dict[str, int] = {}

    def key(self, cell: str, number: int) -> int:
        """Microseconds since 1970, or the whole number itself."""
        known = self._known.get(cell)
        if known is not None:
            return known
        parsed = _parse(cell.strip())
        if parsed is None:
            raise self._origin.error(f"{shown(cell)} is not a date", _EXPECTED, number)
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
