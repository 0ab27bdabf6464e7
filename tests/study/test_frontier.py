from __future__ import annotations

import pytest
from tests.study.study_rows import row

from meor.study.frontier import at_equal_acquisition, best_at, curves, frontier_points, offsets
from meor.study.rows import Group, Row

GROUP = Group("ENTITY", "complex", "replay", "practical")


def grid(method: str, pair: int, points: dict[float, tuple[float, float]]) -> list[Row]:
    """A_TN and H_cur by multiple."""
    return [
        row(
            method,
            pair,
            multiple=multiple,
            H_cur=cur,
            D_MCI=0.25 - cur,
            A_TN=acquired,
            run=f"{method}{multiple}",
        )
        for multiple, (acquired, cur) in points.items()
    ]


def test_a_curve_is_read_between_its_points_and_at_the_better_of_two_places() -> None:
    curve = [(0.10, 0.20), (0.12, 0.22), (0.08, 0.30)]
    assert best_at(curve, 0.12) == 0.22
    assert best_at(curve, 0.10) == pytest.approx(0.26)  # not the host's .20: later it comes by again, higher
    assert best_at(curve, 0.09) == pytest.approx(0.28)
    assert best_at(curve, 0.08) == 0.30
    assert best_at(curve, 0.13) is None
    assert best_at(curve, 0.07) is None
    assert best_at([(0.1, 0.2)], 0.1) == 0.2


def test_methods_along_one_frontier_differ_at_equal_coefficients_and_not_at_equal_acquisition() -> None:
    rows = []
    for pair in range(3):
        rows.append(row("none", pair, A_TN=0.10, H_cur=0.20, D_MCI=0.05))
        rows += grid("meor", pair, {1.0: (0.09, 0.21), 3.0: (0.08, 0.22)})
        rows += grid("mmr", pair, {1.0: (0.08, 0.22), 3.0: (0.06, 0.24)})
    found = at_equal_acquisition(rows, GROUP, "meor", "mmr")
    assert [each.offset for each in found] == [-0.005, -0.01, -0.015, -0.02]
    assert all(abs(value) < 1e-12 for each in found for value in each.effect.values)


def test_a_better_frontier_shows_at_equal_acquisition() -> None:
    rows = []
    for pair in range(4):
        rows.append(row("none", pair, A_TN=0.10, H_cur=0.20, D_MCI=0.05))
        rows += grid("meor", pair, {1.0: (0.09, 0.23), 3.0: (0.08, 0.26)})
        rows += grid("mmr", pair, {1.0: (0.08, 0.22), 3.0: (0.06, 0.24)})
    found = {each.offset: each for each in at_equal_acquisition(rows, GROUP, "meor", "mmr")}
    assert found[-0.01].effect.mean == pytest.approx(0.02)
    assert found[-0.01].effect.wtl == "4/0/0"
    assert found[-0.01].pairs == (0, 1, 2, 3)


def test_methods_are_compared_as_far_as_two_of_them_reach() -> None:
    rows = []
    for pair in range(3):
        rows.append(row("none", pair, A_TN=0.10, H_cur=0.20, D_MCI=0.05))
        rows += grid("meor", pair, {1.0: (0.107, 0.21), 100.0: (0.1221, 0.26)})
        rows += grid("mmr", pair, {1.0: (0.108, 0.21), 100.0: (0.1205, 0.24)})
        rows += grid("uor", pair, {1.0: (0.105, 0.20), 100.0: (0.19, 0.20)})  # alone beyond .0221
    assert offsets(rows, GROUP) == [0.02, 0.015, 0.01, 0.005, 0.0]
    found = {each.offset: each.effect for each in at_equal_acquisition(rows, GROUP, "meor", "mmr")}
    assert list(found) == [0.02, 0.015, 0.01, 0.005]  # at 0 both are the host alone, and nothing is compared
    assert found[0.02].wtl == "3/0/0"


def test_a_small_range_has_small_steps_and_a_single_method_none() -> None:
    rows = []
    for pair in range(2):
        rows.append(row("none", pair, A_TN=0.10, H_cur=0.20, D_MCI=0.05))
        rows += grid("meor", pair, {1.0: (0.1032, 0.21)})
    assert offsets(rows, GROUP) == []
    more = rows + [each for pair in range(2) for each in grid("mmr", pair, {1.0: (0.1032, 0.22)})]
    assert offsets(more, GROUP) == [0.003, 0.002, 0.001, 0.0]


def test_at_the_hosts_own_acquisition_a_curve_that_comes_back_is_compared() -> None:
    rows = []
    for pair in range(2):
        rows.append(row("none", pair, A_TN=0.10, H_cur=0.20, D_MCI=0.05))
        rows += grid("meor", pair, {1.0: (0.11, 0.22), 3.0: (0.09, 0.26)})
        rows += grid("mmr", pair, {1.0: (0.11, 0.21), 3.0: (0.105, 0.22)})
    found = {each.offset: each.effect for each in at_equal_acquisition(rows, GROUP, "meor", "mmr")}
    assert found[0.0].mean == pytest.approx(0.04)  # MEOR on its way back at .24, MMR nowhere but there


def test_a_pair_that_lacks_a_point_has_no_curve() -> None:
    rows = [row("none", pair, A_TN=0.10) for pair in range(3)]
    for pair in range(3):
        rows += grid("meor", pair, {1.0: (0.09, 0.21)} | ({} if pair == 1 else {3.0: (0.08, 0.22)}))
    assert set(curves(rows, GROUP, "meor")) == {0, 2}


def test_points_are_means_over_pairs_and_begin_at_the_host_alone() -> None:
    rows = []
    for pair in range(3):
        rows.append(row("none", pair, A_TN=0.10))
        rows += grid("meor", pair, {3.0: (0.08, 0.22 + 0.01 * pair), 1.0: (0.09, 0.21)})
    points = frontier_points(rows, GROUP, "meor")
    assert [point.multiple for point in points] == [0.0, 1.0, 3.0]
    assert points[2].H_cur.mean == pytest.approx(0.23)
    assert points[0].coefficient == 0.0
