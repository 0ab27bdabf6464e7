"""What a cell takes from other runs of its pair, stated in one place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meor.study.cells import StudyCell
from meor.study.curve import Curve
from meor.study.follows import Follows, follows
from meor.study.plan import PAIR, Study

OWN = "own"


def _plan(schedule: str = PAIR, **curves: Curve) -> Study:
    return Study(
        study="asked",
        stream=("world",),
        methods=("none", "cap", "meor", "cap+meor"),
        schedule=schedule,
        curves=curves,
        pairs=1,
    )


def _cell(plan: Study, method: str, **more: object) -> StudyCell:
    return replace(StudyCell(plan.groups[0], 0, method), **more)  # type: ignore[arg-type]


def test_the_host_alone_follows_nothing() -> None:
    plan = _plan()
    assert follows(plan, _cell(plan, "none")) == Follows()
    assert follows(plan, _cell(plan, "none")).cells == ()


def test_a_capped_host_is_trained_for_as_long_as_the_host_alone_and_starts_from_nothing() -> None:
    plan = _plan()
    assert follows(plan, _cell(plan, "cap")) == Follows(as_long_as=_cell(plan, "none"))


def test_a_penalty_on_a_cap_is_balanced_by_the_capped_host_and_trained_for_as_long_as_the_plain_one() -> None:
    plan = _plan()
    found = follows(plan, _cell(plan, "cap+meor", multiple=1.0))
    host, capped = _cell(plan, "none"), _cell(plan, "cap")
    assert found == Follows(balanced_by=capped, as_long_as=host, starts_from=capped)
    assert found.cells == (host, capped)


def test_a_given_coefficient_needs_no_balance() -> None:
    plan = _plan()
    assert follows(plan, _cell(plan, "meor", coefficient=0.5)).balanced_by is None


def test_where_each_run_stops_by_itself_none_is_as_long_as_another() -> None:
    plan = _plan(OWN)
    assert follows(plan, _cell(plan, "cap")) == Follows()
    assert follows(plan, _cell(plan, "meor", multiple=1.0)).as_long_as is None


def test_a_method_with_a_coefficient_of_its_own_follows_nothing_where_each_run_stops_by_itself() -> None:
    assert follows(_plan(OWN), _cell(_plan(OWN), "cap+guard")) == Follows()
    as_long = Follows(as_long_as=_cell(_plan(), "none"))
    assert follows(_plan(), _cell(_plan(), "cap+guard")) == as_long


@pytest.mark.parametrize("schedule", [PAIR, OWN])
def test_a_curve_of_lengths_follows_the_host_alone_under_either_schedule(schedule: str) -> None:
    plan = _plan(schedule, longer=Curve(method="none", along="length", values=(0.5, 2.0)))
    found = follows(plan, _cell(plan, "none", curve="longer", at=2.0))
    assert found == Follows(as_long_as=_cell(plan, "none"), times=2.0)


def test_what_is_made_from_another_run_follows_that_run_alone() -> None:
    factor = Curve(method="cap", along="cap.factor", values=(1.0, 1.2))
    dialled = Curve(method="cap", along="dial", of="capped", place=1.2, values=(0.9,))
    plan = _plan(OWN, capped=factor, dialled=dialled)
    found = follows(plan, _cell(plan, "cap", curve="dialled", at=0.9))
    assert found == Follows(made_from=_cell(plan, "cap", curve="capped", at=1.2))
    assert follows(plan, found.cells[0]) == Follows()
