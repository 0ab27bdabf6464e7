"""`meor study`: paired runs, their effects and tables, by one command that may be stopped at any time."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

from meor.cli import new_verb
from meor.cli.options import Columns, DataDir, DuplicatesRule, Memory, UnseenRule
from meor.cli.progress import Bar, Countdown, Plain, Quiet, duration
from meor.cli.run import stream_setting
from meor.errors import StudyError
from meor.escape import shell, terminal
from meor.heap import parse_bytes
from meor.study.conduct import Findings, conduct
from meor.study.execute import executor_of
from meor.study.paired_tables import HOLM_TABLES
from meor.study.plan import Study
from meor.study.presets import PRESET_STUDIES
from meor.study.results import Results
from meor.study.rows import RUNS
from meor.study.table import Table, as_text, write_tables
from meor.study.tables import EFFECTS_FILE, Beside, study_tables, write_effects
from meor.study.task import Means, Observer, Outcome

app = new_verb()

COMMAND = "command.txt"


@app.command()
def command(
    study: Annotated[
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
    changes: dict[str, Any] = {
        "pairs": pairs,
        "stream": None if stream is None else [stream_setting(name) for name in stream],
        "backbone": backbone,
        "host": host,
        "preset": preset,
        "coefficient_rule": rule,
        "methods": method,
        "tables": tables,
    }
    rules = {"duplicates": duplicates, "unseen": unseen, "columns": columns}
    told = [f"{name}={json.dumps(rule)}" for name, rule in rules.items() if rule is not None]
    plan = Study.load(study, changes=changes, sets=[*told, *(sets or ())])
    target = out or Path("results") / plan.study
    means = Means(
        runs=runs,
        data_dir=None if data_dir is None else data_dir.absolute(),
        cache=None if cache is None else cache.absolute(),
        memory=parse_bytes(memory),
        checkpoint_seconds=checkpoint_seconds,
        keep_weights=weights,
    )
    chosen = executor_of(executor, workers)
    signal.signal(signal.SIGTERM, _stop)
    with observer(Console(stderr=True), chosen.workers, quiet=quiet) as shown:
        keep = partial(_write, target, holm=holm)
        try:
            found = conduct(plan, target, executor=chosen, means=means, observer=shown, keep=keep)
        except KeyboardInterrupt:
            shown.say("The same command goes on where it stopped.")
            raise
    if not quiet:
        _show(target, found, runs, holm=holm)
    _tell_failures(found)


def _stop(*_: object) -> None:
    """A study that is asked to end takes its workers with it."""
    raise KeyboardInterrupt


def _write(out: Path, found: Findings, *, holm: bool) -> None:
    Results(out).replace({COMMAND: (shell(["meor", *sys.argv[1:]]) + "\n").encode()})
    write_effects(out, found.plan, found.rows, holm=holm)
    write_tables(out, _tables(found, holm=holm))


def _tables(found: Findings, *, holm: bool) -> list[Table]:
    beside = Beside(found.choices, found.popularity)
    return study_tables(found.plan, found.rows, found.balances, holm=holm, beside=beside)


def _show(out: Path, found: Findings, runs: Path | None, *, holm: bool) -> None:
    made = _tables(found, holm=holm)
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


def _tell_failures(found: Findings) -> None:
    if found.failures:
        name, reason = next(iter(found.failures.items()))
        others = "The others are done. " if found.rows else ""
        raise StudyError(
            f"{len(found.failures)} of the study's runs failed; the first is {name}: {reason.rstrip('.')}. "
            f"{others}The same command tries the failed ones again."
        )


def observer(console: Console, workers: int, *, quiet: bool) -> Shown:
    if quiet:
        return Shown()
    return Live(console, workers) if console.is_terminal else Lines(console, workers)


class Shown(Quiet, Observer):
    """A study of which nothing is shown."""


class Lines(Plain, Shown):
    """For logs and pipes: one line per cell."""

    def __init__(self, console: Console, workers: int) -> None:
        super().__init__(console)
        self._countdown = Countdown(workers)

    def stage(self, name: str, cells: int, total: int) -> None:
        self._countdown.total = total
        self.say(f"{name}: {cells} runs" if cells else f"{name}: nothing more to run, {total} in all")

    def cell(self, outcome: Outcome) -> None:
        count = self._countdown
        count.add(outcome)
        self.say(f"{count.done}/{count.total} {told(outcome)} {count.left}".rstrip())


class Live(Bar, Shown):
    """A bar over the whole study; failures and finished cells scroll by above it."""

    def __init__(self, console: Console, workers: int) -> None:
        left = TextColumn("{task.fields[left]}")
        super().__init__(console, MofNCompleteColumn(), TimeElapsedColumn(), left, left="")
        self._countdown = Countdown(workers)

    def stage(self, name: str, cells: int, total: int) -> None:
        self._countdown.total = total
        self._progress.update(self._task, description=name, total=total)

    def cell(self, outcome: Outcome) -> None:
        self._countdown.add(outcome)
        self._progress.update(self._task, completed=self._countdown.done, left=self._countdown.left)
        if outcome.failure or not outcome.reused:
            self.line(told(outcome), style="red" if outcome.failure else "")


def told(outcome: Outcome) -> str:
    if outcome.failure is not None:
        return f"FAILED {outcome.cell.name}: {outcome.failure}"
    took = "was there" if outcome.reused else duration(outcome.seconds)
    value = None if outcome.row is None else outcome.row.H_cur
    return f"{outcome.cell.name}: {took}" + ("" if value is None else f", H_cur {value:.4f}")
