"""Which report a folder asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from meor.errors import InputError
from meor.report.page import Page
from meor.report.run_page import run_page
from meor.report.study_page import study_page
from meor.run.layout import MANIFEST, is_run
from meor.run.view import RunView
from meor.study.rows import RUNS


def page_of(
    folder: Path,
    *,
    runs: Path | None = None,
    data_dir: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Page:
    """The report of a run folder, or of a study's folder."""
    if is_run(folder):
        return run_page(RunView.open(folder), data_dir=data_dir, say=say)
    if (folder / RUNS).is_file():
        return study_page(folder, runs=runs, data_dir=data_dir, say=say)
    raise InputError(
        f"holds neither a run ({MANIFEST}) nor a study ({RUNS})",
        remedy="Name a folder that `meor run` or `meor study` made",
        path=folder,
    )
