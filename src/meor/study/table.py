"""A table of a study before it is printed: values at full precision, and how each column is to be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Value = str | float | int | None
Kind = Literal["text", "count", "level", "effect", "bound", "coefficient", "multiple", "offset"]
"""What a column holds: words; numbers of things (W/T/L too); or floats, each kind printed in its own way."""

OURS, PAPER = "ours", "paper"


@dataclass(frozen=True, slots=True)
class StudyTable:
    """Cells keep full precision; whoever renders them rounds. The second column says whose a row is."""

    name: str  # a file name
    title: str
    columns: Mapping[str, Kind]  # in order
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...]

    @property
    def has_ours(self) -> bool:
        """The paper's rows alone are no result of a study."""
        return any(row[1] == OURS for row in self.rows)
