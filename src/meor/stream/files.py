"""Streams as files: read from disk, all of it and checked, and written as a folder.

- A folder: `<snapshot 0, 1, ...>/{train,valid,test}.txt` (or .tsv, .nt, .ttl), one fact per line as head TAB
  relation TAB tail. Valid and test may be missing; other files and folders are ignored. Streams are written
  in this form.
- One .tsv/.txt, .csv or .parquet with a column of snapshots or dates (see `columns`). Each distinct date is a
  snapshot, in order of time; without a column `split` every fact is train.
- One .nt or .ttl file: a stream of a single snapshot.

All but Parquet may be gzip-compressed (.gz). Text is UTF-8, with or without a byte order mark, with LF or
CRLF line ends; names may hold spaces.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import get_args

from meor.errors import ConfigError, StreamError
from meor.escape import shell
from meor.storage.disk import Disk, fill_folder, publish, staging
from meor.stream.cleaning import Change
from meor.stream.columns import FactTable, comma_table, tab_table
from meor.stream.folder import folder_parts, is_folder
from meor.stream.formats import COMMA, PARQUET, RDF, TAB, Literals, form_of, parquet_table, rdf_facts
from meor.stream.header import named_columns
from meor.stream.rules import Duplicates, Unseen, check_choice
from meor.stream.snapshot import Stream
from meor.stream.source import LabelPool, Part, Report, check_regular, shown, warn
from meor.stream.validation import assemble, check_numbers
from meor.typing import SPLITS, Facts, Split

# What a line of the layout cannot carry, and halves of characters, which UTF-8 has no bytes for.
_UNWRITABLE = re.compile("[\0\t\n\r\ufeff\ud800-\udfff]")


def read_stream(
    path: Path | str,
    *,
    name: str | None = None,
    duplicates: Duplicates = "error",
    unseen: Unseen = "error",
    columns: str | None = None,
    literals: Literals = "skip",
    report: Report | None = None,
) -> Stream:
    """The stream at a path.

    `duplicates="drop"` keeps the first of equal facts, in admission order. `unseen` says what becomes of a
    valid or test fact about an entity or relation that no train fact has named by then: `drop`, or `move` to
    the train facts of its snapshot. `columns` names those of a single file: `h=COL,r=COL,t=COL,date=COL`.
    `literals="error"` refuses RDF statements that do not hold two named entities. `report` gets one sentence
    about whatever is dropped, moved or skipped (by default it goes to the log `meor.stream`).
    """
    tell = report or warn
    parts = stream_parts(path, columns=columns, literals=literals, report=tell)
    stream, changes = assemble(name or name_of(path), parts, duplicates, unseen, Path(path))
    for change in changes:
        tell(str(change))
    return stream


def clean_stream(
    path: Path | str,
    out: Path | str,
    *,
    duplicates: Duplicates = "drop",
    unseen: Unseen = "move",
    columns: str | None = None,
    report: Report = warn,
) -> tuple[Stream, list[Change]]:
    """Read a stream by these rules and write it to the new folder `out`; the stream, and what was changed."""
    check_target(Path(out))
    parts = stream_parts(path, columns=columns, report=report)
    stream, changes = assemble(name_of(path), parts, duplicates, unseen, Path(path))
    write_stream(stream, out)
    return stream, changes


def name_of(path: Path | str) -> str:
    """What a stream is called unless somebody names it."""
    return form_of(Path(path))[0] or str(path)


def stream_parts(
    path: Path | str, *, columns: str | None = None, literals: Literals = "skip", report: Report = warn
) -> list[Part]:
    """The facts at a path, by snapshot and split, unchecked but for their form."""
    path, pool, named = Path(path), LabelPool(), named_columns(columns)
    check_choice("literals", literals, get_args(Literals))
    if not is_folder(path):
        return _file_parts(path, pool, named, literals, report)
    if named:
        raise ConfigError(
            f"--columns belongs to a single file, and {path} is a folder", remedy="Leave it out"
        )
    return list(folder_parts(path, pool, literals, report))


def read_facts(
    path: Path | str,
    *,
    dated: bool = False,
    columns: str | None = None,
    literals: Literals = "skip",
    report: Report | None = None,
) -> FactTable:
    """The facts of one file that need not be a stream: a static graph, or one with a date column."""
    table = _table(Path(path), LabelPool(), named_columns(columns), literals, report or warn)
    if dated and len(table.date) != len(table.facts):
        remedy = "Call the column of dates date, timestamp or time, or name it: --columns date=COL"
        raise table.origin.error("no column holds dates", remedy)
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


def _lines(stream: Stream, facts: Facts) -> str:
    entity, relation = stream.entities.labels, stream.relations.labels
    return "".join(f"{entity[head]}\t{relation[of]}\t{entity[tail]}\n" for head, of, tail in facts.tolist())


def _file_parts(
    path: Path, pool: LabelPool, named: Mapping[str, str], literals: Literals, report: Report
) -> list[Part]:
    table = _table(path, pool, named, literals, report)
    origin = table.origin
    if form_of(path)[1] in RDF:
        return [Part(0, Split.TRAIN, origin, table.facts, table.numbers)]
    if table.snapshot and table.date:
        raise origin.error(
            "both a snapshot and a date column", "Say which counts: --columns snapshot=COL, or date=COL"
        )
    if not table.facts:
        raise origin.error("the file holds no fact", "Add facts")
    if not table.snapshot and not table.date:
        grow = shell(["meor", "data", "grow", str(path), "OUT"])
        raise origin.error(
            "no column says when a fact came (snapshot, date, timestamp or time)",
            f"Cut the graph into a stream with `{grow}`, or name the column: --columns date=COL",
        )
    when = table.snapshot
    if table.date:
        rank = {date: index for index, date in enumerate(sorted(set(table.date)))}
        when = [rank[date] for date in table.date]
    check_numbers(when, origin)
    return split_up(table, when)


def split_up(table: FactTable, when: Sequence[int]) -> list[Part]:
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


def _table(
    path: Path, pool: LabelPool, named: Mapping[str, str], literals: Literals, report: Report
) -> FactTable:
    _, form = form_of(path)
    if form in RDF:
        if named:
            raise ConfigError(f"--columns does not go with RDF, and {path} is RDF", remedy="Leave it out")
        return rdf_facts(path, pool, turtle=form == ".ttl", literals=literals, report=report)
    if form in TAB:
        return tab_table(path, pool, named, report)
    if form in COMMA:
        return comma_table(path, pool, named)
    if form in PARQUET and path.suffix.lower() != ".gz":
        return parquet_table(path, pool, named)
    check_regular(path)
    remedy = "Use a folder of snapshots, or .tsv, .txt, .csv, .nt, .ttl (also with .gz), or .parquet"
    raise StreamError(f"unknown format {path.suffix!r}", remedy=remedy, path=path)
