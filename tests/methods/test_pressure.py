import numpy as np
import pytest
import torch

from meor.methods.equations import (
    excess,
    gaps,
    maximum,
    mean_reference,
    pressure,
    smooth_pressure,
    squared_hinge,
)
from meor.methods.kernels import _press, newcomer_pressures


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_a_gap_is_counted_in_units_of_the_scale():
    found = gaps(torch.tensor([[3.0, 1.0], [0.0, 8.0]]), torch.tensor([1.0, 2.0]), torch.tensor([2.0, 3.0]))
    assert found.tolist() == [[1.0, 0.0], [pytest.approx(-2 / 3), 2.0]]


def test_an_exact_tie_has_no_gradient():
    gap = tensor(0.0, 0.0)
    smooth_pressure(gap, 5.0).backward()
    assert gap.grad is not None
    assert gap.grad.tolist() == [0, 0]


def test_only_outrankers_have_a_gradient_and_larger_gaps_a_larger_one():
    gap = tensor(-1.0, 0.5, 1.0)
    smooth_pressure(gap, 5.0).backward()
    assert gap.grad is not None
    low, middle, high = gap.grad.tolist()
    assert low == 0 < middle < high


def test_the_maximum_shares_its_gradient_among_ties():
    gap = tensor(2.0, 2.0, 1.0)
    maximum(gap).backward()
    assert gap.grad is not None
    assert gap.grad.tolist() == [0.5, 0.5, 0.0]


def test_the_variant_chooses_the_aggregate():
    gap = tensor(2.0, -1.0)
    assert float(pressure(gap, "max", 5.0)) == 2.0
    assert float(pressure(gap, "smooth", 5.0)) < 2.0


def test_the_mean_is_taken_before_the_hinge():
    """The paper's example: equal to the mean reference costs nothing, though one draw is exceeded."""
    new, draws = tensor(0.5), torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    assert float(squared_hinge(new, mean_reference(draws))) == 0.0
    assert float(excess(new, draws[0]).square().mean()) == 0.125


def test_draws_with_nothing_left_do_not_count():
    draws = torch.tensor([[0.5, 0.25], [1.0, 7.0], [3.0, 3.0], [2.0, 4.0]])
    size = torch.tensor([[3, 3], [2, 0], [0, 0], [1, 1]])
    assert mean_reference(draws, size).tolist() == [0.375, 1.0, 0.0, 3.0]


def test_value_and_gradient_are_zero_at_the_boundary():
    new = tensor(0.7)
    squared_hinge(new, torch.tensor([0.7], dtype=torch.float64)).backward()
    assert new.grad is not None
    assert new.grad.item() == 0


def test_an_empty_batch_costs_nothing():
    nothing = torch.zeros(0, dtype=torch.float64)
    found = squared_hinge(nothing, nothing)
    assert float(found) == 0
    assert not found.requires_grad


@pytest.mark.parametrize("largest", [0.5, 30.0, 400.0])
def test_a_drawn_multiset_has_the_pressure_of_its_candidates_however_large_the_gaps(largest):
    """Entity 3 is no candidate (a gap below 0) and -1 is nobody; whoever does not outrank has a gap of 0."""
    gap = np.array([0.0, largest, 0.0, -1.0, largest / 3, 0.0])
    # Many who do not outrank: the shift of large exponents must leave each of them its 1.
    for drawn in ([0, 1, 2, 3, 4, -1, 5], [1], [1, 1, 0], [0, 2], [3, -1], [1, 1, *[0] * 20_000]):
        kept = [gap[entity] for entity in drawn if entity >= 0 and gap[entity] >= 0]
        out = np.empty(3)
        _press(gap, np.array(drawn, np.int32), 5.0, out)
        assert out[2] == len(kept)
        if kept:
            assert out[1] == max(kept)
            wanted = smooth_pressure(torch.tensor(kept, dtype=torch.float64), 5.0)
            assert out[0] == pytest.approx(float(wanted), rel=1e-13, abs=0)


@pytest.mark.parametrize("gap", [1e-12, 1e-3, 2.0, 8.0])
def test_newcomers_press_as_the_equation_says_and_the_smallest_gap_is_not_drowned(gap):
    score, size, tau = np.array([gap, gap / 2]), 5_000, 1.0
    value, weight = np.empty(1), np.empty(2)
    one = np.ones(1)
    start, n = np.array([0, 2]), np.array([size])
    newcomer_pressures(0, 1, start, score, 0.0 * one, tau * one, n, 5.0, True, value, weight)
    everyone = torch.zeros(size, dtype=torch.float64)
    everyone[:2] = torch.from_numpy(score)
    everyone.requires_grad_()
    wanted = smooth_pressure(everyone, 5.0)
    wanted.backward()
    assert value[0] == pytest.approx(float(wanted), rel=1e-12, abs=0)
    assert weight == pytest.approx(everyone.grad[:2].numpy(), rel=1e-12, abs=0)


def test_each_row_of_several_is_judged_by_its_own_members():
    gap = torch.tensor([[0.5, 2.0, -1.0], [3.0, 1.0, 0.2]], dtype=torch.float64)
    member = torch.tensor([[True, True, False], [False, True, True]])
    for kind in ("smooth", "max"):
        both = pressure(gap, kind, 5.0, member)
        alone = [pressure(row[own], kind, 5.0).item() for row, own in zip(gap, member, strict=True)]
        assert both.tolist() == pytest.approx(alone, rel=1e-14)


def test_the_hinge_charges_what_newcomers_press_beyond_the_reference_and_nothing_below():
    new, reference = (torch.tensor(each, dtype=torch.float64) for each in ([3.0, 1.0], [1.0, 4.0]))
    assert squared_hinge(new, reference).item() == 2.0
