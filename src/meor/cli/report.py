"""`meor report`: one HTML file that shows what a run or a study found."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from meor.cli import new_verb
from meor.cli.options import DataDir, ReadingMemory
from meor.errors import InputError
from meor.escape import terminal
from meor.report.html import FIGURES, REPORT, page_of, write, write_figures
from meor.study.rows import RUNS

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
    target = out if out is not None else folder / REPORT
    if target.is_dir():
        raise InputError("is a folder", remedy="Name a file with --out", path=target)
    with Console(stderr=True).status("reading") as status:
        page = page_of(folder, runs=runs, data_dir=data_dir, say=status.update)
    size = write(page, target)
    print(f"{terminal(target)} ({size / 1e6:.1f} MB)")
    if figures is None and out is None and (folder / RUNS).is_file():
        figures = folder / FIGURES
    if figures is not None:
        print(f"{len(write_figures(page, figures))} figures in {terminal(figures)}")
    if show:
        webbrowser.open(target.absolute().as_uri())
