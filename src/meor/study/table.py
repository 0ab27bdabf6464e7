"""A table as data, how its numbers are rounded, and its files: text, Markdown, LaTeX, CSV.

Studies compute tables; a study's folder holds them as files, and a report shows them as HTML.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from meor.escape import LONGEST, clipped, csv_cell, latex, markdown, visible
from meor.study.results import TABLES, Results

Kind = Literal[
    "text", "count", "level", "effect", "bound", "probability", "coefficient", "multiple", "offset", "share"
]
"""What a column holds: words; numbers of things (W/T/L too); or floats, each kind printed in its own way."""

ABSENT = "--"
PLACES = 4
OURS, PAPER = "ours", "paper"


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    kind: Kind = "text"
    places: int = PLACES  # of a level
    hint: str = ""
    sortable: bool = True
    below: str = ""  # a second, smaller line of its title

    @property
    def numeric(self) -> bool:
        return self.kind != "text"


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of which more is said than the value itself."""

    value: float | None
    tone: str = ""  # "", "good", "bad", "muted", "new", "old"
    below: str = ""  # a second, smaller line
    mark: str = ""  # of a mean over the cells that exist
    text: str | None = None  # shown in place of the number, which sorts
    key: str = ""  # the mark that the entry has in figures


Value = str | float | int | Entry | None


@dataclass(frozen=True, slots=True)
class Table:
    """Values keep full precision; whoever renders them rounds. The first of each row is its header."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()
    name: str = ""  # of its files
    folded: bool = False  # on a page: behind a disclosure; printed open

    @property
    def has_ours(self) -> bool:
        """The paper's rows alone are no result of a study; the second value of a row says whose it is."""
        return any(row[1] == OURS for row in self.rows)


def rounded(value: float, kind: Kind = "level", places: int = PLACES) -> str:
    """At most four decimals: a smaller difference cannot be told, so it is none."""
    if kind == "probability" and 0 < value < 0.1**PLACES:
        return f"<{0.1**PLACES:.{PLACES}f}"
    if kind in _FORMATS:
        return _FORMATS[kind].format(value)
    text = f"{value:.{places}f}"
    # Rounding must not invent a sign.
    return text.removeprefix("-") if float(text) == 0 else text


# A coefficient is a matter of orders of magnitude: four decimals would hide it.
_FORMATS = {"coefficient": "{:.3g}", "multiple": "{:g}", "offset": "{:+.3f}"}


def as_text(table: Table) -> str:
    cells = [[column.title for column in table.columns], *_cells(table)]
    layout = [
        (max(len(row[at]) for row in cells), ">" if column.numeric else "<")
        for at, column in enumerate(table.columns)
    ]
    lines = [
        "  ".join(f"{cell:{side}{width}}" for cell, (width, side) in zip(row, layout, strict=True))
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width, _ in layout))
    notes = (visible(note) for note in table.notes)
    return "\n".join([visible(table.title), "", *(line.rstrip() for line in lines), "", *notes]) + "\n"


def as_markdown(table: Table) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(markdown(cell) for cell in cells) + " |"

    rule = ["---:" if column.numeric else "---" for column in table.columns]
    body = [line(cells) for cells in _cells(table)]
    head = [f"**{markdown(table.title)}**", "", line(column.title for column in table.columns), line(rule)]
    return "\n".join([*head, *body, "", *(markdown(note) for note in table.notes)]) + "\n"


def as_latex(table: Table) -> str:
    """A booktabs tabular in a table environment, the notes in its caption."""

    def line(cells: Iterable[str]) -> str:
        return "    " + " & ".join(latex(cell) for cell in cells) + r" \\"

    layout = "".join("r" if column.numeric else "l" for column in table.columns)
    return "\n".join(
        [
            r"\begin{table*}[t]",
            rf"  \caption{{{latex(' '.join((table.title + '.', *table.notes)))}}}",
            rf"  \label{{tab:{table.name}}}",
            r"  \centering",
            rf"  \begin{{tabular}}{{@{{}}{layout}@{{}}}}",
            r"    \toprule",
            line(column.title for column in table.columns),
            r"    \midrule",
            *(line(cells) for cells in _cells(table)),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


def as_csv(table: Table) -> str:
    """The only format that keeps full precision."""
    return csv_of([column.title for column in table.columns], table.rows)


def csv_of(titles: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows(["" if value is None else csv_cell(value) for value in row] for row in rows)
    return buffer.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {
    "txt": as_text,
    "md": as_markdown,
    "tex": as_latex,
    "csv": as_csv,
}


def write_tables(folder: Path, tables: Sequence[Table]) -> None:
    """Every table in every format, in a study's folder; tables of an earlier, smaller study are replaced."""
    Results(folder).replace(
        {
            f"{TABLES}/{table.name}.{ending}": render(table).encode()
            for table in tables
            for ending, render in FORMATS.items()
        }
    )


def _cells(table: Table) -> list[list[str]]:
    return [
        [_shown(value, column) for value, column in zip(row, table.columns, strict=True)]
        for row in table.rows
    ]


def _shown(value: Value, column: Column) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, float):
        return rounded(value, column.kind, column.places)
    return clipped(visible(str(value)), LONGEST)
