"""TransE on unit rows with inverse relations: s = gamma - |n(h) + n(r) - n(t)|_1, n(x) = x / |x|_2.

This is how continual learners use it. Stored rows keep their length, which decides how far a step turns them.
A relation row holds two vectors, r and its inverse r'. A query for the tail is n(h) + n(r). A query for the
head asks for the tail of the inverse fact, n(t) + n(r'). So whatever ranks, penalises or audits needs no
second relation id.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from meor.backbone.base import Backbone, Geometry
from meor.typing import Side

SMALLEST = 1e-12
"""`normalize` divides by at least this."""


class TransEInverse(Backbone):
    name = "transe-inverse"
    geometry = Geometry.L1

    def width(self, dim: int) -> int:
        return dim

    def relation_columns(self, columns: int) -> int:
        return 2 * columns

    def candidate(self, row_EW: Tensor) -> Tensor:
        return normalize(row_EW, dim=-1)

    def candidate_gradient(self, row_EW: Tensor, gradient_EW: Tensor) -> Tensor:
        """(g - (g.u) u) / |x| for u = x / |x|; below SMALLEST the length is a constant."""
        length_E = row_EW.norm(dim=-1)
        divisor_E = length_E.clamp_min(SMALLEST)
        unit_EW = row_EW / divisor_E[:, None]
        along_E = torch.einsum("ew,ew->e", gradient_EW, unit_EW).where(length_E > SMALLEST, 0.0)
        return gradient_EW.addcmul_(unit_EW, along_E[:, None], value=-1).div_(divisor_E[:, None])

    def query(self, anchor_QW: Tensor, relation_QW: Tensor, side: Side) -> Tensor:
        forward, inverse = relation_QW.chunk(2, dim=-1)
        return normalize(anchor_QW, dim=-1) + normalize(forward if side is Side.TAIL else inverse, dim=-1)
