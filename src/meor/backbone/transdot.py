"""TransDot: s = <h + r, t>, a translation met by an inner product, as in PyTorch-BigGraph's Wikidata rows.

Among heads, <r, t> is the same for every candidate. The query row carries it in one more column, so that a
fact has one score in both directions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from meor.backbone.base import Backbone
from meor.typing import Floats, Side


class TransDot(Backbone):
    name = "transdot"

    def width(self, dim: int) -> int:
        return dim

    def query(self, anchor_QW: Tensor, relation_QW: Tensor, side: Side) -> Tensor:
        if side is Side.TAIL:
            row, constant = anchor_QW + relation_QW, torch.zeros_like(anchor_QW[..., :1])
        else:
            row, constant = anchor_QW, (anchor_QW * relation_QW).sum(-1, keepdim=True)
        return torch.cat([row, constant], dim=-1)

    def compare(self, query_QW: Tensor, candidate_QW: Tensor) -> Tensor:
        return (query_QW[..., :-1] * candidate_QW).sum(-1) + query_QW[..., -1]

    def compare_all(self, query_QW: Tensor, candidate_EW: Tensor) -> Tensor:
        return query_QW[:, :-1] @ candidate_EW.to(query_QW.dtype).T + query_QW[:, -1:]

    def position(self, query: Floats) -> Floats:
        return query[:, :-1]
