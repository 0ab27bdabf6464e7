"""A cell to be made: all that a process, here or on another machine, needs for it, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from meor.evaluation.tally import DEFAULT_MEMORY
from meor.run.layout import ENDPOINTS, is_run
from meor.study.cells import StudyCell
from meor.study.curve import LENGTH
from meor.study.plan import PAIR, Study
from meor.study.row_file import row_path
from meor.study.rows import Row

MARK = "study.yaml"
"""Lies in the folder of runs; a worker that does not see it looks at another disk."""


@dataclass(frozen=True, slots=True)
class Means:
    """How cells are made. None of it changes a bit of any result."""

    runs: Path | None = None  # default: OUT/runs
    data_dir: Path | None = None
    cache: Path | None = None
    memory: int = DEFAULT_MEMORY
    checkpoint_seconds: float = 30.0
    keep_weights: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """A cell, its study, and where its runs lie."""

    plan: Study
    cell: StudyCell
    runs: Path
    means: Means = Means()

    @property
    def folder(self) -> Path:
        return folder_of(self.runs, self.cell)

    @property
    def row_file(self) -> Path:
        return row_path(self.folder)

    @property
    def balance_file(self) -> Path:
        return self.folder.with_name(f"{self.cell.method}-{self.cell.split}.balance.json")

    @property
    def alone_folder(self) -> Path:
        return folder_of(self.runs, self.cell.alone)

    @property
    def is_free(self) -> bool:
        """Does nothing of it follow from another run: neither its coefficient nor how long it is trained?"""
        return self.cell == self.cell.host_alone or bool(self.cell.curve and self.cell.multiple is None)

    @property
    def length(self) -> float | None:
        """How many times as long as the pair's host alone it is trained, if its curve says that."""
        curve = self.plan.curves.get(self.cell.curve or "")
        return self.cell.at if curve is not None and curve.along == LENGTH else None

    @property
    def follows_pair(self) -> bool:
        """Is it trained for as long as the pair's host alone? Hosts with a rule of their own are not."""
        stops = bool(self.cell.config(self.plan).refine.validate_steps)
        return self.plan.schedule == PAIR and stops and not self.is_free

    @property
    def lacks_only_balance(self) -> bool:
        """Of the host alone there is a row and no run, and a balance is all that its run is needed for."""
        gone = row_path(self.alone_folder).is_file() and not (self.alone_folder / ENDPOINTS).is_file()
        return gone and not self.follows_pair and not self.balance_file.is_file()


@dataclass(frozen=True, slots=True)
class Weight:
    """What multiplies a penalty, and from which update on."""

    coefficient: float | None
    begins: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row, or the reason why there is none."""

    cell: StudyCell
    row: Row | None
    failure: str | None
    seconds: float
    reused: bool = False
    remarks: tuple[str, ...] = ()  # what was damaged and made again


class Observer:
    """What a study tells whoever watches it; the default is silence."""

    def stage(self, name: str, cells: int, total: int) -> None:
        """A stage begins, perhaps with no cell left to make.

        `total` is how many cells the whole study has. Before its last stage begins, which knows the multiples
        that were chosen and the pairs that failed, it is a guess: larger multiples may be tried.
        """

    def cell(self, outcome: Outcome) -> None:
        """A cell has ended."""

    def say(self, text: str) -> None:
        """A remark a person should read."""


def folder_of(runs: Path, cell: StudyCell) -> Path:
    """The folder of a cell: under its former name if an earlier version made it."""
    former = runs / cell.former_name
    return former if is_run(former) or row_path(former).is_file() else runs / cell.name
