from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.study.study_rows import row, study_rows

from meor.errors import NonFiniteError, StudyError
from meor.study.bounds import lower_bound, t_interval
from meor.study.comparisons import adjusted
from meor.study.effects import MARGIN, TooFewPairsError, compare, effect, effect_name, levels
from meor.study.rows import Group

GROUP = Group("ENTITY", "complex", "replay", "practical")


def test_effects_are_method_minus_comparator_and_for_interference_the_reduction() -> None:
    rows = study_rows()
    found = compare(rows, GROUP, "balance", "meor", "none")
    ours = {each.pair: each for each in rows if each.method == "meor"}
    theirs = {each.pair: each for each in rows if each.method == "none"}
    assert found.pairs == tuple(range(8))
    expected = [ours[pair].H_cur - theirs[pair].H_cur for pair in range(8)]  # type: ignore[operator]
    assert list(found["H_cur"].values) == expected
    assert found["H_cur"].lower == lower_bound(expected)
    assert found["H_cur"].interval == t_interval(expected)
    reductions = [theirs[pair].D_MCI - ours[pair].D_MCI for pair in range(8)]  # type: ignore[operator]
    assert list(found["D_MCI"].values) == reductions
    for cur, old, less in zip(found["H_cur"].values, found["H_old"].values, reductions, strict=True):
        assert abs(cur - (old + less)) < 1e-15
    assert found["H_cur"].improved
    assert found.active_share == 0.25
    assert found.comparator_active_share is None


def test_wins_ties_and_losses_are_counted_on_full_precision() -> None:
    found = effect("H_cur", [1e-17, 0.0, -1e-17, 0.2, -0.0])
    assert found.wtl == "2/2/1"


def test_preservation_is_judged_by_the_lower_bound_at_the_margin() -> None:
    assert effect("A_TN", [-MARGIN + 1e-9] * 3).preserved
    assert not effect("A_TN", [-MARGIN] * 3).preserved
    assert not effect("A_TN", [0.02, -0.02, 0.01]).preserved


def test_a_pair_counts_only_where_both_methods_ran() -> None:
    rows = [each for each in study_rows() if not (each.method == "meor" and each.pair in (2, 5))]
    assert compare(rows, GROUP, "balance", "meor", "none").pairs == (0, 1, 3, 4, 6, 7)
    with pytest.raises(StudyError, match="share 0 pairs"):
        compare([], GROUP, "balance", "meor", "none")


def test_runs_that_do_not_share_their_inputs_are_no_pair() -> None:
    rows = [replace(each, pair_hash="other") if each.method == "meor" else each for each in study_rows()]
    with pytest.raises(StudyError, match="no pair"):
        compare(rows, GROUP, "balance", "meor", "none")


def test_runs_that_should_share_references_and_do_not_are_no_pair() -> None:
    rows = study_rows(reference_hash="same")
    other = [replace(each, reference_hash="other") if each.method == "meor" else each for each in rows]
    with pytest.raises(StudyError, match="share their references"):
        compare(other, GROUP, "balance", "meor", "mmr")
    compare(other, GROUP, "balance", "meor", "uor")  # role-only references are others by design
    with pytest.raises(StudyError, match="share their references"):
        compare(other, GROUP, "balance", "meor", "uncentered")


def test_a_violated_identity_raises() -> None:
    rows = study_rows()
    broken = [replace(each, D_MCI=each.D_MCI + 1e-9) if each.method == "meor" else each for each in rows]  # type: ignore[operator]
    with pytest.raises(StudyError, match="plus the reduction"):
        compare(broken, GROUP, "balance", "meor", "none")
    hair = [replace(each, D_MCI=each.D_MCI + 1e-14) if each.method == "meor" else each for each in rows]  # type: ignore[operator]
    compare(hair, GROUP, "balance", "meor", "none")


def test_rules_are_never_mixed_and_the_host_alone_serves_both() -> None:
    rows = study_rows(rules=("balance", "validated"))
    one, other = (compare(rows, GROUP, rule, "meor", "none") for rule in ("balance", "validated"))
    assert one["H_cur"].values != other["H_cur"].values
    assert len(one.pairs) == len(other.pairs) == 8


def test_multiples_of_a_frontier_do_not_enter_the_balanced_comparison() -> None:
    rows = study_rows()
    more = [replace(each, multiple=30.0, run="x") for each in rows if each.method == "meor"]
    assert compare(rows + more, GROUP, "balance", "meor", "mmr") == compare(
        rows, GROUP, "balance", "meor", "mmr"
    )
    with pytest.raises(StudyError, match="stands twice"):
        compare([*rows, rows[-1]], GROUP, "balance", "meor", "none")


def test_an_undefined_endpoint_has_no_effect_and_a_nan_raises() -> None:
    rows = study_rows(A_QN=None)
    assert "A_QN" not in compare(rows, GROUP, "balance", "meor", "none").effects
    broken = [replace(each, A_TN=float("nan")) if each.method == "meor" else each for each in rows]
    with pytest.raises(NonFiniteError):
        compare(broken, GROUP, "balance", "meor", "none")


def test_levels_are_means_over_pairs() -> None:
    rows = study_rows()
    found = levels(rows, GROUP, "balance", "meor")
    assert found is not None
    values = [each.H_cur for each in rows if each.method == "meor"]
    assert found.levels["H_cur"].mean == pytest.approx(float(np.mean(values)), abs=1e-15)  # type: ignore[arg-type]
    assert found.levels["H_cur"].interval == t_interval(values)  # type: ignore[arg-type]
    assert levels(rows, GROUP, "balance", "nobody") is None
    single = levels([row("none")], GROUP, "balance", "none")
    assert single is not None
    assert single.levels["H_cur"].interval is None


def test_holm_never_lowers_a_p_value() -> None:
    rows = study_rows()
    family = [compare(rows, GROUP, "balance", "meor", other) for other in ("none", "mmr", "uor")]
    found = adjusted(family)
    assert len(found) == len(family)
    assert all(
        value is not None and value >= e["H_cur"].p_value for value, e in zip(found, family, strict=True)
    )
    undefined = replace(family[1], effects={})
    assert adjusted([family[0], undefined, family[2]])[1] is None


def test_too_few_pairs_are_told_apart_from_what_is_wrong() -> None:
    with pytest.raises(TooFewPairsError, match="an effect needs 2"):
        compare(study_rows(1), GROUP, "balance", "meor", "none")


def test_a_small_effect_is_worse_by_the_same_evidence_that_makes_one_better() -> None:
    for values, improved, worsened in (
        ((0.01, 0.011, 0.012), True, False),
        ((-0.01, -0.011, -0.012), False, True),
        ((-0.01, 0.011, 0.0), False, False),
    ):
        found = effect("H_cur", values)
        assert (found.improved, found.worsened) == (improved, worsened)
        assert found.mark == ""
        assert replace(found, partial=True).mark == "†"


def test_an_effect_is_named_by_its_endpoint_and_interference_by_its_reduction() -> None:
    assert effect_name("D_MCI") == "D_MCI reduction"
    assert effect_name("H_cur") == "ΔH_cur"
