"""A table as text, Markdown, LaTeX or CSV. CSV keeps full precision, the others round (`digits.py`)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from meor.escape import LONGEST, clipped, csv_cell, latex, markdown, visible
from meor.study.digits import bound, effect, level
from meor.study.results import TABLES, Results
from meor.study.table import Kind, StudyTable, Value

MISSING = "--"


def as_text(table: StudyTable) -> str:
    cells = [list(table.columns), *_cells(table)]
    layout = [
        (max(len(row[at]) for row in cells), "<" if kind == "text" else ">")
        for at, kind in enumerate(table.columns.values())
    ]
    widths = [width for width, _ in layout]
    lines = [
        "  ".join(f"{cell:{side}{width}}" for cell, (width, side) in zip(row, layout, strict=True))
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    notes = (visible(note) for note in table.notes)
    return "\n".join([visible(table.title), "", *(line.rstrip() for line in lines), "", *notes]) + "\n"


def as_markdown(table: StudyTable) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(markdown(cell) for cell in cells) + " |"

    rule = ["---" if kind == "text" else "---:" for kind in table.columns.values()]
    body = [line(cells) for cells in _cells(table)]
    head = [f"**{markdown(table.title)}**", "", line(table.columns), line(rule)]
    return "\n".join([*head, *body, "", *(markdown(note) for note in table.notes)]) + "\n"


def as_latex(table: StudyTable) -> str:
    """A booktabs tabular in a table environment, the notes in its caption."""

    def line(cells: Iterable[str]) -> str:
        return "    " + " & ".join(latex(cell) for cell in cells) + r" \\"

    layout = "".join("l" if kind == "text" else "r" for kind in table.columns.values())
    return "\n".join(
        [
            r"\begin{table*}[t]",
            rf"  \caption{{{latex(' '.join((table.title + '.', *table.notes)))}}}",
            rf"  \label{{tab:{table.name}}}",
            r"  \centering",
            rf"  \begin{{tabular}}{{@{{}}{layout}@{{}}}}",
            r"    \toprule",
            line(table.columns),
            r"    \midrule",
            *(line(cells) for cells in _cells(table)),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


def as_csv(table: StudyTable) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow(["" if value is None else csv_cell(value) for value in row])
    return buffer.getvalue()


FORMATS: dict[str, Callable[[StudyTable], str]] = {
    "txt": as_text,
    "md": as_markdown,
    "tex": as_latex,
    "csv": as_csv,
}


def write_tables(folder: Path, tables: Sequence[StudyTable]) -> None:
    """Every table in every format, in a study's folder; tables of an earlier, smaller study are replaced."""
    Results(folder).replace(
        {
            f"{TABLES}/{table.name}.{ending}": render(table).encode()
            for table in tables
            for ending, render in FORMATS.items()
        }
    )


def _cells(table: StudyTable) -> list[list[str]]:
    kinds = table.columns.values()
    return [[_shown(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in table.rows]


def _shown(value: Value, kind: Kind) -> str:
    if value is None:
        return MISSING
    if isinstance(value, float):
        return _ROUNDED.get(kind, level)(value)
    return clipped(visible(str(value)), LONGEST)


_ROUNDED: dict[Kind, Callable[[float], str]] = {
    "effect": effect,
    "bound": bound,
    # A coefficient is a matter of orders of magnitude: four decimals would hide it.
    "coefficient": "{:.3g}".format,
    "multiple": "{:g}".format,
    "offset": "{:+.3f}".format,
}
