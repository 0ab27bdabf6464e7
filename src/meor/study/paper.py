"""Figures of the paper (Tables 2 to 5) and of others, as printed: beside ours, and never mixed with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from meor.study.rows import Group


@dataclass(frozen=True, slots=True)
class PaperTable:
    """Cells keep the digits they were printed with; what the paper leaves out stays `--`."""

    name: str
    number: int | None
    label: str | None
    stream: str | None
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]

    def cell(self, row: str, column: str) -> str | None:
        """A cell as printed; None where the paper has no such row or column."""
        if row not in self.rows or column not in self.columns:
            return None
        return self.rows[row][self.columns.index(column)]


@cache
def paper_tables() -> Mapping[str, PaperTable]:
    """By name: absolute (2), effects (3), ablation (4), transfer (5), boundary (in the text)."""
    return _read("paper.json")


@cache
def published() -> PaperTable:
    """Protocol A on ENTITY after the last update, TransE: by host, or by the name of another method."""
    return _read("published.json")["protocol A"]


def _read(name: str) -> Mapping[str, PaperTable]:
    content: dict[str, dict[str, Any]] = json.loads(
        files("meor.study").joinpath(name).read_text(encoding="utf-8")
    )
    return {
        name: PaperTable(
            name,
            table.get("table"),
            table.get("label"),
            table.get("stream"),
            tuple(table["columns"]),
            {row: tuple(cells) for row, cells in table["rows"].items()},
        )
        for name, table in content.items()
    }


def paper_table(name: str, group: Group) -> PaperTable | None:
    """The paper's table, where it is about the same stream, host and backbone."""
    table = paper_tables()[name]
    same = is_stream(group.stream, table.stream) and (group.host, group.backbone) == ("replay", "complex")
    return table if same else None


def is_stream(stream: str, printed: str | None) -> bool:
    return printed is not None and stream.casefold() == printed.casefold()
