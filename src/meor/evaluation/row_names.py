"""Whose row is whose in embeddings made elsewhere: lines `entity|relation TAB row TAB label`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meor.errors import InputError
from meor.evaluation.label_file import read_rows
from meor.stream.snapshot import Stream, Vocabulary
from meor.typing import Ids

KINDS = ("entity", "relation")


@dataclass(frozen=True, slots=True)
class RowNames:
    """The names of one table's rows, as arrays: there may be millions."""

    known: Vocabulary
    row_of: Ids  # [ids] -1 where a label has no row
    line_of: Ids  # [ids] of the file
    named: NDArray[np.bool_]  # [rows]
    beyond: set[int] = field(default_factory=set)  # rows that the table does not have

    @classmethod
    def none(cls, known: Vocabulary, n_rows: int) -> RowNames:
        row_of = np.full(len(known), -1, np.int64)
        return cls(known, row_of, np.zeros(len(known), np.int64), np.zeros(n_rows, np.bool_))

    def fault(self, kind: str, row: int, label: str) -> str | None:
        """Why a label cannot have a row."""
        if row in self.beyond or (row < len(self.named) and self.named[row]):
            return f"{kind} row {row} was already named"
        earlier = int(self.line_of[self.known.id(label)])
        return f"the {kind} {label!r} was already given on line {earlier}" if earlier else None

    def add(self, row: int, label: str, line: int) -> None:
        id = self.known.id(label)
        self.row_of[id], self.line_of[id] = row, line
        if row < len(self.named):
            self.named[row] = True
        else:
            self.beyond.add(row)


def read_row_names(path: Path, stream: Stream, n_rows: dict[str, int]) -> dict[str, RowNames]:
    """By kind; each line must name a row and a label of the stream that no other line has named."""
    known = {"entity": stream.entities, "relation": stream.relations}
    found = {kind: RowNames.none(known[kind], n_rows[kind]) for kind in KINDS}
    for line, (kind, row, label) in read_rows(path, ("entity|relation", "row", "label")):
        problem = None
        if kind not in KINDS:
            problem = f"the kind {kind!r} is neither entity nor relation"
        elif not (row.isascii() and row.isdecimal() and len(row) <= 18):
            problem = f"the row {row!r} is not a number counted from 0"
        elif label not in known[kind]:
            problem = f"the stream {stream.name} has no {kind} {label!r}"
        else:
            problem = found[kind].fault(kind, int(row), label)
        if problem is not None:
            raise InputError(
                problem, remedy="Write entity|relation TAB row TAB label, each once", path=path, line=line
            )
        found[kind].add(int(row), label, line)
    return found
