"""TransE: s = gamma - |h + r - t|_1."""

from __future__ import annotations

from torch import Tensor

from meor.backbone.base import Backbone, Geometry
from meor.typing import Side


class TransE(Backbone):
    name = "transe"
    geometry = Geometry.L1
    fused_form = 2

    def width(self, dim: int) -> int:
        return dim

    def query(self, anchor_QW: Tensor, relation_QW: Tensor, side: Side) -> Tensor:
        return anchor_QW + relation_QW if side is Side.TAIL else anchor_QW - relation_QW
