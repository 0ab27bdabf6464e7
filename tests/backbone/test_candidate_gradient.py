"""The gradient by stored rows that a backbone declares is the one autograd finds."""

import pytest
import torch

from meor.backbone import BACKBONES
from meor.backbone.base import Backbone
from meor.backbone.transe_inverse import TransEInverse


@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_the_declared_gradient_is_that_of_autograd(name):
    backbone = BACKBONES[name]
    made = torch.Generator().manual_seed(1)
    row = torch.randn(6, backbone.width(8), generator=made, dtype=torch.float64)
    row[2] = 0.0  # below the smallest length there is no direction
    row[3] *= 1e-13
    gradient = torch.randn(backbone.candidate(row).shape, generator=made, dtype=torch.float64)
    own = row.clone().requires_grad_()
    (expected,) = torch.autograd.grad(backbone.candidate(own), own, gradient)
    found = backbone.candidate_gradient(row, gradient.clone())
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_child_with_another_candidate_does_not_inherit_it():
    class Halved(TransEInverse):
        def candidate(self, row_EW):
            return row_EW / 2

    assert Halved.candidate_gradient is Backbone.candidate_gradient
    assert torch.equal(
        Halved().candidate_gradient(torch.ones(2, 4), torch.ones(2, 4)), torch.full((2, 4), 0.5)
    )
