"""A cell to be made: all that a process, here or on another machine, needs for it, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from meor.evaluation.tally import DEFAULT_MEMORY
from meor.run.layout import ENDPOINTS, is_run
from meor.study.cells import StudyCell
from meor.study.follows import Follows, follows
from meor.study.plan import Study
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
    def follows(self) -> Follows:
        return follows(self.plan, self.cell)

    @property
    def lacks_only_balance(self) -> bool:
        """The run that balances it has a row and no folder, and is needed for nothing else."""
        mine = self.follows
        if mine.balanced_by is None or mine.as_long_as is not None or self.balance_file.is_file():
            return False
        balancing = folder_of(self.runs, mine.balanced_by)
        return row_path(balancing).is_file() and not (balancing / ENDPOINTS).is_file()


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
