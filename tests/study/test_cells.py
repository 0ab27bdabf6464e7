"""Which runs a study is made of. That the runs of a pair share their inputs is held by test_conduct."""

from __future__ import annotations

from meor.study.cells import StudyCell, alone_cells, method_cells, selection_cells, validated_cells
from meor.study.plan import Study
from meor.study.rows import Group

PLAN = Study.resolve(
    {
        "study": "small",
        "stream": ["world", "some/where"],
        "methods": ["none", "calibration", "mmr", "meor"],
        "coefficient_rule": ["balance", "validated", 0.3],
        "pairs": 2,
    }
)


def test_the_host_alone_comes_once_per_pair_and_selection_pairs_are_judged_on_validation() -> None:
    cells = alone_cells(PLAN)
    assert [(cell.group.stream, cell.seed, cell.split) for cell in cells] == [
        ("world", 0, "test"),
        ("world", 1, "test"),
        ("world", 1_000_000, "valid"),
        ("some/where", 0, "test"),
        ("some/where", 1, "test"),
        ("some/where", 1_000_000, "valid"),
    ]


def test_methods_have_a_run_for_each_rule_that_needs_no_choice() -> None:
    here = [cell for cell in method_cells(PLAN) if cell.group.stream == "world" and cell.seed == 0]
    assert [(cell.method, cell.multiple, cell.coefficient) for cell in here] == [
        ("calibration", None, None),
        ("mmr", 1.0, None),
        ("mmr", None, 0.3),
        ("meor", 1.0, None),
        ("meor", None, 0.3),
    ]


def test_selection_tries_multiples_through_300_on_validation_facts_alone() -> None:
    cells = selection_cells(PLAN)
    assert len(cells) == 2 * 2 * 6
    assert {cell.multiple for cell in cells} == {1.0, 3.0, 10.0, 30.0, 100.0, 300.0}
    assert {cell.split for cell in cells} == {"valid"}
    assert not {cell.seed for cell in cells} & {seed for seed, _ in PLAN.runs_of(PLAN.groups[0])}
    judged = cells[0].config(PLAN).evaluation
    assert (judged.split, judged.filter_splits) == (("valid",), ("train", "valid"))


def test_a_validated_multiple_of_one_is_the_balanced_run_itself() -> None:
    chosen = {(group, method): 1.0 for group in PLAN.groups for method in PLAN.penalized_of(group)}
    assert set(validated_cells(PLAN, chosen)) <= set(method_cells(PLAN))
    chosen = dict.fromkeys(chosen, 30.0)
    assert not set(validated_cells(PLAN, chosen)) & set(method_cells(PLAN))
    unused = validated_cells(PLAN, dict.fromkeys(chosen, 0.0))
    assert {(cell.multiple, cell.coefficient) for cell in unused} == {(None, 0.0)}


def test_no_two_cells_have_one_folder() -> None:
    cells = {*alone_cells(PLAN), *method_cells(PLAN), *selection_cells(PLAN)}
    assert len({cell.name for cell in cells}) == len(cells)
    odd = StudyCell(Group("/a/../b c", "complex", "replay", "paper"), 0, "meor", 3.0)
    assert odd.name == "b-c-replay-complex-paper/pair-0/meor-x3"


def test_runs_along_a_setting_have_the_coefficient_that_their_curve_gives() -> None:
    plan = Study.load("sensitivity")
    beta = [cell for cell in method_cells(plan) if cell.curve == "beta" and cell.seed == 0]
    assert [(cell.at, cell.coefficient, cell.multiple) for cell in beta] == [
        (1.0, 0.5, None),
        (5.0, 0.5, None),
        (20.0, 0.5, None),
    ]
    config = beta[2].config(plan, beta[2].coefficient)
    assert (config.penalty.beta, config.coefficient) == (20.0, 0.5)
