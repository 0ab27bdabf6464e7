"""The cells of a study: which runs it needs, and which of them are rows of which rule, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from meor.escape import file_name
from meor.methods import CAP, METHODS, NONE, former_name, needs_coefficient
from meor.methods.coefficient import ALWAYS, MULTIPLES
from meor.run.config import Config
from meor.study.curve import COEFFICIENT, MULTIPLE, Curve
from meor.study.keys import BALANCE, VALIDATED
from meor.study.plan import Study, folder_name
from meor.study.rows import UNREGULARIZED, Group, Row

TEST, VALID = "test", "valid"


@dataclass(frozen=True, slots=True, order=True)
class StudyCell:
    """One run of a study. Rules that end in the same coefficient share one cell."""

    group: Group
    seed: int
    method: str
    multiple: float | None = None  # of the balanced coefficient; None without a coefficient
    coefficient: float | None = None  # a given number instead
    split: str = TEST
    curve: str | None = None  # of a frontier, and where on it
    at: float | None = None

    @property
    def name(self) -> str:
        """A path below the study's folder of runs, and what a person is told when it fails."""
        weight = "" if self.multiple in (None, 1.0) else f"-x{self.multiple:g}"
        if self.coefficient is not None:
            weight = f"-c{self.coefficient!r}"
        ending = "" if self.split == TEST else f"-{self.split}"
        group = self.group
        folder = f"{folder_name(group.stream)}-{file_name(group.host)}-{group.backbone}-{group.preset}"
        if self.curve is not None and self.at is not None:
            return f"{folder}/pair-{self.seed}/{file_name(self.curve)}@{self.at!r}"
        return f"{folder}/pair-{self.seed}/{self.method}{weight}{ending}"

    @property
    def former_name(self) -> str:
        """The same path as earlier versions named it: their studies go on where they stopped."""
        return replace(self, method=former_name(self.method)).name

    @property
    def alone(self) -> StudyCell:
        """The host alone, capped where this one is: the run of the pair that this one starts from."""
        start = METHODS[self.method].start
        return replace(self, method=start, multiple=None, coefficient=None, curve=None, at=None)

    @property
    def host_alone(self) -> StudyCell:
        """The run of the pair that decides how long updates are trained."""
        return replace(self.alone, method=NONE)

    def config(self, plan: Study, coefficient: float | None = None, begins: int = 1) -> Config:
        sets = [] if self.curve is None or self.at is None else plan.curves[self.curve].sets(self.at)
        config = plan.config(self.group, self.method, self.seed, coefficient, begins, sets=sets)
        return config.for_selection() if self.split == VALID else config


def alone_cells(plan: Study) -> list[StudyCell]:
    """What everything else starts from: the host alone in each pair, pairs for selection included."""
    return _starts(plan, NONE)


def capped_cells(plan: Study) -> list[StudyCell]:
    """The same, capped: trained for as long as the host alone was."""
    return _starts(plan, CAP)


def _starts(plan: Study, method: str) -> list[StudyCell]:
    found = []
    for group in plan.groups:
        mine = [StudyCell(group, seed, method) for seed, name in plan.runs_of(group) if name == method]
        aside = plan.selection_seeds if mine else ()
        found += [*mine, *(StudyCell(group, seed, method, split=VALID) for seed in aside)]
    return found


def method_cells(plan: Study) -> list[StudyCell]:
    """Every other run whose coefficient needs no choice."""
    found: list[StudyCell] = []
    for group in plan.groups:
        for seed, method in plan.runs_of(group):
            if method == NONE:
                trained = ((name, curve) for name, curve in plan.curves.items() if curve.of is None)
                found += _on_curves(StudyCell(group, seed, NONE), trained)
            elif METHODS[method].kind == "transform" or METHODS[method].coefficient is not None:
                found.append(StudyCell(group, seed, method))
            elif needs_coefficient(method):
                found += _weighted(plan, StudyCell(group, seed, method))
    return found


def derived_cells(plan: Study) -> list[StudyCell]:
    """Runs that are made from those of other curves: nothing is trained."""
    made = [(name, curve) for name, curve in plan.curves.items() if curve.of is not None]
    return [each for cell in alone_cells(plan) if cell.split == TEST for each in _on_curves(cell, made)]


def _on_curves(alone: StudyCell, curves: Iterable[tuple[str, Curve]]) -> Iterator[StudyCell]:
    for name, curve in curves:
        for at in curve.values:
            yield _on_curve(alone, name, curve, at)


def judged_by(plan: Study, cell: StudyCell) -> str:
    """The split whose facts the row of a cell is about."""
    return VALID if cell.split == VALID else plan.judged[0]


def is_source(plan: Study, cell: StudyCell) -> bool:
    """Is the run of another cell made from this one's?"""
    return any(
        curve.of == cell.curve and cell.at in [curve.source_at(at) for at in curve.values]
        for curve in plan.curves.values()
        if curve.of is not None
    )


def source_of(plan: Study, cell: StudyCell) -> StudyCell | None:
    """The cell whose run a cell is made from; None where it is trained."""
    if cell.curve is None or cell.at is None or (name := plan.curves[cell.curve].of) is None:
        return None
    return _on_curve(cell, name, plan.curves[name], plan.curves[cell.curve].source_at(cell.at))


def _on_curve(cell: StudyCell, name: str, curve: Curve, at: float) -> StudyCell:
    weight: dict[str, Any] = {curve.along: at} if curve.along in (MULTIPLE, COEFFICIENT) else curve.given
    return StudyCell(cell.group, cell.seed, curve.method, **weight, curve=name, at=at)


def selection_cells(plan: Study, multiples: Sequence[float] = MULTIPLES[:ALWAYS]) -> list[StudyCell]:
    """Runs on pairs outside the study, judged on validation facts only (decision 34)."""
    return [
        cell
        for group in plan.groups
        for method in plan.penalized_of(group)
        for multiple in multiples
        for cell in trial_cells(plan, group, method, multiple)
    ]


def trial_cells(plan: Study, group: Group, method: str, multiple: float) -> list[StudyCell]:
    """One multiple of a method, on every pair that chooses."""
    return [
        replace(StudyCell(group, seed, method), multiple=multiple, split=VALID)
        for seed in plan.selection_seeds
    ]


def validated_cells(plan: Study, chosen: dict[tuple[Group, str], float]) -> list[StudyCell]:
    """The runs of the validated rule: each method with the multiple that was chosen for it."""
    if VALIDATED not in plan.coefficient_rule:
        return []
    return [
        _validated(StudyCell(group, seed, method), chosen[group, method])
        for group in plan.groups
        for seed, method in plan.runs_of(group)
        if (group, method) in chosen
    ]


def _validated(cell: StudyCell, multiple: float) -> StudyCell:
    """A multiple of 0 says that no coefficient kept newcomers: the run is the host with a penalty unused."""
    return replace(cell, coefficient=0.0) if multiple == 0.0 else replace(cell, multiple=multiple)


def _weighted(plan: Study, cell: StudyCell) -> Iterator[StudyCell]:
    for rule in plan.coefficient_rule:
        if rule == BALANCE:
            yield replace(cell, multiple=1.0)
        elif rule != VALIDATED:
            yield replace(cell, coefficient=float(rule))


def rows_of_the_study(
    plan: Study, made: Mapping[StudyCell, Row], validated: Sequence[StudyCell]
) -> tuple[Row, ...]:
    """Rows in the order of the plan; a run that serves two rules has a row under each."""
    found = [
        (_place(plan, cell, row), row)
        for cell, row in made.items()
        if cell.split != VALID and _was_asked_for(plan, cell)
    ]
    for cell in validated:
        if cell in made:
            row = replace(made[cell], coefficient_rule=VALIDATED, multiple=cell.multiple or 0.0)
            found.append((_place(plan, cell, row), row))
    return tuple(row for _, row in sorted(found, key=lambda each: each[0]))


def _was_asked_for(plan: Study, cell: StudyCell) -> bool:
    """Not a run that exists only because the validated rule chose its multiple."""
    if not needs_coefficient(cell.method) or cell.curve is not None:
        return True
    if cell.coefficient is not None:
        return repr(cell.coefficient) in plan.coefficient_rule
    return BALANCE in plan.coefficient_rule and cell.multiple == 1.0


def _place(plan: Study, cell: StudyCell, row: Row) -> tuple[float, ...]:
    group = plan.groups.index(cell.group)
    if cell.curve is not None and cell.at is not None:
        return group, cell.seed, 1, list(plan.curves).index(cell.curve), cell.at
    rules = (UNREGULARIZED, *plan.coefficient_rule)
    at = rules.index(row.coefficient_rule), plan.methods_of(cell.group).index(cell.method)
    return group, cell.seed, 0, *at, row.multiple or 0.0
