"""ComplEx: s = Re <h, r, conj(t)>. A row holds the real half, then the imaginary half."""

from __future__ import annotations

import torch
from torch import Tensor

from meor.backbone.base import Backbone, Geometry
from meor.typing import Side


class ComplEx(Backbone):
    name = "complex"
    geometry = Geometry.DOT
    fused_form = 0

    def width(self, dim: int) -> int:
        return 2 * dim

    def query(self, anchor_QW: Tensor, relation_QW: Tensor, side: Side) -> Tensor:
        anchor_re, anchor_im = anchor_QW.chunk(2, dim=-1)
        relation_re, relation_im = relation_QW.chunk(2, dim=-1)
        if side is Side.TAIL:  # h * r
            re = anchor_re * relation_re - anchor_im * relation_im
            im = anchor_re * relation_im + anchor_im * relation_re
        else:  # t * conj(r)
            re = anchor_re * relation_re + anchor_im * relation_im
            im = anchor_im * relation_re - anchor_re * relation_im
        return torch.cat([re, im], dim=-1)
