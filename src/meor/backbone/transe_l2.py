"""TransE with the Euclidean distance: s = gamma - |h + r - t|_2."""

from __future__ import annotations

import torch
from torch import Tensor

from meor.backbone.base import GAMMA, Backbone
from meor.typing import Side


class TransEL2(Backbone):
    name = "transe-l2"

    def width(self, dim: int) -> int:
        return dim

    def query(self, anchor_QW: Tensor, relation_QW: Tensor, side: Side) -> Tensor:
        return anchor_QW + relation_QW if side is Side.TAIL else anchor_QW - relation_QW

    def compare(self, query_QW: Tensor, candidate_QW: Tensor) -> Tensor:
        distance: Tensor = torch.linalg.vector_norm(query_QW - candidate_QW, dim=-1)
        return GAMMA - distance

    def compare_all(self, query_QW: Tensor, candidate_EW: Tensor) -> Tensor:
        return GAMMA - euclidean(query_QW, candidate_EW)


def euclidean(query_QW: Tensor, candidate_EW: Tensor) -> Tensor:
    """[Q, E] distances. Not by a matrix product: it loses the digits by which near rows differ."""
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(query_QW, candidate_EW.to(query_QW.dtype), p=2.0, compute_mode=mode)
