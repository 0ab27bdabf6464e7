"""A table as text, Markdown, LaTeX or CSV. CSV keeps full precision, the others print four decimals."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from meor.run.disk import Disk, commit_file
from meor.study.paired_tables import StudyTable, Value

MISSING = "--"
DECIMALS = 4


def as_text(table: StudyTable) -> str:
    cells = [list(table.columns), *([_shown(value) for value in row] for row in table.rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(table.columns))]
    lines = [
        "  ".join(_aligned(cell, width, at) for at, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([table.title, "", *(line.rstrip() for line in lines), "", *table.notes]) + "\n"


def as_markdown(table: StudyTable) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    rule = ["---" if at < 2 else "---:" for at in range(len(table.columns))]
    body = [line([_shown(value) for value in row]) for row in table.rows]
    return (
        "\n".join([f"**{table.title}**", "", line(table.columns), line(rule), *body, "", *table.notes]) + "\n"
    )


def as_latex(table: StudyTable) -> str:
    """A booktabs tabular in a table environment, the notes in its caption."""

    def line(cells: Sequence[str]) -> str:
        return "    " + " & ".join(_escaped(cell) for cell in cells) + r" \\"

    layout = "ll" + "r" * (len(table.columns) - 2)
    return "\n".join(
        [
            r"\begin{table*}[t]",
            rf"  \caption{{{_escaped(' '.join((table.title + '.', *table.notes)))}}}",
            rf"  \label{{tab:{table.name}}}",
            r"  \centering",
            rf"  \begin{{tabular}}{{@{{}}{layout}@{{}}}}",
            r"    \toprule",
            line(table.columns),
            r"    \midrule",
            *(line([_shown(value) for value in row]) for row in table.rows),
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
        writer.writerow(["" if value is None else value for value in row])
    return buffer.getvalue()


FORMATS: dict[str, Callable[[StudyTable], str]] = {
    "txt": as_text,
    "md": as_markdown,
    "tex": as_latex,
    "csv": as_csv,
}


def write_tables(folder: Path, tables: Sequence[StudyTable]) -> None:
    """Every table in every format; tables of an earlier, smaller study are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        for ending, render in FORMATS.items():
            commit_file(Disk(), folder / f"{table.name}.{ending}", render(table).encode())


def _shown(value: Value) -> str:
    if value is None:
        return MISSING
    if isinstance(value, float):
        text = f"{value:.{DECIMALS}f}"
        # Rounding must not invent a sign.
        return text.removeprefix("-") if float(text) == 0 else text
    return str(value)


def _aligned(cell: str, width: int, at: int) -> str:
    return cell.ljust(width) if at < 2 else cell.rjust(width)


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "Δ": r"$\Delta$",
}


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(char, char) for char in text)
