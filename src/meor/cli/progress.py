"""A run as it goes: a live bar on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from meor.escape import terminal
from meor.run.trainer import Watcher

PLAIN_SECONDS = 10.0
_PHASES = {
    "base": "base",
    "balance": "update {} of the host alone, to balance the penalty",
    "update": "update {}",
    "evaluate": "update {}: ranking",
}


def watcher(console: Console, *, quiet: bool) -> Shown:
    if quiet:
        return Shown()
    return Live(console) if console.is_terminal else Lines(console)


class Shown(Watcher):
    """Shows nothing; a context so that all three are used alike."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} steps/s", style="dim")


class Live(Shown):
    """Phase, update, loss, validation MRR, rate and time left."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[loss]}{task.fields[mrr]}"),
            _Rate(),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("reading", total=None, loss="", mrr="")
        self._console = console
        self._line = _Line()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def phase(self, name: str, update: int, *, done: int = 0, total: int = 0) -> None:
        text = _PHASES[name].format(update)
        self._progress.reset(
            self._task, total=total or None, completed=done, description=text, loss="", mrr=""
        )

    def step(self, done: int, loss: float) -> None:
        self._progress.update(self._task, completed=done, loss=f"loss {loss:.4f}")

    def validated(self, passes: int, mrr: float) -> None:
        self._progress.update(self._task, mrr=f"  valid MRR {mrr:.4f}")

    def event(self, name: str, fields: dict[str, Any]) -> None:
        text = self._line.of(name, fields)
        if text and name != "pass":
            self._console.print(Text(terminal(text)))

    def say(self, text: str) -> None:
        self._console.print(Text(terminal(text), style="yellow"))


class Lines(Shown):
    """For logs and pipes: what has been done, and now and then where training stands."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line = _Line()
        self._total, self._phase, self._spoke = 0, "", time.monotonic()

    def phase(self, name: str, update: int, *, done: int = 0, total: int = 0) -> None:
        self._phase, self._total = _PHASES[name].format(update), total

    def step(self, done: int, loss: float) -> None:
        if time.monotonic() - self._spoke >= PLAIN_SECONDS:
            self._say(f"{self._phase}: step {done} of at most {self._total}, loss {loss:.4f}")

    def event(self, name: str, fields: dict[str, Any]) -> None:
        text = self._line.of(name, fields)
        if text:
            self._say(text)

    def say(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        self._spoke = time.monotonic()
        self._console.print(Text(terminal(text)), soft_wrap=True)


class _Line:
    """One line for an event of the log; None for those that only the log needs."""

    def of(self, name: str, fields: dict[str, Any]) -> str | None:
        made = getattr(self, f"_{name}", None)
        return None if made is None else made(fields)

    def _coefficient(self, fields: dict[str, Any]) -> str:
        return str(fields.get("text", f"coefficient {fields['coefficient']:.6g}"))

    def _records(self, fields: dict[str, Any]) -> str:
        return f"update {fields['update']}: {fields['active']:,} of {fields['eligible']:,} records active"

    def _resumed(self, fields: dict[str, Any]) -> str:
        return f"resumed at update {fields['update']}, step {fields['step']}"

    def _pass(self, fields: dict[str, Any]) -> str | None:
        if fields["valid_mrr"] is None:
            return None
        return f"pass {fields['number']}: loss {fields['loss']:.4f}, validation MRR {fields['valid_mrr']:.4f}"

    def _base(self, fields: dict[str, Any]) -> str:
        if fields["source"] == "given":
            return "base: the given embeddings"
        best = "" if fields["best_mrr"] is None else f", validation MRR {fields['best_mrr']:.4f}"
        how = (
            "taken from the cache"
            if fields["source"] == "cache"
            else f"trained for {fields['epochs']} epochs"
        )
        return f"base: {how}{best}"

    def _grown(self, fields: dict[str, Any]) -> str:
        newcomers = fields["newcomers"]
        return f"update {fields['update']}: {f'{newcomers:,}' if newcomers else 'no'} newcomers"

    def _updated(self, fields: dict[str, Any]) -> str:
        done = f"refined in {fields['steps']:,} steps and" if fields["steps"] else "nothing to train;"
        return f"update {fields['update']}: {done} ranked"
