"""A study from its plan to `runs.parquet`: stage by stage, resumable, with the rest going on after a failure.

Stages, because later cells start from earlier ones: replay runs, then everything with a known multiple
(and the selection pairs), then the validated multiples. Within a stage cells are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from meor.errors import StudyError
from meor.evaluation.rank import DEFAULT_MEMORY
from meor.run.checkpoint import to_json
from meor.run.disk import Disk, commit_file
from meor.run.validated import MULTIPLES
from meor.study.cell import MARK, Outcome, Task
from meor.study.coefficient import KeptBalance, read_balance
from meor.study.execute import Executor, Serial
from meor.study.pairing import (
    VALID,
    Cell,
    groups,
    method_cells,
    replay_cells,
    selection_cells,
    validated_cells,
)
from meor.study.plan import BALANCE, UNPENALIZED, VALIDATED, Study
from meor.study.rows import RUNS, Group, Row, write_rows
from meor.study.selection import Choice, choose

RUNS_FOLDER = "runs"
BALANCES = "balances.json"
SELECTION = "selection.json"
FAILURES = "failures.json"


class Observer:
    """What a study tells whoever watches it; the default is silence."""

    def stage(self, name: str, cells: int, total: int) -> None:
        """A stage begins; `total` is how many cells the whole study has as far as is known."""

    def cell(self, outcome: Outcome) -> None:
        """A cell has ended."""

    def say(self, text: str) -> None:
        """A remark a person should read."""


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
class Findings:
    """What came of a study; `rows` are those of runs.parquet."""

    plan: Study
    rows: tuple[Row, ...]
    choices: tuple[Choice, ...]
    balances: tuple[KeptBalance, ...]
    failures: dict[str, str]  # by cell


def conduct(
    plan: Study,
    out: Path,
    *,
    executor: Executor | None = None,
    means: Means | None = None,
    observer: Observer | None = None,
) -> Findings:
    """Make every cell that is not there yet and write what the study found so far."""
    conductor = _Conductor(
        plan, out.absolute(), executor or Serial(), means or Means(), observer or Observer()
    )
    return conductor.conduct()


class _Conductor:
    def __init__(self, plan: Study, out: Path, executor: Executor, means: Means, observer: Observer) -> None:
        self.plan, self.out, self.executor, self.means, self.observer = plan, out, executor, means, observer
        self.runs = (means.runs or out / RUNS_FOLDER).absolute()
        self.rows: dict[Cell, Row] = {}
        self.failures: dict[str, str] = {}

    def conduct(self) -> Findings:
        for folder in (self.out, self.runs):
            folder.mkdir(parents=True, exist_ok=True)
            commit_file(Disk(), folder / MARK, self.plan.to_yaml().encode())
        first, second = replay_cells(self.plan), [*selection_cells(self.plan), *method_cells(self.plan)]
        later = len(groups(self.plan)) * self.plan.pairs * len(self.plan.penalized)
        third = later if VALIDATED in self.plan.coefficient_rule else 0
        total = len(first) + len(second) + third
        self._stage("replay", first, total)
        self._stage("methods", [cell for cell in second if self._has_replay(cell)], total)
        choices = self._choices()
        chosen = {(each.group, each.method): each.multiple for each in choices}
        validated = [cell for cell in validated_cells(self.plan, chosen) if self._has_replay(cell)]
        self._stage("validated", [cell for cell in validated if cell not in self.rows], total)
        rows = tuple(self._of_the_study(validated))
        write_rows(self.out / RUNS, rows)
        balances = self._balances()
        self._write_remarks(choices, balances)
        return Findings(self.plan, rows, choices, balances, dict(sorted(self.failures.items())))

    def _stage(self, name: str, cells: Sequence[Cell], total: int) -> None:
        if not cells:
            return
        self.observer.stage(name, len(cells), total)
        for outcome in self.executor.outcomes([self._task(cell) for cell in cells]):
            self.observer.cell(outcome)
            if outcome.row is not None:
                self.rows[outcome.cell] = outcome.row
            else:
                self.failures[outcome.cell.name] = outcome.failure or "no reason was given"

    def _task(self, cell: Cell) -> Task:
        means = self.means
        return Task(
            self.plan,
            cell,
            self.runs,
            data_dir=means.data_dir,
            cache=means.cache,
            memory=means.memory,
            checkpoint_seconds=means.checkpoint_seconds,
            keep_weights=means.keep_weights,
        )

    def _has_replay(self, cell: Cell) -> bool:
        """A pair whose replay run failed has nothing to start from: its cells fail with it, by name."""
        if cell.replay in self.rows:
            return True
        self.failures[cell.name] = f"{cell.replay.name} failed, and this run starts from it"
        return False

    def _choices(self) -> tuple[Choice, ...]:
        if VALIDATED not in self.plan.coefficient_rule:
            return ()
        judged = [row for cell, row in self.rows.items() if cell.split == VALID]
        found = []
        for group in groups(self.plan):
            for method in self.plan.penalized:
                try:
                    choice = choose(judged, group, method)
                except StudyError as error:
                    self.failures[f"the validated multiple of {method} in {group}"] = str(error)
                    continue
                found.append(choice)
                if choice.multiple == 0.0:
                    self.observer.say(
                        f"{group}: no multiple of {method} kept A_TN on validation facts; coefficient 0"
                    )
                elif choice.multiple == MULTIPLES[-1]:
                    self.observer.say(
                        f"{group}: {method} takes the largest multiple on offer, {choice.multiple:g}; "
                        "a larger one may give more"
                    )
        return tuple(found)

    def _of_the_study(self, validated: Sequence[Cell]) -> list[Row]:
        """Rows in the order of the plan; a run that serves two rules has a row under each."""
        found: list[tuple[tuple[object, ...], Row]] = []
        for cell, row in self.rows.items():
            if cell.split != VALID and (cell.method in UNPENALIZED or self._was_asked_for(cell)):
                found.append((self._place(cell, row), row))
        for cell in validated:
            if cell in self.rows:
                row = replace(self.rows[cell], coefficient_rule=VALIDATED, multiple=cell.multiple or 0.0)
                found.append((self._place(cell, row), row))
        return [row for _, row in sorted(found, key=lambda each: each[0])]  # type: ignore[arg-type, return-value]

    def _was_asked_for(self, cell: Cell) -> bool:
        """Not a run that exists only because the validated rule chose its multiple."""
        if cell.coefficient is not None:
            return repr(cell.coefficient) in self.plan.coefficient_rule
        return BALANCE in self.plan.coefficient_rule and cell.multiple in self.plan.multiples

    def _place(self, cell: Cell, row: Row) -> tuple[object, ...]:
        plan = self.plan
        group: Group = cell.group
        rules = ("none", *plan.coefficient_rule)
        return (
            groups(plan).index(group),
            cell.seed,
            rules.index(row.coefficient_rule),
            plan.methods.index(cell.method),  # type: ignore[arg-type]
            row.multiple or 0.0,
        )

    def _balances(self) -> tuple[KeptBalance, ...]:
        """What each pair's coefficients were made from; those of selection pairs count as well."""
        found: dict[Path, KeptBalance] = {}
        order = groups(self.plan), list(self.plan.methods)
        for cell in sorted(
            self.rows,
            key=lambda each: (order[0].index(each.group), each.seed, order[1].index(each.method)),  # type: ignore[arg-type]
        ):
            path = self._task(cell).balance_file
            kept = read_balance(path)
            if kept is not None and path not in found:
                found[path] = KeptBalance(cell.group, cell.seed, cell.method, kept)
        return tuple(found.values())

    def _write_remarks(self, choices: Sequence[Choice], balances: Sequence[KeptBalance]) -> None:
        """Beside the rows: what coefficients were made from, and which cells failed; absent if nothing."""
        remarks = {
            BALANCES: [asdict(each) for each in balances],
            SELECTION: [asdict(each) for each in choices],
            FAILURES: dict(sorted(self.failures.items())),
        }
        for name, content in remarks.items():
            path = self.out / name
            if content:
                commit_file(Disk(), path, to_json(content))
            else:
                path.unlink(missing_ok=True)
