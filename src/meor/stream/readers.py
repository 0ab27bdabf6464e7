"""Read a stream from disk: all of it, checked, or an error that says where and what to do.

- A folder: `<snapshot 0, 1, ...>/{train,valid,test}.txt` (or .tsv, .nt, .ttl), one fact a line as head TAB
  relation TAB tail. Valid and test may be missing; other files and folders are ignored.
- One .tsv/.txt, .csv or .parquet with named columns (see `table`). Each distinct date is a snapshot, in
  order of time; without a `split` column every fact is train.
- One .nt or .ttl file: a stream of a single snapshot.

All but Parquet may be gzip-compressed (.gz). Text is UTF-8, with or without a byte order mark, with LF or
CRLF line ends; names may hold spaces.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path

from meor.errors import StreamError
from meor.stream.parquet import parquet_table
from meor.stream.rdf import Literals, rdf_facts
from meor.stream.records import LabelPool, Origin, Part, Report, warn
from meor.stream.snapshot import LabelFact, Stream
from meor.stream.table import FactTable, bare_facts, text_table
from meor.stream.text import check_regular, tab_facts
from meor.stream.validation import Duplicates, assemble, check_choice, check_numbers
from meor.typing import SPLITS, Split

_TAB, _COMMA, _PARQUET, _RDF = (".tsv", ".txt"), (".csv",), (".parquet", ".pq"), (".nt", ".ttl")
_IN_FOLDER = tuple(f"{form}{packed}" for form in (*_TAB, *_RDF) for packed in ("", ".gz"))
_SNAPSHOT_NAME = re.compile(r"[+-]?[0-9]+", re.ASCII)


def read_stream(
    path: Path | str,
    *,
    name: str | None = None,
    duplicates: Duplicates = "error",
    literals: Literals = "skip",
    report: Report | None = None,
) -> Stream:
    """The stream at a path.

    `duplicates="drop"` keeps the first of equal facts, in admission order; `literals="error"` refuses RDF
    statements that hold no two named entities. What is dropped or skipped is told to `report`, one sentence
    each (by default the log `meor.stream`).
    """
    path = Path(path)
    check_choice("literals", literals, ("skip", "error"))
    tell = warn if report is None else report
    pool = LabelPool()
    if _is_folder(path):
        parts = list(_folder_parts(path, pool, literals, tell))
    else:
        parts = _file_parts(path, pool, literals, tell)
    return assemble(name or form_of(path)[0] or str(path), parts, duplicates, tell)


def read_facts(
    path: Path | str, *, dated: bool = False, literals: Literals = "skip", report: Report | None = None
) -> FactTable:
    """The facts of one file that need not be a stream: a static graph, or one with a date column."""
    path = Path(path)
    pool = LabelPool()
    tell = warn if report is None else report
    _, form = form_of(path)
    if form in _RDF:
        table = FactTable(*_rdf(path, pool, literals, tell))
    elif form in _TAB:
        table = bare_facts(path, pool, dated=dated)
    else:
        table = _table(path, pool)
    if dated and len(table.date) != len(table.facts):
        raise table.origin.error("no column is called date", "Name the column of dates `date`")
    return table


def form_of(path: Path) -> tuple[str, str]:
    """The name without its endings, and the lower-case ending that says the format (.gz apart)."""
    plain = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    stem, form = os.path.splitext(plain)
    return stem, form.lower()


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False  # opening it as a file tells why


def _file_parts(path: Path, pool: LabelPool, literals: Literals, report: Report) -> list[Part]:
    _, form = form_of(path)
    if form in _RDF:
        return [Part(0, Split.TRAIN, *_rdf(path, pool, literals, report))]
    table = _table(path, pool)
    origin = table.origin
    if table.snapshot and table.date:
        raise origin.error("both a snapshot and a date column", "Remove or rename one")
    if not table.facts:
        raise origin.error("the file holds no fact", "Add facts")
    if not table.snapshot and not table.date:
        remedy = "Add one, or cut the graph into a stream with `meor data grow`"
        raise origin.error("no column is called snapshot or date", remedy)
    when = table.snapshot
    if table.date:
        rank = {date: index for index, date in enumerate(sorted(set(table.date)))}
        when = [rank[date] for date in table.date]
    check_numbers(when, origin)
    return _split_up(table, when)


def _split_up(table: FactTable, when: Sequence[int]) -> list[Part]:
    """Train, valid and test of every snapshot, in file order."""
    cells = [(snapshot, split) for snapshot in range(max(when) + 1) for split in SPLITS]
    rows: dict[tuple[int, Split], list[int]] = {cell: [] for cell in cells}
    for row, cell in enumerate(zip(when, table.split or repeat(Split.TRAIN), strict=False)):
        rows[cell].append(row)
    return [
        Part(
            *cell, table.origin, [table.facts[row] for row in chosen], [table.numbers[row] for row in chosen]
        )
        for cell, chosen in rows.items()
    ]


def _table(path: Path, pool: LabelPool) -> FactTable:
    _, form = form_of(path)
    if form in _TAB or form in _COMMA:
        return text_table(path, pool, comma=form in _COMMA)
    if form in _PARQUET and path.suffix.lower() != ".gz":
        return parquet_table(path, pool)
    check_regular(path)
    remedy = "Use a folder of snapshots, or .tsv, .txt, .csv, .nt, .ttl (also with .gz), or .parquet"
    raise StreamError(f"unknown format {path.suffix!r}", remedy=remedy, path=path)


def _rdf(
    path: Path, pool: LabelPool, literals: Literals, report: Report
) -> tuple[Origin, list[LabelFact], list[int]]:
    return rdf_facts(path, pool, turtle=form_of(path)[1] == ".ttl", literals=literals, report=report)


def _folder_parts(path: Path, pool: LabelPool, literals: Literals, report: Report) -> Iterator[Part]:
    for snapshot, folder in enumerate(_snapshot_folders(path)):
        files = _split_files(folder)
        for split, file in files.items():
            if form_of(file)[1] in _RDF:
                yield Part(snapshot, split, *_rdf(file, pool, literals, report))
            else:
                facts = tab_facts(file, pool)
                yield Part(snapshot, split, Origin(file), facts, range(1, len(facts) + 1))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        problem = f"the folder cannot be read ({error.strerror})"
        raise StreamError(problem, remedy="Check its permissions", path=folder) from None


def _snapshot_folders(path: Path) -> list[Path]:
    found: dict[int, Path] = {}
    for entry in _entries(path):
        if not _SNAPSHOT_NAME.fullmatch(entry.name):
            continue
        number = int(entry.name)
        if entry.name != str(abs(number)):
            remedy = "Name snapshot folders 0, 1, 2, ..."
            raise StreamError(f"{entry.name!r} is not a snapshot number", remedy=remedy, path=entry)
        if not _is_folder(entry):
            remedy = "A snapshot is a folder with train.txt, valid.txt and test.txt"
            raise StreamError("is a file where a snapshot folder is needed", remedy=remedy, path=entry)
        found[number] = entry
    if not found:
        remedy = (
            "A stream is a folder of snapshot folders 0, 1, 2, ... with train.txt, valid.txt and test.txt"
        )
        raise StreamError("holds no snapshot folder", remedy=remedy, path=path)
    check_numbers(found, Origin(path))
    return [found[number] for number in range(len(found))]


def _split_files(folder: Path) -> dict[Split, Path]:
    names = {entry.name.lower(): entry for entry in _entries(folder)}
    chosen: dict[Split, Path] = {}
    for split in SPLITS:
        files = [names[f"{split}{form}"] for form in _IN_FOLDER if f"{split}{form}" in names]
        if len(files) > 1:
            both = " and ".join(file.name for file in files[:2])
            raise StreamError(f"both {both} hold {split} facts", remedy="Keep one of them", path=folder)
        if files:
            chosen[split] = files[0]
    if Split.TRAIN not in chosen:
        raise StreamError("no train.txt", remedy="Every snapshot needs train facts", path=folder)
    return chosen
