"""Streams as files: read from disk, all of it and checked, and written as a folder.

- A folder: `<snapshot 0, 1, ...>/{train,valid,test}.txt` (or .tsv, .nt, .ttl), one fact per line as head TAB
  relation TAB tail. Valid and test may be missing; other files and folders are ignored. Streams are written
  in this form.
- One .tsv/.txt, .csv or .parquet with named columns (see `columns`). Each distinct date is a snapshot, in
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
from typing import get_args

from meor.errors import StreamError
from meor.storage.disk import Disk, fill_folder, publish, staging
from meor.stream.columns import FactTable, bare_facts, text_table
from meor.stream.formats import Literals, parquet_table, rdf_facts
from meor.stream.snapshot import Stream
from meor.stream.source import LabelPool, Origin, Part, Report, check_regular, shown, tab_facts, warn
from meor.stream.validation import Duplicates, assemble, check_choice, check_numbers
from meor.typing import SPLITS, Facts, Split

_TAB, _COMMA, _PARQUET, _RDF = (".tsv", ".txt"), (".csv",), (".parquet", ".pq"), (".nt", ".ttl")
_IN_FOLDER = tuple(f"{form}{packed}" for form in (*_TAB, *_RDF) for packed in ("", ".gz"))
_SNAPSHOT_NAME = re.compile(r"[+-]?[0-9]+", re.ASCII)
# What a line of the layout cannot carry, and halves of characters, which UTF-8 has no bytes for.
_UNWRITABLE = re.compile("[\0\t\n\r\ufeff\ud800-\udfff]")


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
    statements that do not hold two named entities. `report` gets one sentence about whatever is dropped or
    skipped (by default it goes to the log `meor.stream`).
    """
    path = Path(path)
    check_choice("literals", literals, get_args(Literals))
    tell, pool = report or warn, LabelPool()
    if _is_folder(path):
        parts = list(_folder_parts(path, pool, literals, tell))
    else:
        parts = _file_parts(path, pool, literals, tell)
    return assemble(name or form_of(path)[0] or str(path), parts, duplicates, tell)


def read_facts(
    path: Path | str, *, dated: bool = False, literals: Literals = "skip", report: Report | None = None
) -> FactTable:
    """The facts of one file that need not be a stream: a static graph, or one with a date column."""
    path, pool = Path(path), LabelPool()
    if form_of(path)[1] in _TAB:
        table = bare_facts(path, pool, dated=dated)
    else:
        table = _table(path, pool, literals, report or warn)
    if dated and len(table.date) != len(table.facts):
        raise table.origin.error("no column is called date", "Name the column of dates `date`")
    return table


def write_stream(stream: Stream, folder: Path | str) -> None:
    """Create `folder`, complete or not at all; one sub-folder per snapshot. It must not exist yet."""
    folder = Path(folder)
    check_target(folder)
    for label in (*stream.entities, *stream.relations):
        if not label or label.isspace() or _UNWRITABLE.search(label):
            problem = f"the label {shown(label)} is empty or holds a tab, a line end or a NUL"
            raise StreamError(problem, remedy="Rename it before writing the stream")
    files = {
        f"{index}/{split}.txt": _lines(stream, snapshot.facts([split])).encode()
        for index, snapshot in enumerate(stream.snapshots)
        for split in SPLITS
    }
    try:
        with staging(folder.parent) as place:
            fill_folder(Disk(), place / "stream", files)
            publish(Disk(), place / "stream", folder)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise StreamError(problem, remedy="Free some space or choose another folder", path=folder) from error


def check_target(folder: Path) -> None:
    """Refuse a target that exists; called early so that no work is done in vain."""
    if "\0" in str(folder):
        raise StreamError("a path cannot hold a NUL", remedy="Check the path", path=folder)
    if os.path.lexists(folder):
        raise StreamError("already exists", remedy="Remove it or choose another folder", path=folder)


def form_of(path: Path) -> tuple[str, str]:
    """The name without its endings, and the lower-case ending that says the format (.gz apart)."""
    plain = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    stem, form = os.path.splitext(plain)
    return stem, form.lower()


def _lines(stream: Stream, facts: Facts) -> str:
    entity, relation = stream.entities.labels, stream.relations.labels
    return "".join(f"{entity[head]}\t{relation[of]}\t{entity[tail]}\n" for head, of, tail in facts.tolist())


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False  # the error comes when it is opened as a file


def _file_parts(path: Path, pool: LabelPool, literals: Literals, report: Report) -> list[Part]:
    table = _table(path, pool, literals, report)
    origin = table.origin
    if form_of(path)[1] in _RDF:
        return [Part(0, Split.TRAIN, origin, table.facts, table.numbers)]
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
    facts, numbers = table.facts, table.numbers
    return [
        Part(*cell, table.origin, [facts[row] for row in chosen], [numbers[row] for row in chosen])
        for cell, chosen in rows.items()
    ]


def _table(path: Path, pool: LabelPool, literals: Literals, report: Report) -> FactTable:
    _, form = form_of(path)
    if form in _RDF:
        return rdf_facts(path, pool, turtle=form == ".ttl", literals=literals, report=report)
    if form in _TAB or form in _COMMA:
        return text_table(path, pool, comma=form in _COMMA)
    if form in _PARQUET and path.suffix.lower() != ".gz":
        return parquet_table(path, pool)
    check_regular(path)
    remedy = "Use a folder of snapshots, or .tsv, .txt, .csv, .nt, .ttl (also with .gz), or .parquet"
    raise StreamError(f"unknown format {path.suffix!r}", remedy=remedy, path=path)


def _folder_parts(path: Path, pool: LabelPool, literals: Literals, report: Report) -> Iterator[Part]:
    for snapshot, folder in enumerate(_snapshot_folders(path)):
        for split, file in _split_files(folder).items():
            if form_of(file)[1] in _RDF:
                table = _table(file, pool, literals, report)
                yield Part(snapshot, split, table.origin, table.facts, table.numbers)
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
