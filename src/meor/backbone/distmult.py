"""DistMult: s = <h, r, t>, the same in both directions."""

from __future__ import annotations

from torch import Tensor

from meor.backbone.base import Backbone, Geometry
from meor.typing import Side


class DistMult(Backbone):
    name = "distmult"
    geometry = Geometry.DOT
    fused_form = 1

    def width(self, dim: int) -> int:
        return dim

    def query(self, anchor_QW: Tensor, relation_QW: Tensor, side: Side) -> Tensor:
        return anchor_QW * relation_QW
