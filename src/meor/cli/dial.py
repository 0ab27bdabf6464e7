"""`meor dial`: newcomers' rows times a scale, without training anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meor.calls.progress import Bar, Plain
from meor.calls.run import resources
from meor.cli import new_verb
from meor.cli.options import AsJson, DataDir, Memory, Quiet, Threads
from meor.cli.run import conclude
from meor.errors import InputError
from meor.escape import LONGEST, clipped_start, shell, terminal
from meor.evaluation.dial import HIGH, LOW, POINTS, spread
from meor.evaluation.endpoints import MEANING, note, overall
from meor.run.dial import MARGIN, Dial, dial
from meor.run.dialled import keep
from meor.run.session import use_threads
from meor.run.view import RunView
from meor.storage.disk import Disk, commit_file
from meor.stream.occurrence import sample_note
from meor.typing import Floats

app = new_verb()

LINES = 15
"""Points that the table shows at most; --json holds all."""


@app.command()
def command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    scales: Annotated[
        str | None,
        typer.Option(
            help="LOW:HIGH:POINTS at equal ratios, or numbers with commas between. "
            f"[{LOW:g}:{HIGH:g}:{POINTS}]"
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="valid or test; a scale is chosen on valid.")] = "valid",
    keep_scale: Annotated[
        float | None, typer.Option("--keep", metavar="SCALE", help="Write a run at this scale to --out.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the new run, with --keep.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in --out.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="SVG file to write. [dial.svg in the folder]", dir_okay=False)
    ] = None,
    threads: Threads = None,
    memory: Memory = "1GiB",
    quiet: Quiet = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Newcomers' rows times one scale: the whole curve of endpoints, from one pass over the scores.

    \b
    The curve on validation facts:  meor dial runs/entity
    Other scales:                   meor dial runs/entity --scales .8:1.25:31
    A run at one of its points:     meor dial runs/entity --keep .9 --out runs/entity-.9

    Newcomers are all entities after snapshot 0. A larger scale helps them and hides old answers, a smaller
    one does the opposite. Nothing is trained: where scores are inner products, every candidate changes places
    with an answer at one scale at most. --keep writes a whole run folder, ranked on the splits of the run.
    """
    if (keep_scale is None) != (out is None):
        raise InputError("--keep and --out belong together", remedy="Give both, or neither")
    view, given = RunView.open(run), resources(threads, memory, None, 0.0)
    use_threads(given.threads)
    stream = view.stream(data_dir)
    with _progress(quiet) as say:
        if keep_scale is not None and out is not None:
            found = keep(view, keep_scale, out, stream=stream, resources=given, say=say, force=force)
        else:
            grid = None if scales is None else parsed(scales)
            curve = dial(view, scales=grid, split=split, stream=stream, memory=given.memory, say=say)
    if keep_scale is not None and out is not None:
        conclude(out, found, quiet=quiet, as_json=as_json)
        return
    target = picture if picture is not None else run / "dial.svg"
    _draw(curve, target, f"{run.resolve().name}: newcomers' rows times a scale")
    if as_json:
        print(json.dumps({"run": str(run), **curve.to_json()}, indent=2, allow_nan=False))
    elif not quiet:
        _show(curve, run, target)


class _progress:  # noqa: N801  (used as a function)
    """One line per update: a bar on a terminal, plain lines elsewhere, nothing with --quiet."""

    def __init__(self, quiet: bool) -> None:
        console = Console(stderr=True)
        self._shown = None if quiet else Bar(console) if console.is_terminal else Plain(console)

    def __enter__(self) -> Callable[[str], object]:
        if self._shown is None:
            return len
        self._shown.__enter__()
        return self._shown.line if isinstance(self._shown, Bar) else self._shown.say

    def __exit__(self, *error: object) -> None:
        if self._shown is not None:
            self._shown.__exit__(*error)


def parsed(text: str) -> Floats:
    """`LOW:HIGH:POINTS`, or a list."""
    try:
        if ":" not in text:
            return np.array([float(part) for part in text.split(",")])
        low, high, points = text.split(":")
        if not 0 < float(low) < float(high) < np.inf or int(points) < 2:
            raise ValueError
        return spread(float(low), float(high), int(points))
    except ValueError:
        raise InputError(
            f"--scales {text} is neither LOW:HIGH:POINTS nor numbers with commas between",
            remedy=f"Write e.g. --scales {LOW:g}:{HIGH:g}:{POINTS} or --scales .9,1,1.1",
        ) from None


def _draw(curve: Dial, path: Path, title: str) -> None:
    from meor.report.dial_figure import dial_figure
    from meor.report.html import standalone

    if path.is_dir():
        raise InputError("is a folder", remedy="Name a file with --picture", path=path)
    path.parent.mkdir(parents=True, exist_ok=True)
    commit_file(Disk(), path, standalone(dial_figure(curve, title)).encode())


def _show(curve: Dial, run: Path, picture: Path) -> None:
    console = Console()
    place = clipped_start(terminal(run), LONGEST)
    chosen = curve.safest()
    console.print(_table(curve, chosen, f"{place}, {curve.split.value} facts: mean reciprocal ranks"))
    if left := len(curve.scales) - len(_lines(curve, chosen)):
        console.print(Text(f"{left} more scales are in the picture, and in --json."))
    marked = note((name, overall(curve.points[0][name].to_json())) for name in MEANING)
    for line in (marked, sample_note(curve.sample)):
        if line:
            console.print(Text(line))
    if chosen is not None:
        console.print(
            Text(f"* highest H_cur with A_TN at most {MARGIN:g} below that of the run. A run at that point:")
        )
        command = shell(["meor", "dial", str(run), "--keep", f"{chosen:.6g}", "--out", f"{run}-dialled"])
        console.print(Text(f"  {command}"), soft_wrap=True)
    console.print(Text(f"Picture: {terminal(picture)}"), soft_wrap=True)


def _lines(curve: Dial, chosen: float | None) -> list[int]:
    """Points to print: evenly spread, with the ends, scale 1 and the chosen one."""
    every = np.linspace(0, len(curve.scales) - 1, min(LINES - 2, len(curve.scales))).round().astype(int)
    named = [at for at, scale in enumerate(curve.scales) if scale in (1.0, chosen)]
    return sorted({*every.tolist(), *named})


def _table(curve: Dial, chosen: float | None, title: str) -> Table:
    table = Table(title=Text(title), title_justify="left")
    table.add_column("scale", justify="right", style="bold", no_wrap=True)
    for name in MEANING:
        table.add_column(name, justify="right")
    table.add_column("", no_wrap=True)
    for at in _lines(curve, chosen):
        scale, cells = curve.scales[at], [overall(curve.points[at][name].to_json()) for name in MEANING]
        values = ["-" if each.value is None else f"{each.value:.4f}{each.mark}" for each in cells]
        remark = " ".join([*(["as trained"] if scale == 1.0 else []), *(["*"] if scale == chosen else [])])
        table.add_row(f"{scale:.4g}", *values, remark)
    return table
