"""Progress of a study: a live bar on a terminal, one line per cell elsewhere."""

from __future__ import annotations

from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

from meor.calls.progress import Bar, Countdown, Plain, Quiet, duration
from meor.study.task import Observer, Outcome


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
