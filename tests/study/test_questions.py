"""What a frontier is asked, and what its curves answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.study.study_rows import row

from meor.study.curve import Curve
from meor.study.questions import ADDED, CONTROLS, LESS, Question, best_places, questions
from meor.study.rows import Group, Row

GROUP = Group("ENTITY", "complex", "replay", "practical")
STEPS = {"along": "refine.steps", "values": (1, 2)}
CURVES = {
    "host at .001": Curve(method="none", family="host", **STEPS),
    "host at .003": Curve(method="none", family="host", **STEPS),
    "cap": Curve(method="cap", along="cap.factor", values=(1, 2)),
    "cap, dialled": Curve(method="cap", of="cap", place=1.0, along="dial", values=(1, 2)),
    "cap + MEOR": Curve(method="cap+meor", settings={"cap.factor": 1.2}, along="coefficient", values=(1, 2)),
    "MEOR": Curve(method="meor", along="penalty.beta", values=(1, 2)),
    "UOR": Curve(method="uor", along="penalty.beta", values=(1, 2)),
    "shuffled values": Curve(method="shuffled-values", along="penalty.beta", values=(1, 2)),
}
CUR = {
    "host at .001": 0.20,
    "host at .003": 0.21,
    "cap": 0.25,
    "cap, dialled": 0.25,
    "cap + MEOR": 0.26,
    "MEOR": 0.23,
    "UOR": 0.24,
    "shuffled values": 0.23,
}


def rows(pairs: int = 3) -> list[Row]:
    """Every curve is level: at 1 it has A_TN .09, at 2 .07."""
    found = []
    for pair in range(pairs):
        for name, cur in CUR.items():
            for at, acquired in ((1.0, 0.09), (2.0, 0.07)):
                made = row(CURVES[name].method, pair, curve=name, at=at, run=f"{name}{at}{pair}")
                level = cur + 0.0001 * pair
                found.append(replace(made, H_cur=level, D_MCI=0.25 - level, A_TN=acquired))
    return found


def asked(text: str) -> Question:
    return next(each for each in questions(rows(), GROUP, CURVES) if each.text == text)


def words(question: Question) -> dict[tuple[str, str], str]:
    return {(each.ours, each.theirs): each.word for each in question.verdicts}


def test_training_less_is_what_every_control_is_compared_with() -> None:
    found = words(asked(LESS))
    assert {theirs for _, theirs in found} == {"host"}
    assert {ours for ours, _ in found} == set(CURVES) - {"host at .001", "host at .003"}
    assert set(found.values()) == {"ahead"}
    assert asked(LESS).answer == "yes"


def test_meor_is_compared_with_its_controls_and_with_nothing_else() -> None:
    assert words(asked(CONTROLS)) == {
        ("MEOR", "UOR"): "behind",
        ("MEOR", "shuffled values"): "no difference",
    }
    assert asked(CONTROLS).answer == "no"


@pytest.mark.parametrize(
    ("cur", "answer"), [({"UOR": 0.22, "shuffled values": 0.22}, "yes"), ({"UOR": 0.22}, "in part")]
)
def test_meor_beats_its_controls_only_if_it_is_ahead_of_all(cur: dict[str, float], answer: str) -> None:
    lower = [
        replace(each, H_cur=cur[each.curve], D_MCI=0.25 - cur[each.curve]) if each.curve in cur else each
        for each in rows()
    ]
    found = next(each for each in questions(lower, GROUP, CURVES) if each.text == CONTROLS)
    assert found.answer == answer


def test_what_may_add_to_the_cap_is_capped_and_more() -> None:
    assert words(asked(ADDED)) == {
        ("cap, dialled", "cap"): "no difference",
        ("cap + MEOR", "cap"): "ahead",
    }


def test_competitors_that_never_meet_are_named() -> None:
    far = [replace(each, A_TN=each.A_TN + 0.5) if each.curve == "UOR" else each for each in rows()]
    found = next(each for each in questions(far, GROUP, CURVES) if each.text == CONTROLS)
    assert found.apart == (("MEOR", "UOR"),)


def test_curves_that_can_answer_nothing_are_asked_nothing() -> None:
    only = {"cap": CURVES["cap"]}
    assert questions(rows(), GROUP, only) == []


def judged(at: float, cur: float, acquired: float) -> Row:
    return row("cap", 0, curve="cap", at=at, run=f"cap{at}", H_cur_valid=cur, A_TN_valid=acquired)


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({1.0: (0.24, 0.10), 2.0: (0.26, 0.10), 3.0: (0.25, 0.10)}, "cap.factor 2"),
        ({1.0: (0.27, 0.10), 2.0: (0.26, 0.10), 3.0: (0.25, 0.10)}, "cap.factor 1, the end of its values"),
        ({1.0: (0.27, 0.09), 2.0: (0.26, 0.10), 3.0: (0.25, 0.10)}, "cap.factor 2"),
        ({1.0: (0.27, 0.09), 2.0: (0.26, 0.09)}, "no value keeps newcomers as well as the host alone"),
    ],
)
def test_the_best_place_is_judged_by_validation_facts_within_the_margin(
    values: dict[float, tuple[float, float]], place: str
) -> None:
    curves = {"cap": Curve(method="cap", along="cap.factor", values=tuple(values))}
    alone = row("none", 0, H_cur_valid=0.20, A_TN_valid=0.10)
    found = [alone, *(judged(at, *ends) for at, ends in values.items())]
    assert best_places(found, GROUP, curves) == {"cap": place}


def test_without_validation_facts_no_place_is_best() -> None:
    assert best_places([row("none", 0), *rows(1)], GROUP, CURVES) == {}
