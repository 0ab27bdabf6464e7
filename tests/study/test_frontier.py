"""Curves of a study, and who is ahead of whom at equal A_TN."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.study.study_rows import row

from meor.errors import StudyError
from meor.study.curve import Curve
from meor.study.frontier import Point, best, families, frontier_points, lines, verdicts
from meor.study.rows import Group, Row

GROUP = Group("ENTITY", "complex", "replay", "practical")
MEOR, MMR = (Curve(method=method, values=(1, 3)) for method in ("meor", "mmr"))
BOTH = {"MEOR": MEOR, "MMR": MMR}


def grid(curve: str, pair: int, points: dict[float, tuple[float, float]], method: str = "meor") -> list[Row]:
    """A_TN and H_cur by value."""
    return [
        row(method, pair, curve=curve, at=at, H_cur=cur, D_MCI=0.25 - cur, A_TN=acquired, run=f"{curve}{at}")
        for at, (acquired, cur) in points.items()
    ]


def line(*points: tuple[float, float]) -> list[Point]:
    return [Point(acquired, cur, 0.25 - cur) for acquired, cur in points]


def alone(pair: int) -> Row:
    return row("none", pair, A_TN=0.10, H_cur=0.20, D_MCI=0.05)


def test_a_curve_is_read_between_its_points_and_at_the_better_of_two_places() -> None:
    curve = [line((0.10, 0.20), (0.12, 0.22), (0.08, 0.30))]

    def at(acquisition: float) -> float | None:
        found = best(curve, acquisition)
        return None if found is None else found.H_cur

    assert at(0.12) == 0.22
    assert at(0.10) == pytest.approx(0.26)  # not the host's .20: later it comes by again, higher
    assert at(0.09) == pytest.approx(0.28)
    assert at(0.08) == 0.30
    assert at(0.13) is None
    assert at(0.07) is None
    found = best(curve, 0.11)
    assert found is not None
    assert pytest.approx(0.25 - found.H_cur) == found.D_MCI
    assert best([line((0.1, 0.2))], 0.1) == Point(0.1, 0.2, pytest.approx(0.05))


def test_curves_of_one_trade_differ_at_equal_coefficients_and_not_at_equal_acquisition() -> None:
    rows = []
    for pair in range(3):
        rows.append(alone(pair))
        rows += grid("MEOR", pair, {1.0: (0.09, 0.21), 3.0: (0.08, 0.22)})
        rows += grid("MMR", pair, {1.0: (0.08, 0.22), 3.0: (0.06, 0.24)}, "mmr")
    (found,) = verdicts(rows, GROUP, BOTH)
    assert (found.ours, found.theirs, found.pairs) == ("MEOR", "MMR", (0, 1, 2))
    assert (found.low, found.high) == pytest.approx((0.08, 0.10))
    assert all(abs(value) < 1e-12 for value in found.H_cur.values)
    assert found.word == "no difference"


@pytest.mark.parametrize(("gain", "word"), [(0.02, "ahead"), (-0.02, "behind")])
def test_the_better_curve_is_ahead_where_both_have_the_same_acquisition(gain: float, word: str) -> None:
    rows = []
    for pair in range(4):
        noise = 0.001 * pair
        rows += grid("MEOR", pair, {1.0: (0.09, 0.22 + gain + noise), 3.0: (0.07, 0.24 + gain)})
        rows += grid("MMR", pair, {1.0: (0.08, 0.23 + noise), 3.0: (0.06, 0.25)}, "mmr")
    apart = {
        name: Curve(method=curve.method, along="penalty.beta", values=(1, 3)) for name, curve in BOTH.items()
    }
    (found,) = verdicts(rows, GROUP, apart)
    assert found.H_cur.mean == pytest.approx(gain, abs=0.002)
    assert found.D_MCI.mean == pytest.approx(-gain, abs=0.002)  # what old answers keep is not lost
    assert (found.low, found.high) == pytest.approx((0.07, 0.08))
    assert found.word == word


def test_curves_that_never_have_the_same_acquisition_are_not_compared() -> None:
    rows = []
    for pair in range(3):
        rows += grid("a", pair, {1.0: (0.05, 0.3)}, "none")
        rows += grid("b", pair, {1.0: (0.06, 0.2), 2.0: (0.07, 0.2)}, "none")
    curves = {
        "a": Curve(method="none", along="refine.steps", values=(1,)),
        "b": Curve(method="none", along="refine.steps", values=(1, 2)),
    }
    assert verdicts(rows, GROUP, curves) == []


def test_of_a_family_the_best_curve_counts_and_a_single_point_is_compared_at_its_own_acquisition() -> None:
    rows = []
    for pair in range(3):
        rows += grid("slow", pair, {1.0: (0.05, 0.20), 2.0: (0.09, 0.10)}, "none")
        rows += grid("fast", pair, {1.0: (0.05, 0.30), 2.0: (0.09, 0.20)}, "none")
        rows += grid("cap", pair, {1.0: (0.07, 0.26)}, "cap")
    along = {"along": "refine.steps", "values": (1, 2), "family": "host"}
    curves = {
        "cap": Curve(method="cap", along="cap.factor", values=(1,)),
        "slow": Curve(method="none", **along),
        "fast": Curve(method="none", **along),
    }
    assert families(curves) == {"cap": ("cap",), "host": ("slow", "fast")}
    (found,) = verdicts(rows, GROUP, curves)
    assert (found.ours, found.theirs, found.low, found.high) == ("cap", "host", 0.07, 0.07)
    assert found.H_cur.mean == pytest.approx(0.26 - 0.25)  # between .30 and .20, not on the slow curve


def test_a_pair_that_lacks_a_point_has_no_curve() -> None:
    rows = [alone(pair) for pair in range(3)]
    for pair in range(3):
        rows += grid("MEOR", pair, {1.0: (0.09, 0.21)} | ({} if pair == 1 else {3.0: (0.08, 0.22)}))
    assert set(lines(rows, GROUP, "MEOR", MEOR)) == {0, 2}


def test_runs_that_start_otherwise_are_no_curve() -> None:
    rows = [alone(0), *grid("MEOR", 0, {1.0: (0.09, 0.21), 3.0: (0.08, 0.22)})]
    rows[1] = row("meor", 0, curve="MEOR", at=1.0, pair_hash="other")
    with pytest.raises(StudyError, match="what they start from differs"):
        lines(rows, GROUP, "MEOR", MEOR)


def test_points_are_means_over_pairs_and_begin_at_the_host_alone() -> None:
    rows = []
    for pair in range(3):
        rows.append(alone(pair))
        rows += grid("MEOR", pair, {3.0: (0.08, 0.22 + 0.01 * pair), 1.0: (0.09, 0.21)})
    points = list(frontier_points(rows, GROUP, "MEOR", MEOR))
    assert [point.at for point in points] == [0.0, 1.0, 3.0]
    assert points[2].H_cur.mean == pytest.approx(0.23)
    assert points[0].coefficient == 0.0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"method": "none", "values": (1,)}, "none has no penalty"),
        ({"method": "meor", "values": (1, 1)}, "twice"),
        ({"method": "cap+meor", "values": (1,), "settings": {"cap.factor": 1.2}}, "give coefficients"),
    ],
)
def test_a_curve_that_makes_no_sense_is_said(given: dict[str, object], problem: str) -> None:
    assert problem in str(Curve.model_validate(given).problem())
    assert MEOR.problem() is None


def test_references_differ_only_along_the_number_of_draws() -> None:
    rows = [
        replace(each, reference_hash=f"hash {each.at}")
        for each in grid("MEOR", 0, {1.0: (0.09, 0.21), 3.0: (0.08, 0.22)})
    ]
    given = {"method": "meor", "settings": {"coefficient": 0.5}, "values": (1, 3)}
    assert lines(rows, GROUP, "MEOR", Curve(along="penalty.draws", **given))
    with pytest.raises(StudyError, match="should share their references"):
        lines(rows, GROUP, "MEOR", Curve(along="penalty.beta", **given))
