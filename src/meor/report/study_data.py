"""A study folder, read: its rows, what failed, and the comparisons they allow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meor.errors import StudyError
from meor.methods import METHODS
from meor.report.evidence import losses
from meor.report.figures import Loss
from meor.report.words import plural
from meor.run.layout import ENDPOINTS, MODEL, is_run, update_name
from meor.run.view import RunView
from meor.study.cell import MARK
from meor.study.conduct import BALANCES, FAILURES, RUNS_FOLDER, SELECTION
from meor.study.effects import Comparison, MethodLevels, compare, levels
from meor.study.paired_tables import head_method
from meor.study.plan import FIRST_SELECTION_SEED, Study
from meor.study.results import Results
from meor.study.row_file import refuse_damaged_rows
from meor.study.rows import RUNS, UNREGULARIZED, Group, Row, read_rows, select

COMMAND = "command.txt"
FEWEST_PAIRS = 2
"""Of which an effect can be made."""


@dataclass(frozen=True, slots=True)
class Uncompared:
    """A method that the head method is not compared with."""

    comparator: str
    why: str  # a sentence without names where it is alike for many


@dataclass(frozen=True, slots=True)
class Setting:
    """One group under one coefficient rule: what may be compared with what."""

    group: Group
    rule: str
    levels: tuple[MethodLevels, ...]
    comparisons: tuple[Comparison, ...]  # the head method against each other one
    uncompared: tuple[Uncompared, ...]


@dataclass(frozen=True, slots=True)
class Balanced:
    """What fixed the coefficients of a method in a group, over its pairs."""

    group: Group
    method: str
    pairs: int
    active: int
    records: int


@dataclass(frozen=True, slots=True)
class StudyData:
    name: str
    plan: Study | None
    rows: tuple[Row, ...]
    settings: tuple[Setting, ...]
    head: str | None  # the method the study is about
    failures: dict[str, str]
    selection: tuple[dict[str, Any], ...]
    balances: tuple[Balanced, ...]
    command: str  # as typed; may name places
    folders: tuple[Path, ...]  # where run folders may be

    @property
    def groups(self) -> int:
        """Streams, backbones, hosts and presets that are not to be averaged over."""
        return len({setting.group for setting in self.settings})

    @property
    def merged(self) -> bool:
        """Many settings with the same single comparison are rows of one table each."""
        compared = [setting.comparisons for setting in self.settings if setting.comparisons]
        comparators = {each.comparator for comparisons in compared for each in comparisons}
        return len(compared) > 2 and len(comparators) == 1

    @property
    def sample(self) -> int:
        """How many facts of a snapshot were ranked at most; 0: all of them."""
        return 0 if self.plan is None else self.plan.sample

    def run(self, row: Row) -> RunView | None:
        """The run behind a row, if its folder is here."""
        for place in self.folders:
            path = place / row.run
            if is_run(path):
                return RunView.open(path)
        return None


def read_study(folder: Path, runs: Path | None = None) -> StudyData:
    """What a study wrote; a file that is not as it was written is refused by name."""
    results = Results(folder)
    for name in results.files.sha256:
        results.files.path(name)
    rows = tuple(read_rows(folder / RUNS, results))
    if not rows:
        raise StudyError(f"{folder / RUNS} has no run. Go on with `meor study`, or see why its cells failed.")
    head = head_method({row.method for row in rows})
    plan = Study.load(str(folder / MARK)) if MARK in results.files.sha256 else None
    failures, selection = results.json(FAILURES) or {}, results.json(SELECTION) or ()
    places = (*([runs] if runs is not None else []), folder, folder / RUNS_FOLDER)
    refuse_damaged_rows(places, rows)
    return StudyData(
        name=rows[0].study,
        plan=plan,
        rows=rows,
        settings=tuple(_settings(rows, head)),
        head=head,
        failures={str(key): str(value) for key, value in failures.items()},
        selection=tuple(selection),
        balances=_balances(results.json(BALANCES) or ()),
        command=(results.read(COMMAND) or b"").decode("utf-8", "replace").strip(),
        folders=places,
    )


def has_weights(view: RunView) -> bool:
    """A study may drop the weights of finished runs; ranks and records stay."""
    return all((view.path / update_name(update) / MODEL).is_file() for update in view.updates)


def mean_losses(data: StudyData, setting: Setting, method: str) -> tuple[tuple[Loss, ...], int]:
    """H_old and H_cur at each update, over the pairs whose run folders are here, and how many those are."""
    old: dict[int, list[float]] = defaultdict(list)
    cur: dict[int, list[float]] = defaultdict(list)
    pairs = 0
    for row in select(data.rows, setting.group, method, setting.rule).values():
        view = data.run(row)
        split = view.endpoints().get("test", {}) if view is not None and view.has(ENDPOINTS) else {}
        found = losses(split)
        pairs += bool(found)
        for loss in found:
            old[loss.update].append(loss.old)
            cur[loss.update].append(loss.cur)
    return tuple(Loss(u, _mean(old[u]), _mean(cur[u])) for u in sorted(old)), pairs


def _settings(rows: Sequence[Row], head: str | None) -> list[Setting]:
    found = []
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in rows if row.group == group]
        rules = list(
            dict.fromkeys(row.coefficient_rule for row in mine if row.coefficient_rule != UNREGULARIZED)
        )
        for rule in rules or ["balance"]:
            names = _ordered(row.method for row in mine)
            absolute = [each for name in names if (each := levels(rows, group, rule, name)) is not None]
            compared, uncompared = _comparisons(rows, group, rule, head, [each.method for each in absolute])
            found.append(Setting(group, rule, tuple(absolute), compared, uncompared))
    return found


def _comparisons(
    rows: Sequence[Row], group: Group, rule: str, head: str | None, methods: Sequence[str]
) -> tuple[tuple[Comparison, ...], tuple[Uncompared, ...]]:
    if head is None or head not in methods:
        return (), ()
    found, refused = [], []
    ours = set(select(rows, group, head, rule))
    for other in methods:
        if other == head:
            continue
        shared = len(ours & set(select(rows, group, other, rule)))
        if shared < FEWEST_PAIRS:
            why = f"{plural(shared, 'pair')} in common, and an effect needs {FEWEST_PAIRS}."
            refused.append(Uncompared(other, f"{why} Raise --pairs, or see why cells failed."))
            continue
        try:
            found.append(compare(rows, group, rule, head, other))
        except StudyError as error:
            refused.append(Uncompared(other, str(error)))
    return tuple(found), tuple(refused)


def _ordered(methods: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(methods))
    place = {name: at for at, name in enumerate(METHODS)}
    return sorted(found, key=lambda name: place.get(name, len(place)))


def _balances(kept: Sequence[dict[str, Any]]) -> tuple[Balanced, ...]:
    found: dict[tuple[Group, str], Balanced] = {}
    for each in kept:
        if each["pair"] >= FIRST_SELECTION_SEED:
            continue  # made to choose a coefficient; no pair of the study
        key = (Group(**each["group"]), str(each["method"]))
        before = found.get(key, Balanced(*key, 0, 0, 0))
        active, records = (int(each["balance"][name]) for name in ("active", "records"))
        found[key] = Balanced(*key, before.pairs + 1, before.active + active, before.records + records)
    return tuple(found.values())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
