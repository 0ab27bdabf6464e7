"""A study from its plan to `runs.parquet`: stage by stage, resumable, with the rest going on after a failure.

Stages, because later cells start from earlier ones: the host alone, then everything with a known multiple
(and the selection pairs), then the validated multiples. Within a stage cells are independent. What is there
is written after each stage, and when the study is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from meor.errors import MeorError
from meor.methods import CAP, NONE, method_label, needs_coefficient
from meor.storage.disk import Disk, commit_file
from meor.storage.json_file import read_json, to_json
from meor.stream.registry import check_there
from meor.study.cell import finished
from meor.study.cells import (
    VALID,
    StudyCell,
    alone_cells,
    capped_cells,
    derived_cells,
    method_cells,
    rows_of_the_study,
    selection_cells,
    trial_cells,
    validated_cells,
)
from meor.study.coefficient import Choice, KeptBalance, choices, kept_balances, next_multiple
from meor.study.execute import Executor, Serial
from meor.study.keys import VALIDATED
from meor.study.plan import Study
from meor.study.popularity import POPULARITY, popularity_of
from meor.study.results import Results
from meor.study.rows import RUNS, Row, rows_file
from meor.study.task import MARK, Means, Observer, Task

RUNS_FOLDER, BALANCES = "runs", "balances.json"
SELECTION, FAILURES, SECONDS = "selection.json", "failures.json", "seconds.json"


@dataclass(frozen=True, slots=True)
class Findings:
    """What came of a study; `rows` are those of runs.parquet."""

    plan: Study
    rows: tuple[Row, ...]
    choices: tuple[Choice, ...]
    balances: tuple[KeptBalance, ...]
    popularity: Mapping[str, Any]  # by stream
    failures: dict[str, str]  # by cell; those that others follow from come first


Keep = Callable[[Findings], object]
"""Whatever else is to be written of a study, at its end and of the part that is there before."""


def conduct(
    plan: Study,
    out: Path,
    *,
    executor: Executor | None = None,
    means: Means | None = None,
    observer: Observer | None = None,
    keep: Keep = lambda _: None,
) -> Findings:
    """Make every cell that is not there yet and write what the study found so far."""
    conductor = _Conductor(
        plan, out.absolute(), executor or Serial(), means or Means(), observer or Observer(), keep
    )
    return conductor.conduct()


class _Conductor:
    def __init__(
        self, plan: Study, out: Path, executor: Executor, means: Means, observer: Observer, keep: Keep
    ) -> None:
        self.plan, self.out, self.executor, self.means, self.observer = plan, out, executor, means, observer
        self.keep, self.results = keep, Results(out)
        self.runs = (means.runs or out / RUNS_FOLDER).absolute()
        self.rows, self.choices = dict[StudyCell, Row](), tuple[Choice, ...]()
        self.seconds, self.popularity = self._told_seconds(), dict[str, Any]()
        self.failures, self.consequences = dict[str, str](), dict[str, str]()  # the latter follow from others

    def conduct(self) -> Findings:
        first = [*alone_cells(self.plan), *capped_cells(self.plan)]
        second = [*selection_cells(self.plan), *method_cells(self.plan)]
        self._recall([*first, *second, *derived_cells(self.plan)])
        needed = {cell.group.stream for cell in (*first, *second) if cell not in self.rows}
        for stream in (name for name in self.plan.stream if name in needed):
            check_there(stream, data_dir=self.means.data_dir)
        for problem in self.results.problems():
            self.observer.say(problem)
        self.runs.mkdir(parents=True, exist_ok=True)
        commit_file(Disk(), self.runs / MARK, self.plan.to_yaml().encode())
        self.results.replace({MARK: self.plan.to_yaml().encode()})
        with suppress(MeorError):  # where a stream cannot be read, its cells say so
            self.popularity = popularity_of(self.plan, self.results, self.means.data_dir)
        try:
            self._stages(first, second)
        except KeyboardInterrupt:
            self._write_part()
            raise
        return self._written()

    def _recall(self, cells: Sequence[StudyCell]) -> None:
        """Rows of an earlier call count from the start: a part that is written never loses one."""
        for cell in cells:
            with suppress(MeorError):  # its stage says what is wrong
                row = finished(self._task(cell))
                if row is not None:
                    self.rows[cell] = row

    def _stages(self, first: Sequence[StudyCell], second: Sequence[StudyCell]) -> None:
        if all(cell in self.rows for cell in (*first, *second)):
            self._recall_choices()
        # No core waits for the last host alone where a method starts from none.
        free = [cell for cell in second if cell.curve is None and not self._task(cell).follows.cells]
        first, second = [*first, *free], [cell for cell in second if cell not in free]
        rule, derived = VALIDATED in self.plan.coefficient_rule, derived_cells(self.plan)
        runs = (name for group in self.plan.groups for _, name in self.plan.runs_of(group))
        later = len(derived) + rule * sum(map(needs_coefficient, runs))
        self._hosts_alone(first, len(first) + len(second) + later)
        ready = [cell for cell in second if self._has_start(cell)]
        if second:
            self._write_part()
            self._stage("methods", ready, len(first) + len(ready) + later)
        if derived:
            self._write_part()
            whole = [cell for cell in derived if self._has_start(cell)]
            self._stage("dialled and calibrated", whole, len(first) + len(ready) + later)
        if rule:
            self._write_part()
            made = {*first, *ready}
            while more := [cell for cell in self._larger() if cell not in made]:
                made |= {*more}
                self._stage("larger multiples", more, len(made) + later)
            self.choices = self._choices()
            for remark in filter(None, (choice.remark for choice in self.choices)):
                self.observer.say(remark)
            third = [cell for cell in self._validated() if cell not in made and self._has_start(cell)]
            self._stage("validated", third, len(made) + len(third))

    def _recall_choices(self) -> None:
        while more := self._larger():
            self._recall(more)
            if not all(cell in self.rows for cell in more):
                break
        self.choices = self._choices()
        self._recall(self._validated())

    def _hosts_alone(self, cells: Sequence[StudyCell], total: int) -> None:
        """First as they are, with what waits for nothing; then capped, for as long as those were trained."""
        capped = [cell for cell in cells if cell.method == CAP]
        at_once = [cell for cell in cells if cell.method != CAP]
        others = any(cell.method != NONE for cell in at_once)
        host = method_label(NONE).lower()
        self._stage(f"{host}, and methods that need no other run" if others else host, at_once, total)
        if ready := [cell for cell in capped if self._has_start(cell)]:
            self._stage(method_label(CAP).lower(), ready, total)

    def _larger(self) -> list[StudyCell]:
        """Selection goes beyond its first multiples while they are better, a multiple at a time."""
        return [
            cell
            for choice in self._choices()
            if (multiple := next_multiple(self._judged(), choice)) is not None
            for cell in trial_cells(self.plan, choice.group, choice.method, multiple)
        ]

    def _validated(self) -> list[StudyCell]:
        return validated_cells(self.plan, {(each.group, each.method): each.multiple for each in self.choices})

    def _write_part(self) -> None:
        if not self.rows:
            return  # nothing is no reason to replace what an earlier study wrote
        # A fault of the rows is told at the end, when everything is made; until then nothing stops for it.
        with suppress(MeorError):
            self._written()

    def _written(self) -> Findings:
        rows = rows_of_the_study(self.plan, self.rows, self._validated())
        balances = self._balances()
        self.results.replace({RUNS: rows_file(rows), **self._remarks(balances)})
        # Not listed in the study's manifest: two computers give the same results, but not in the same time.
        commit_file(Disk(), self.out / SECONDS, to_json(dict(sorted(self.seconds.items()))))
        failures = dict(sorted(self.failures.items())) | dict(sorted(self.consequences.items()))
        found = Findings(self.plan, rows, self.choices, balances, self.popularity, failures)
        self.keep(found)
        return found

    def _stage(self, name: str, cells: Sequence[StudyCell], total: int) -> None:
        self.observer.stage(name, len(cells), total)
        for outcome in self.executor.outcomes([self._task(cell) for cell in cells]) if cells else ():
            for remark in outcome.remarks:
                self.observer.say(remark)
            self.observer.cell(outcome)
            if outcome.row is not None:
                self.rows[outcome.cell] = outcome.row
                if not outcome.reused:
                    self.seconds[outcome.cell.name] = round(outcome.seconds, 1)
            else:
                self.rows.pop(outcome.cell, None)  # of an earlier call, and its run is damaged since
                self.failures[outcome.cell.name] = outcome.failure or "no reason was given."

    def _told_seconds(self) -> dict[str, float]:
        """By cell, how long it took on the clock; of cells made before, what was written then."""
        with suppress(MeorError, ValueError, TypeError):
            return dict(read_json(self.out / SECONDS))
        return {}

    def _task(self, cell: StudyCell) -> Task:
        return Task(self.plan, cell, self.runs, self.means)

    def _has_start(self, cell: StudyCell) -> bool:
        """A cell fails with the run of its pair that it follows, by name."""
        before = next((one for one in self._task(cell).follows.cells if one not in self.rows), None)
        if before is not None:
            self.consequences[cell.name] = f"{before.name} failed, and this run starts from it."
        return before is None

    def _choices(self) -> tuple[Choice, ...]:
        if VALIDATED not in self.plan.coefficient_rule:
            return ()
        found, refused = choices(self.plan, self._judged())
        self.consequences |= refused
        return found

    def _judged(self) -> list[Row]:
        return [row for cell, row in self.rows.items() if cell.split == VALID]

    def _balances(self) -> tuple[KeptBalance, ...]:
        """What each pair's coefficients were made from; those of selection pairs count as well."""
        mine = [cell for cell in self.rows if needs_coefficient(cell.method)]
        whose = {self._task(cell).balance_file: (cell.group, cell.seed, cell.method) for cell in mine}
        return kept_balances(self.plan, whose)

    def _remarks(self, balances: Sequence[KeptBalance]) -> dict[str, bytes | None]:
        """Beside the rows: what coefficients were made from, and which cells failed; absent if nothing."""
        remarks = {
            BALANCES: [asdict(each) for each in balances],
            SELECTION: [asdict(each) for each in self.choices],
            FAILURES: {**self.failures, **self.consequences},
            POPULARITY: self.popularity,
        }
        return {name: to_json(content) if content else None for name, content in remarks.items()}
