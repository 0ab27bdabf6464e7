"""Which finished cells are rows of a study, under which rule, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meor.methods import is_penalized
from meor.study.pairing import VALID, Cell, groups
from meor.study.plan import BALANCE, VALIDATED, Study
from meor.study.rows import UNREGULARIZED, Row


def rows_of_the_study(plan: Study, made: Mapping[Cell, Row], validated: Sequence[Cell]) -> tuple[Row, ...]:
    """Rows in the order of the plan; a run that serves two rules has a row under each."""
    found = [
        (_place(plan, cell, row), row)
        for cell, row in made.items()
        if cell.split != VALID and (not is_penalized(cell.method) or _was_asked_for(plan, cell))
    ]
    for cell in validated:
        if cell in made:
            row = replace(made[cell], coefficient_rule=VALIDATED, multiple=cell.multiple or 0.0)
            found.append((_place(plan, cell, row), row))
    return tuple(row for _, row in sorted(found, key=lambda each: each[0]))


def _was_asked_for(plan: Study, cell: Cell) -> bool:
    """Not a run that exists only because the validated rule chose its multiple."""
    if cell.coefficient is not None:
        return repr(cell.coefficient) in plan.coefficient_rule
    return BALANCE in plan.coefficient_rule and cell.multiple in plan.multiples


def _place(plan: Study, cell: Cell, row: Row) -> tuple[int, int, int, int, float]:
    rules = (UNREGULARIZED, *plan.coefficient_rule)
    methods: tuple[str, ...] = plan.methods
    return (
        groups(plan).index(cell.group),
        cell.seed,
        rules.index(row.coefficient_rule),
        methods.index(cell.method),
        row.multiple or 0.0,
    )
