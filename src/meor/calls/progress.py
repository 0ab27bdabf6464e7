"""Progress of a run or a study: a live bar on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from meor.compiled import on_first_compile
from meor.escape import terminal
from meor.methods import NONE
from meor.run.trainer import Watcher

if TYPE_CHECKING:
    from meor.study.task import Outcome

PLAIN_SECONDS, SLOW_SECONDS = 10.0, 2.0
_PHASES = {
    "base": "base",
    "balance": "update {} of the host alone, to balance the penalty",
    "update": "update {}",
    "evaluate": "update {}: ranking",
}


def on_stderr() -> Console:
    """Plain text in a notebook: what rich would show there needs widgets, and is not kept in the file."""
    return Console(stderr=True, force_jupyter=False)


def slowly(console: Console) -> Callable[[str], None]:
    """Lines about what takes long; what is done at once is not spoken of."""
    plain = Plain(console)

    def say(text: str) -> None:
        if time.monotonic() - plain.spoke >= SLOW_SECONDS:
            plain.say(text)

    return say


def watcher(console: Console, *, quiet: bool) -> Shown:
    if quiet:
        return Shown()
    return Live(console) if console.is_terminal else Lines(console)


class Quiet:
    """Shows nothing; a context, so that all kinds of progress are used alike."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Plain(Quiet):
    """For logs and pipes: plain lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.spoke = time.monotonic()

    def say(self, text: str) -> None:
        self.spoke = time.monotonic()
        self._console.print(Text(terminal(text)), soft_wrap=True)


class Bar(Quiet):
    """For a terminal: a bar, and what scrolls by above it."""

    def __init__(self, console: Console, *columns: ProgressColumn, **fields: Any) -> None:
        first = TextColumn("{task.description}"), BarColumn(bar_width=24)
        self._console = console
        self._progress = Progress(*first, *columns, console=console, transient=True)
        self._task = self._progress.add_task("reading", total=None, **fields)

    def __enter__(self) -> Self:
        self._progress.start()
        on_first_compile(lambda: self.line("compiling (once per machine)", style="dim"))
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        self.line(text, style="yellow")

    def line(self, text: str, style: str = "") -> None:
        self._console.print(Text(terminal(text), style=style))


class Shown(Quiet, Watcher):
    """A run of which nothing is shown."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} steps/s", style="dim")


class Live(Bar, Shown):
    """Phase, update, loss, validation MRR, rate and time left."""

    def __init__(self, console: Console) -> None:
        measures = TextColumn("{task.fields[loss]}{task.fields[mrr]}")
        super().__init__(console, measures, _Rate(), TimeRemainingColumn(compact=True), loss="", mrr="")

    def phase(self, name: str, update: int, *, done: int = 0, total: int = 0) -> None:
        text = _PHASES[name].format(update)
        self._progress.reset(
            self._task, total=total or None, completed=done, description=text, loss="", mrr=""
        )

    def step(self, done: int, loss: float) -> None:
        self._progress.update(self._task, completed=done, loss=f"loss {loss:.4f}")

    def validated(self, passes: int, mrr: float) -> None:
        self._progress.update(self._task, mrr=f"  validation {mrr:.4f}")

    def event(self, name: str, fields: dict[str, Any]) -> None:
        text = line_of(name, fields)
        if text and name != "pass":
            self.line(text)


class Lines(Plain, Shown):
    """What has been done, and from time to time where training stands."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._total, self._phase = 0, ""

    def phase(self, name: str, update: int, *, done: int = 0, total: int = 0) -> None:
        self._phase, self._total = _PHASES[name].format(update), total

    def step(self, done: int, loss: float) -> None:
        if time.monotonic() - self.spoke >= PLAIN_SECONDS:
            self.say(f"{self._phase}: step {done} of at most {self._total}, loss {loss:.4f}")

    def event(self, name: str, fields: dict[str, Any]) -> None:
        text = line_of(name, fields)
        if text:
            self.say(text)


def line_of(name: str, fields: dict[str, Any]) -> str | None:
    """One line for an event of the log; None for those that only the log needs."""
    made = _EVENTS.get(name)
    return None if made is None else made(fields)


def _coefficient(fields: dict[str, Any]) -> str:
    return str(fields.get("text", f"coefficient {fields['coefficient']:.6g}"))


def _records(fields: dict[str, Any]) -> str:
    return f"update {fields['update']}: {fields['active']:,} of {fields['eligible']:,} records active"


def _resumed(fields: dict[str, Any]) -> str:
    return f"resumed at update {fields['update']}, step {fields['step']}"


def _pass(fields: dict[str, Any]) -> str | None:
    if fields["valid_mrr"] is None:
        return None
    return f"pass {fields['number']}: loss {fields['loss']:.4f}, validation MRR {fields['valid_mrr']:.4f}"


def _base(fields: dict[str, Any]) -> str:
    if fields["source"] == "given":
        return "base: the given embeddings"
    best = "" if fields["best_mrr"] is None else f", validation MRR {fields['best_mrr']:.4f}"
    how = "taken from the cache" if fields["source"] == "cache" else f"trained for {fields['epochs']} epochs"
    return f"base: {how}{best}"


def _grown(fields: dict[str, Any]) -> str:
    newcomers = fields["newcomers"]
    return f"update {fields['update']}: {f'{newcomers:,}' if newcomers else 'no'} newcomers"


def _updated(fields: dict[str, Any]) -> str:
    done = f"refined in {fields['steps']:,} steps and" if fields["steps"] else "nothing to train;"
    return f"update {fields['update']}: {done} ranked"


_EVENTS = {
    "coefficient": _coefficient,
    "records": _records,
    "resumed": _resumed,
    "pass": _pass,
    "base": _base,
    "grown": _grown,
    "updated": _updated,
}


class Countdown:
    """Counts cells and estimates the time left from the time that cells of the same kind took."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.total = self.done = 0
        self._took: dict[bool, list[float]] = {True: [], False: []}

    def add(self, outcome: Outcome) -> None:
        self.done += 1
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


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    )
