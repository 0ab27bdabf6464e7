"""Gaps and what is made of them. Q queries, J draws, C candidates (an ordered multiset)."""

from __future__ import annotations

import torch
from torch import Tensor

from meor.methods.variants import Aggregate

SHIFT_ABOVE = 30.0
"""Exponents above this are shifted; below it, expm1 and log1p keep the smallest gaps exact."""


def gaps(score_QC: Tensor, answer_Q: Tensor, tau_Q: Tensor) -> Tensor:
    """z_x(e) (Eq. z): how far a candidate scores above the answer, in units of the scale."""
    return (score_QC - answer_Q[:, None]) / tau_Q[:, None]


def smooth_pressure(gap_C: Tensor, beta: float, member_C: Tensor | None = None) -> Tensor:
    """U_beta (Eq. aggregate): smooth mean of the above-answer tail; exactly 0 if nobody outranks.

    The last axis holds the candidates; where `member_C` is False there is none. The mean of exponentials
    is taken as 1 + mean(expm1): a lone small gap among thousands would drown in log(sum) - log(n).
    """
    tail_C = beta * _above(gap_C, member_C)
    shift = torch.relu(tail_C.detach().amax(-1, keepdim=True) - SHIFT_ABOVE)
    grown_C = torch.expm1(tail_C - shift)
    if member_C is None:
        mean = grown_C.mean(-1)
    else:
        grown_C = torch.where(member_C, grown_C, torch.zeros_like(grown_C))
        mean = grown_C.sum(-1) / member_C.sum(-1).clamp(min=1)
    return (shift.squeeze(-1) + torch.log1p(mean)) / beta


def maximum(gap_C: Tensor, member_C: Tensor | None = None) -> Tensor:
    """V (Sec. Controls, MMR): the largest positive gap; ties share its gradient evenly."""
    return _above(gap_C, member_C).amax(-1)


def _above(gap_C: Tensor, member_C: Tensor | None) -> Tensor:
    """The positive part in Eq. aggregate; what is no member counts as 0 before anything looks at it."""
    if member_C is not None:
        gap_C = torch.where(member_C, gap_C, torch.zeros_like(gap_C))
    return torch.relu(gap_C)  # not clamp_min: at an exact tie clamp_min has gradient 1, relu 0


def pressure(gap_C: Tensor, aggregate: Aggregate, beta: float, member_C: Tensor | None = None) -> Tensor:
    """U_beta (Eq. aggregate) or V (Sec. Controls), as the variant says."""
    return smooth_pressure(gap_C, beta, member_C) if aggregate == "smooth" else maximum(gap_C, member_C)


def mean_reference(pressure_QJ: Tensor, size_QJ: Tensor | None = None) -> Tensor:
    """The mean old reference (Eq. old-reference): over the draws, before any hinge.

    Draws of which nothing is left (`size_QJ` 0, shuffled references only) do not count.
    """
    if size_QJ is None:
        return pressure_QJ.mean(-1)
    there_QJ = size_QJ > 0
    total_Q = torch.where(there_QJ, pressure_QJ, torch.zeros_like(pressure_QJ)).sum(-1)
    return total_Q / there_QJ.sum(-1).clamp(min=1)


def excess(new_Q: Tensor, reference_Q: Tensor) -> Tensor:
    """The positive part in Eq. meor: newcomer pressure beyond the mean reference."""
    return torch.relu(new_Q - reference_Q)


def squared_hinge(new_Q: Tensor, reference_Q: Tensor) -> Tensor:
    """L_MEOR (Eq. meor; mmr and uor alike): mean over B_M of the squared excess; 0 if B_M is empty."""
    if not len(new_Q):
        return new_Q.new_zeros(())
    return excess(new_Q, reference_Q).square().mean()
