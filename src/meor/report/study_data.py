"""A study folder, read: its rows, what failed, the comparisons they allow, and what settings are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meor.errors import StudyError
from meor.methods import METHODS
from meor.report.evidence import losses
from meor.report.figures import Loss
from meor.report.words import backbone_name, plural, shown_name
from meor.run.layout import ENDPOINTS, MODEL, is_run, update_name
from meor.run.view import RunView
from meor.stream.occurrence import sample_note
from meor.study.conduct import BALANCES, FAILURES, RUNS_FOLDER, SELECTION
from meor.study.effects import MethodLevels, PairedComparison, compare, levels
from meor.study.paired_tables import head_method
from meor.study.plan import FIRST_SELECTION_SEED, Study
from meor.study.popularity import POPULARITY
from meor.study.results import Results
from meor.study.row_file import refuse_damaged_rows
from meor.study.rows import RUNS, UNREGULARIZED, Group, Row, read_rows, select
from meor.study.table import Table
from meor.study.task import MARK

UNADJUSTED = "Bounds and intervals are not adjusted for the number of comparisons."
COMMAND = "command.txt"
FEWEST_PAIRS = 2  # of which an effect can be made


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
    comparisons: tuple[PairedComparison, ...]  # the head method against each other one
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
    popularity: Mapping[str, Any]  # the baseline without a model, by stream

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
        popularity=results.json(POPULARITY) or {},
        command=(results.read(COMMAND) or b"").decode("utf-8", "replace").strip(),
        folders=places,
    )


def has_weights(view: RunView) -> bool:
    """A study may drop the weights of finished runs; ranks and records stay."""
    return all((view.path / update_name(update) / MODEL).is_file() for update in view.updates)


def mean_losses(data: StudyData, setting: Setting, method: str) -> tuple[tuple[Loss, ...], int]:
    """H_old and H_cur at each update, over the pairs whose run folders are here, and how many those are."""
    by_update: dict[int, list[tuple[float, float]]] = defaultdict(list)
    pairs = 0
    for row in select(data.rows, setting.group, method, setting.rule).values():
        view = data.run(row)
        split = view.endpoints().get("test", {}) if view is not None and view.has(ENDPOINTS) else {}
        found = losses(split)
        pairs += bool(found)
        for loss in found:
            by_update[loss.update].append((loss.old, loss.cur))
    means = (
        Loss(update, *(sum(each) / len(each) for each in zip(*levels_of, strict=True)))
        for update, levels_of in sorted(by_update.items())
    )
    return tuple(means), pairs


def with_sample(table: Table, sample: int) -> Table:
    """The table, with a footnote where not every fact was ranked."""
    note = sample_note(sample)
    return replace(table, notes=(*table.notes, note)) if note else table


def where(data: StudyData, setting: Setting) -> str:
    """The end of a title; nothing where there is one setting."""
    if len(data.settings) == 1:
        return ""
    rules = len({s.rule for s in data.settings}) > 1
    named = [str(setting.group)] if data.groups > 1 else []
    named += [f"rule {setting.rule}"] if rules else []
    return f": {', '.join(named)}"


def labels(settings: Sequence[Setting]) -> list[str]:
    """The parts in which settings differ."""
    every = [_parts(setting) for setting in settings]
    return [
        ", ".join(
            part for part, column in zip(mine, zip(*every, strict=True), strict=True) if len(set(column)) > 1
        )
        for mine in every
    ]


def shared(settings: Sequence[Setting]) -> str:
    """The parts that all settings have in common, as the end of a title."""
    columns = zip(*(_parts(setting) for setting in settings), strict=True)
    kinds = ("", "", "host ", "preset ", "rule ")
    alike = [
        f"{kind}{column[0]}" for kind, column in zip(kinds, columns, strict=True) if len(set(column)) == 1
    ]
    return f": {', '.join(alike)}" if alike else ""


def _parts(setting: Setting) -> tuple[str, ...]:
    group = setting.group
    named = (shown_name(group.stream), backbone_name(group.backbone))
    return (*named, group.host, group.preset, setting.rule)


def _settings(rows: Sequence[Row], head: str | None) -> list[Setting]:
    found = []
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in rows if row.group == group]
        rules = list(
            dict.fromkeys(row.coefficient_rule for row in mine if row.coefficient_rule != UNREGULARIZED)
        )
        for rule in rules or ["balance"]:
            names = sorted(dict.fromkeys(row.method for row in mine), key=_place)
            absolute = [each for name in names if (each := levels(rows, group, rule, name)) is not None]
            compared, uncompared = _comparisons(rows, group, rule, head, [each.method for each in absolute])
            found.append(Setting(group, rule, tuple(absolute), compared, uncompared))
    return found


def _comparisons(
    rows: Sequence[Row], group: Group, rule: str, head: str | None, methods: Sequence[str]
) -> tuple[tuple[PairedComparison, ...], tuple[Uncompared, ...]]:
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


def _place(method: str) -> int:
    """In the order of the registry; one that it does not know comes last."""
    return list(METHODS).index(method) if method in METHODS else len(METHODS)


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
