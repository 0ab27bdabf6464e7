"""`meor.report`: one HTML file that shows what a run or a study found."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path

from meor.calls.drawing import Drawing
from meor.calls.progress import on_stderr
from meor.calls.study import StudyView
from meor.errors import InputError
from meor.escape import markup
from meor.heap import parse_bytes
from meor.report.html import FIGURES, REPORT, figures_of, page_of, render, write, write_figures
from meor.report.page import Page
from meor.run.view import RunView
from meor.storage.parquet import byte_budget
from meor.study.rows import RUNS


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """A report that was written."""

    path: Path
    size: int  # bytes
    page: Page
    written: tuple[Path, ...] = ()  # figures as files of their own

    @property
    def figures(self) -> dict[str, Drawing]:
        """The figures by name."""
        named: dict[str, list[int]] = {}
        found = list(figures_of(self.page))
        for at, figure in enumerate(found):
            named.setdefault(figure.name, []).append(at)
        return {name: Drawing([found[at] for at in places]) for name, places in named.items()}

    def __repr__(self) -> str:
        return f"{self.path} ({self.size / 1e6:.1f} MB)"

    def _repr_html_(self) -> str:
        # A frame of its own: neither its style nor its scripts reach the notebook.
        content = markup(render(self.page))
        return f'<iframe srcdoc="{content}" style="width: 100%; height: 800px; border: 0"></iframe>'


def report(
    folder: RunView | StudyView | Path | str,
    *,
    out: Path | str | None = None,
    figures: Path | str | None = None,
    show: bool = False,
    runs: Path | str | None = None,
    data_dir: Path | str | None = None,
    memory: str = "1GiB",
) -> Report:
    """What `meor report` does: of a run or a study, or of their folder. `show` opens it in the browser."""
    of = folder.path if isinstance(folder, RunView | StudyView) else Path(folder)
    place = folder.runs if isinstance(folder, StudyView) and runs is None else runs
    target = of / REPORT if out is None else Path(out)
    if target.is_dir():
        raise InputError("is a folder", remedy="Name a file with --out", path=target)
    runs_in, data = (None if each is None else Path(each) for each in (place, data_dir))
    with byte_budget(parse_bytes(memory)), on_stderr().status("reading") as status:
        page = page_of(of, runs=runs_in, data_dir=data, say=status.update)
    size = write(page, target)
    if figures is None and out is None and (of / RUNS).is_file():
        figures = of / FIGURES
    written = () if figures is None else tuple(write_figures(page, Path(figures)))
    if show:
        webbrowser.open(target.absolute().as_uri())
    return Report(target, size, page, written)
