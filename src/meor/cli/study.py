"""`meor study`: paired runs, their effects and tables, by one command that may be stopped at any time."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from meor.calls.study import study, tables_of, tell_failures
from meor.cli import new_verb
from meor.cli.options import Columns, DataDir, DuplicatesRule, Memory, UnseenRule
from meor.escape import shell, terminal
from meor.study.conduct import Findings
from meor.study.paired_tables import HOLM_TABLES
from meor.study.presets import PRESET_STUDIES
from meor.study.rows import RUNS
from meor.study.table import as_text
from meor.study.tables import EFFECTS_FILE

app = new_verb()


@app.command()
def command(
    name: Annotated[
        str, typer.Argument(metavar="STUDY", help=f"{', '.join(PRESET_STUDIES)}, or a study file (YAML).")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder of the results. [results/STUDY]")] = None,
    pairs: Annotated[int | None, typer.Option(min=1, help="How many pairs. [as in the study]")] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="Stream instead of the study's; repeatable.")
    ] = None,
    backbone: Annotated[list[str] | None, typer.Option(help="Backbone; repeatable.")] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="Host, such as `lkge variant=released`; repeatable.")
    ] = None,
    preset: Annotated[list[str] | None, typer.Option(help="paper or practical; repeatable.")] = None,
    rule: Annotated[
        list[str] | None, typer.Option(help="Coefficient: balance, validated or a number; repeatable.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Method; repeatable.")] = None,
    tables: Annotated[list[str] | None, typer.Option("--table", help="Table to make; repeatable.")] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE for every run, e.g. dim=64; repeatable.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Local processes. [all cores]")] = None,
    executor: Annotated[
        str | None, typer.Option(help="processes, serial, or dask://HOST:PORT. [processes]")
    ] = None,
    runs: Annotated[Path | None, typer.Option(help="Folder of the run folders. [OUT/runs]")] = None,
    weights: Annotated[
        bool,
        typer.Option(help="Keep the weights of finished runs (those of the host alone stay)."),
    ] = True,
    memory: Memory = "1GiB",
    cache: Annotated[Path | None, typer.Option(help="Where base models are shared.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(min=0, help="Seconds between checkpoints.")] = 30.0,
    data_dir: DataDir = None,
    duplicates: DuplicatesRule = None,
    unseen: UnseenRule = None,
    columns: Columns = None,
    holm: Annotated[bool, typer.Option("--holm", help="Add p-values of ΔH_cur adjusted by Holm.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no tables.")] = False,
) -> None:
    """Paired runs of several methods, their effects and the paper's tables.

    \b
    The paper's Tables 2 and 3:   meor study primary
    As published, and only that:  meor study primary --preset paper --rule balance
    In small, on your own graph:  meor study primary --stream my/folder --pairs 3 --set dim=64
    Many machines:                meor study primary --executor dask://HOST:8786

    `primary` as it is takes the preset practical under both rules, balance and validated; the latter needs
    runs of a further pair that only choose its multiples.

    Stop it whenever you like: the same command goes on where it stopped, and finished runs are never made
    again. A run that fails is named, and the rest goes on. OUT gets runs.parquet with one row per run, the
    tables as text, Markdown, LaTeX and CSV, and the command; `meor report OUT` makes a page of it, also of
    the part that is there when a study was stopped.

    A worker has one thread: two runs side by side are faster than one on two threads. Dask workers need the
    folders of the study, of the data and of the cache under the same paths; give each one thread.
    """
    signal.signal(signal.SIGTERM, _stop)
    made = study(
        name,
        out=out,
        pairs=pairs,
        stream=stream,
        backbone=backbone,
        host=host,
        preset=preset,
        rule=rule,
        method=method,
        table=tables,
        settings=sets or (),
        workers=workers,
        executor=executor,
        runs=runs,
        weights=weights,
        memory=memory,
        cache=cache,
        checkpoint_seconds=checkpoint_seconds,
        data_dir=data_dir,
        duplicates=duplicates,
        unseen=unseen,
        columns=columns,
        holm=holm,
        quiet=quiet,
        strict=False,
        command=shell(["meor", *sys.argv[1:]]),
    )
    assert made.found is not None  # noqa: S101  (it was made just now)
    if not quiet:
        _show(made.path, made.found, runs, holm=holm)
    tell_failures(made.found)


def _stop(*_: object) -> None:
    """A study that is asked to end takes its workers with it."""
    raise KeyboardInterrupt


def _show(out: Path, found: Findings, runs: Path | None, *, holm: bool) -> None:
    made = tables_of(found, holm=holm)
    for table in made:
        print(as_text(replace(table, notes=())))
    notes = dict.fromkeys(terminal(note) for table in made for note in table.notes)
    if notes:
        print(*notes, sep="\n")
    if holm and not set(HOLM_TABLES) & set(found.plan.tables):
        print(
            f"--holm: this study has none of the tables {', '.join(HOLM_TABLES)}; {EFFECTS_FILE} has holm_p."
        )
    if found.rows:
        report = ["meor", "report", str(out), *(["--runs", str(runs)] if runs is not None else [])]
        print(f"{len(found.rows)} rows in {terminal(out / RUNS)}; {shell(report)} makes a page of them.")
