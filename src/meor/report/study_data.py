"""A study folder, read: its rows, what failed, the comparisons they allow, and what settings are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meor.errors import StudyError
from meor.evaluation.displacement import Loss, same_facts
from meor.methods import METHODS, NONE
from meor.report.evidence import ranks_of
from meor.run.layout import ENDPOINTS, MODEL, is_run, update_name
from meor.run.view import RunView
from meor.stream.occurrence import sample_note
from meor.study.coefficient import Choice, KeptBalance, read_choice, read_kept_balance
from meor.study.comparisons import head_method
from meor.study.conduct import BALANCES, FAILURES, RUNS_FOLDER, SELECTION
from meor.study.effects import MethodLevels, PairedComparison, TooFewPairsError, compare, levels
from meor.study.keys import BALANCE
from meor.study.plan import Study
from meor.study.popularity import POPULARITY
from meor.study.results import Results
from meor.study.row_file import refuse_damaged_rows
from meor.study.rows import RUNS, UNREGULARIZED, Group, Row, read_rows, select
from meor.study.table import Table
from meor.study.task import MARK

UNADJUSTED = "Bounds and intervals are not adjusted for the number of comparisons."
COMMAND = "command.txt"
TOO_FEW = "they share fewer than the 2 pairs an effect needs. Raise --pairs, or see why cells failed."


@dataclass(frozen=True, slots=True)
class Uncompared:
    """Two methods that are not compared."""

    method: str
    comparator: str
    why: str  # a sentence without names where it is alike for many


@dataclass(frozen=True, slots=True)
class Setting:
    """One group under one coefficient rule: what may be compared with what."""

    group: Group
    rule: str
    levels: tuple[MethodLevels, ...]
    against_host: tuple[PairedComparison, ...]  # every method against the host alone
    among: tuple[PairedComparison, ...]  # the head method against each other one
    uncompared: tuple[Uncompared, ...]

    def against(self, method: str | None) -> PairedComparison | None:
        """A method against the host alone."""
        found = (each for each in self.against_host if each.method == method and "H_cur" in each.effects)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class StudyData:
    name: str
    plan: Study
    rows: tuple[Row, ...]
    settings: tuple[Setting, ...]
    head: str | None  # the method the study is about
    failures: dict[str, str]
    choices: tuple[Choice, ...]
    balances: tuple[KeptBalance, ...]
    command: str  # as typed; may name places
    folders: tuple[Path, ...]  # where run folders may be
    popularity: Mapping[str, Any]  # the baseline without a model, by stream

    @property
    def groups(self) -> int:
        """Streams, backbones, hosts and presets that are not to be averaged over."""
        return len({setting.group for setting in self.settings})

    @property
    def main(self) -> Setting:
        """The one that is looked at closely: the first group, under its last rule."""
        return [each for each in self.settings if each.group == self.settings[0].group][-1]

    @property
    def merged(self) -> bool:
        """Many settings with the same single comparison are rows of one table each."""
        compared = [setting.against_host for setting in self.settings if setting.against_host]
        methods = {each.method for comparisons in compared for each in comparisons}
        return len(compared) > 2 and len(methods) == 1

    @property
    def sample(self) -> int:
        """How many facts of a snapshot were ranked at most; 0: all of them."""
        return self.plan.sample

    def run(self, row: Row) -> RunView | None:
        """The run behind a row, if its folder is here; one whose endpoints were changed is refused."""
        for place in self.folders:
            path = place / row.run
            if is_run(path):
                view = RunView.open(path)
                if view.has(ENDPOINTS):
                    view.verified(ENDPOINTS)
                return view
        return None


def read_study(folder: Path, runs: Path | None = None) -> StudyData:
    """What a study wrote; a file that is not as it was written is refused by name."""
    results = Results(folder)
    for name in results.files.sha256:
        results.files.path(name)
    rows = tuple(read_rows(folder / RUNS, results))
    if not rows:
        raise StudyError(f"{folder / RUNS} has no run. Go on with `meor study`, or see why its cells failed.")
    head = head_method({row.method for row in rows if row.curve is None})
    plan = Study.load(str(folder / MARK)) if MARK in results.files.sha256 else _plan_of(rows)
    failures = results.json(FAILURES) or {}
    places = (*([runs] if runs is not None else []), folder, folder / RUNS_FOLDER)
    refuse_damaged_rows(places, rows)
    return StudyData(
        name=rows[0].study,
        plan=plan,
        rows=rows,
        settings=tuple(_settings(rows, head)),
        head=head,
        failures={str(key): str(value) for key, value in failures.items()},
        choices=tuple(map(read_choice, results.json(SELECTION) or ())),
        balances=tuple(map(read_kept_balance, results.json(BALANCES) or ())),
        popularity=results.json(POPULARITY) or {},
        command=(results.read(COMMAND) or b"").decode("utf-8", "replace").strip(),
        folders=places,
    )


def _plan_of(rows: Sequence[Row]) -> Study:
    """Of a folder without a plan: what its rows say. Nothing is run by it, so it need not make sense."""
    rules = [row.coefficient_rule for row in rows if row.coefficient_rule != UNREGULARIZED]
    named = {name: [getattr(row, name) for row in rows] for name in ("stream", "backbone", "host", "preset")}
    named |= {"methods": [row.method for row in rows], "coefficient_rule": rules or [BALANCE]}
    unique = {name: tuple(dict.fromkeys(values)) for name, values in named.items()}
    return Study.model_construct(None, study=rows[0].study, **unique)


def has_weights(view: RunView) -> bool:
    """A study may drop the weights of finished runs; ranks and records stay."""
    return all((view.path / update_name(update) / MODEL).is_file() for update in view.updates)


def mean_over_pairs(
    data: StudyData, setting: Setting, method: str, of: Callable[[RunView], Sequence[Loss]]
) -> tuple[tuple[Loss, ...], int]:
    """Levels at each update, over the pairs whose run folders are here, and how many those are."""
    by_update: dict[int, list[tuple[float, float]]] = defaultdict(list)
    pairs = 0
    for row in select(data.rows, setting.group, method, setting.rule).values():
        view = data.run(row)
        found = of(view) if view is not None else ()
        pairs += bool(found)
        for loss in found:
            by_update[loss.update].append((loss.old, loss.cur))
    means = (
        Loss(update, *(sum(each) / len(each) for each in zip(*levels_of, strict=True)))
        for update, levels_of in sorted(by_update.items())
    )
    return tuple(means), pairs


def facts_of(view: RunView) -> tuple[Loss, ...]:
    """The facts of snapshot 0, at each update."""
    return same_facts(ranks_of(view))


def with_sample(table: Table, sample: int) -> Table:
    """The table, with a footnote where not every fact was ranked."""
    note = sample_note(sample)
    return replace(table, notes=(*table.notes, note)) if note else table


def _settings(rows: Sequence[Row], head: str | None) -> Iterator[Setting]:
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in rows if row.group == group]
        rules = list(
            dict.fromkeys(row.coefficient_rule for row in mine if row.coefficient_rule != UNREGULARIZED)
        )
        for rule in rules or [BALANCE]:
            names = sorted(dict.fromkeys(row.method for row in mine), key=_place)
            absolute = [each for name in names if (each := levels(rows, group, rule, name)) is not None]
            there = [each.method for each in absolute]
            others = [name for name in there if name not in (NONE, head)]
            hosts = [(name, NONE) for name in there if name != NONE] if NONE in there else []
            among = [(head, name) for name in others] if head in there else []
            compared = [_compared(rows, group, rule, pairs) for pairs in (hosts, among)]
            refused = [each for _, uncompared in compared for each in uncompared]
            (against_host, _), (against_others, _) = compared
            yield Setting(group, rule, tuple(absolute), against_host, against_others, tuple(refused))


def _compared(
    rows: Sequence[Row], group: Group, rule: str, wanted: Sequence[tuple[str, str]]
) -> tuple[tuple[PairedComparison, ...], list[Uncompared]]:
    """Those that can be compared, and why the others cannot."""
    found, refused = [], []
    for method, other in wanted:
        try:
            found.append(compare(rows, group, rule, method, other))
        except TooFewPairsError:
            refused.append(Uncompared(method, other, TOO_FEW))
        except StudyError as error:
            refused.append(Uncompared(method, other, str(error)))
    return tuple(found), refused


def _place(method: str) -> int:
    """In the order of the registry; one that it does not know comes last."""
    return list(METHODS).index(method) if method in METHODS else len(METHODS)
