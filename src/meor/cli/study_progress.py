"""A study as it goes: how many cells are done, which failed, and how long the rest may take."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from meor.escape import terminal
from meor.methods import NONE
from meor.study.cell import Outcome
from meor.study.conduct import Observer


def observer(console: Console, workers: int, *, quiet: bool) -> Shown:
    if quiet:
        return Shown()
    return Live(console, workers) if console.is_terminal else Lines(console, workers)


class Shown(Observer):
    """Shows nothing; a context so that all three are used alike."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Tally:
    """Counts cells and guesses the time left from what cells of the same kind took."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.total = self.done = self.failed = 0
        self._took: dict[bool, list[float]] = {True: [], False: []}

    def add(self, outcome: Outcome) -> None:
        self.done += 1
        self.failed += outcome.failure is not None
        if not outcome.reused and outcome.failure is None:
            self._took[outcome.cell.method == NONE].append(outcome.seconds)

    @property
    def left(self) -> str:
        """The host alone may train a base and take longer: the others count as soon as there is one."""
        known = self._took[False] or self._took[True]
        if not known or self.done >= self.total:
            return ""
        seconds = sum(known) / len(known) * (self.total - self.done) / self.workers
        return f"about {duration(seconds)} left"


class Lines(Shown):
    """For logs and pipes: a line a cell."""

    def __init__(self, console: Console, workers: int) -> None:
        self._console, self._tally = console, Tally(workers)
        self._began = time.monotonic()

    def stage(self, name: str, cells: int, total: int) -> None:
        self._tally.total = total
        self._say(f"{name}: {cells} runs" if cells else f"{name}: nothing more to run, {total} in all")

    def cell(self, outcome: Outcome) -> None:
        tally = self._tally
        tally.add(outcome)
        self._say(f"{tally.done}/{tally.total} {told(outcome)} {tally.left}".rstrip())

    def say(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        self._console.print(Text(terminal(text)), soft_wrap=True)


class Live(Shown):
    """A bar over the whole study; failures and finished cells scroll by above it."""

    def __init__(self, console: Console, workers: int) -> None:
        self._console, self._tally = console, Tally(workers)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("reading", total=None, left="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def stage(self, name: str, cells: int, total: int) -> None:
        self._tally.total = total
        self._progress.update(self._task, description=name, total=total)

    def cell(self, outcome: Outcome) -> None:
        self._tally.add(outcome)
        self._progress.update(self._task, completed=self._tally.done, left=self._tally.left)
        style = "red" if outcome.failure else ""
        if outcome.failure or not outcome.reused:
            self._console.print(Text(terminal(told(outcome)), style=style))

    def say(self, text: str) -> None:
        self._console.print(Text(terminal(text), style="yellow"))


def told(outcome: Outcome) -> str:
    if outcome.failure is not None:
        return f"FAILED {outcome.cell.name}: {outcome.failure}"
    took = "was there" if outcome.reused else duration(outcome.seconds)
    value = None if outcome.row is None else outcome.row.H_cur
    return f"{outcome.cell.name}: {took}" + ("" if value is None else f", H_cur {value:.4f}")


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    )
