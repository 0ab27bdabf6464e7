"""Facts on their way in: where each one stands in its file, so that an error can name the place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from meor.errors import StreamError
from meor.escape import visible
from meor.stream.snapshot import LabelFact
from meor.typing import Split

Report = Callable[[str], None]
"""Takes one sentence about something that was left out on purpose."""

_SHOWN = 80
_log = logging.getLogger("meor.stream")


def warn(sentence: str) -> None:
    """A `Report` for whoever named none. Logs mostly end on a terminal, and the sentence may name a path."""
    _log.warning("%s", visible(sentence))


def shown(label: str) -> str:
    """A label inside a message: quoted, and short even if the file is hostile."""
    return repr(label if len(label) <= _SHOWN else label[:_SHOWN] + "...")


@dataclass(frozen=True, slots=True)
class Origin:
    """A file and what it counts its facts by; Turtle spreads a fact over lines, so it counts statements."""

    path: Path
    unit: Literal["line", "row", "statement"] = "line"

    def error(self, problem: str, remedy: str, number: int | None = None) -> StreamError:
        if self.unit == "line" or number is None:
            return StreamError(problem, remedy=remedy, path=self.path, line=number)
        return StreamError(f"{self.unit} {number}: {problem}", remedy=remedy, path=self.path)

    def place(self, number: int) -> str:
        return f"{self.path}, {self.unit} {number}"


@dataclass(frozen=True, slots=True)
class Part:
    """The facts of one split of one snapshot, as one file gives them."""

    snapshot: int
    split: Split
    origin: Origin
    facts: Sequence[LabelFact]
    numbers: Sequence[int]  # [F] the line, row or statement of each fact

    def error(self, row: int, problem: str, remedy: str) -> StreamError:
        return self.origin.error(problem, remedy, self.numbers[row])

    def place(self, row: int) -> str:
        return self.origin.place(self.numbers[row])


class LabelPool:
    """One string object a label, however often it is read: a stream repeats each label many times."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def fact(self, head: str, relation: str, tail: str) -> LabelFact:
        once = self._known.setdefault
        return once(head, head), once(relation, relation), once(tail, tail)
