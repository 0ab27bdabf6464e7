"""A stream as a folder: `<snapshot 0, 1, ...>/{train,valid,test}.txt`, or .tsv, .nt, .ttl, also packed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from meor.errors import StreamError
from meor.stream.columns import fill
from meor.stream.formats import RDF, TAB, Literals, form_of, rdf_facts
from meor.stream.header import FACT, columns_of, is_header
from meor.stream.snapshot import LabelFact
from meor.stream.source import LabelPool, Origin, Part, Report, check_fact, tab_rows
from meor.stream.validation import check_numbers
from meor.typing import SPLITS, Split

_IN_FOLDER = tuple(f"{form}{packed}" for form in (*TAB, *RDF) for packed in ("", ".gz"))
_SNAPSHOT_NAME = re.compile(r"[+-]?[0-9]+", re.ASCII)


def is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False  # the error comes when it is opened as a file


def folder_parts(path: Path, pool: LabelPool, literals: Literals, report: Report) -> Iterator[Part]:
    """The facts of every file, by snapshot and split."""
    for snapshot, folder in enumerate(_snapshot_folders(path)):
        for split, file in _split_files(folder).items():
            form = form_of(file)[1]
            if form in RDF:
                table = rdf_facts(file, pool, turtle=form == ".ttl", literals=literals, report=report)
                yield Part(snapshot, split, table.origin, table.facts, table.numbers)
            else:
                yield Part(snapshot, split, Origin(file), *_text_facts(file, pool))


def _text_facts(path: Path, pool: LabelPool) -> tuple[list[LabelFact], Sequence[int]]:
    """Facts and their lines: head TAB relation TAB tail, or columns that the first line names."""
    origin, rows = Origin(path), tab_rows(path)
    first = next(rows, None)
    if first is not None and is_header(first[1], {}):
        at = columns_of(origin, first[1], {})
        table = fill(origin, {role: at[role] for role in FACT}, len(first[1]), rows, pool)
        return table.facts, table.numbers
    facts: list[LabelFact] = []
    for number, cells in rows if first is None else chain([first], rows):
        check_fact(cells, origin, number)
        facts.append(pool.fact(*cells))
    return facts, range(1, len(facts) + 1)


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
        if not is_folder(entry):
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
