"""RotatE: s = gamma - |h r - t|_2 over complex rows, where every coordinate of r has modulus 1.

A row holds the real half, then the imaginary half. Relation rows are free: `query` divides each of their
coordinates by its modulus, so that training needs no projection. The norm is that of the whole row, as in
PyKEEN; the paper adds up the moduli of coordinates instead.
"""

from __future__ import annotations

import torch
from torch import Tensor

from meor.backbone.base import GAMMA, Backbone
from meor.backbone.transe_l2 import euclidean
from meor.typing import Side


class RotatE(Backbone):
    name = "rotate"

    def width(self, dim: int) -> int:
        return 2 * dim

    def query(self, anchor_QW: Tensor, relation_QW: Tensor, side: Side) -> Tensor:
        re, im = relation_QW.chunk(2, dim=-1)
        modulus = torch.hypot(re, im).clamp_min(torch.finfo(re.dtype).tiny)
        re, im = re / modulus, im / modulus
        if side is Side.HEAD:  # |h r - t| = |h - t conj(r)|
            im = -im
        anchor_re, anchor_im = anchor_QW.chunk(2, dim=-1)
        return torch.cat([anchor_re * re - anchor_im * im, anchor_re * im + anchor_im * re], dim=-1)

    def compare(self, query_QW: Tensor, candidate_QW: Tensor) -> Tensor:
        distance: Tensor = torch.linalg.vector_norm(query_QW - candidate_QW, dim=-1)
        return GAMMA - distance

    def compare_all(self, query_QW: Tensor, candidate_EW: Tensor) -> Tensor:
        return GAMMA - euclidean(query_QW, candidate_EW)
