"""`meor report`: one HTML file that shows what a run or a study found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meor.calls.report import report
from meor.cli import new_verb
from meor.cli.options import DataDir, ReadingMemory
from meor.escape import terminal
from meor.report.html import FIGURES, REPORT

app = new_verb()


@app.command()
def command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY_OR_RUN", help="A folder that `meor study` or `meor run` made, or a verdict."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help=f"File to write. [{REPORT} in the folder]", dir_okay=False)
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder for the figures as SVG files. [{FIGURES} in a study's folder; none with --out]",
            file_okay=False,
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    runs: Annotated[
        Path | None, typer.Option(help="Where a study's run folders are, if not in the study's folder.")
    ] = None,
    data_dir: DataDir = None,
    memory: ReadingMemory = "1GiB",
) -> None:
    """One HTML file that shows what a run or a study found.

    It needs no network and no other file, reads well on a phone, on paper, and in the dark. What cannot be
    shown (a stream or weights that are not here) is said in its place. Of a study, each figure is also
    written as an SVG file of its own; of a run, where --figures asks for it.
    """
    made = report(folder, out=out, figures=figures, show=show, runs=runs, data_dir=data_dir, memory=memory)
    print(f"{terminal(made.path)} ({made.size / 1e6:.1f} MB)")
    if made.written:
        print(f"{len(made.written)} figures in {terminal(made.written[0].parent)}")
