"""The equations of the paper, one function each. Q queries, J draws, C candidates (an ordered multiset).

Training with frozen old rows executes the same equations in `kernels.py`, which looks only at candidates
above the answer; `dense.py` puts these functions together for any model, and tests compare the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from meor.methods.registry import Aggregate
from meor.typing import Floats, Ids

SHIFT_ABOVE = 30.0
"""Exponents above this are shifted; below it, expm1 and log1p keep the smallest gaps exact."""


def gaps(score_QC: Tensor, answer_Q: Tensor, tau_Q: Tensor) -> Tensor:
    """z_x(e) (Eq. z): how far a candidate scores above the answer, in units of the scale.

    In training: `kernels.newcomer_pressures` for newcomers, `kernels._fill_gaps` for references.
    """
    return (score_QC - answer_Q[:, None]) / tau_Q[:, None]


def smooth_pressure(gap_C: Tensor, beta: float, member_C: Tensor | None = None) -> Tensor:
    """U_beta (Eq. aggregate): smooth mean of the above-answer tail; exactly 0 if nobody outranks.

    The last axis holds the candidates; where `member_C` is False there is none. The mean of exponentials
    is taken as 1 + mean(expm1): a lone small gap among thousands would drown in log(sum) - log(n).
    In training: `kernels._smooth_and_slope` for newcomers, `kernels._press` for references.
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
    """V (Sec. Controls, MMR): the largest positive gap; ties share its gradient evenly.

    In training: `kernels._maximum_and_slope` for newcomers, `kernels._press` for references.
    """
    return _above(gap_C, member_C).amax(-1)


def _above(gap_C: Tensor, member_C: Tensor | None) -> Tensor:
    """The positive part in Eq. aggregate; candidates that are no members count as 0."""
    if member_C is not None:
        gap_C = torch.where(member_C, gap_C, torch.zeros_like(gap_C))
    return torch.relu(gap_C)  # not clamp_min: at an exact tie clamp_min has gradient 1, relu 0


def pressure(gap_C: Tensor, aggregate: Aggregate, beta: float, member_C: Tensor | None = None) -> Tensor:
    """U_beta (Eq. aggregate) or V (Sec. Controls), as the variant says."""
    return smooth_pressure(gap_C, beta, member_C) if aggregate == "smooth" else maximum(gap_C, member_C)


def mean_reference(pressure_QJ: Tensor, size_QJ: Tensor | None = None) -> Tensor:
    """The mean old reference (Eq. old-reference): over the draws, before any hinge.

    Draws of which nothing is left (`size_QJ` 0, shuffled references only) do not count.
    In training: `frozen._mean_pressures`, once per update.
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
    """L_MEOR (Eq. meor; mmr and uor alike): mean over B_M of the squared excess; 0 if B_M is empty.

    In training: `sparse.sparse_penalty`.
    """
    if not len(new_Q):
        return new_Q.new_zeros(())
    return excess(new_Q, reference_Q).square().mean()


ETA_MAD: Final = 0.1
EPSILON_TAU: Final = 1e-8
ADEQUATE_OCCURRENCES: Final = 2
ADEQUATE_SCORES: Final = 256

POOLS: Final = ("relation", "side", "update", "none")
"""Where a MAD came from: the same relation and side, the same side, the whole update, nowhere."""

TERMS: Final = ("iqr", "mad", "epsilon")


@dataclass(frozen=True, slots=True)
class Scale:
    """tau_x of every occurrence, with what it was made from."""

    iqr: Floats
    mad: Floats
    mad_pool: NDArray[np.int8]  # index into POOLS
    tau: Floats
    term: NDArray[np.int8]  # index into TERMS: which term of the maximum won (the first, if several)

    def wins(self) -> dict[str, int]:
        """How often each term of the maximum won (decision 27)."""
        count = np.bincount(self.term, minlength=len(TERMS))
        return {name: int(count[index]) for index, name in enumerate(TERMS)}


def scales(
    score_XK: Floats,
    size: Ids,
    relation: Ids,
    side: NDArray[np.int8],
    *,
    eta: float = ETA_MAD,
    epsilon: float = EPSILON_TAU,
) -> Scale:
    """tau_x (Eq. scale): the largest of IQR, eta times the fallback MAD, and epsilon."""
    iqr = interquartile_range(score_XK, size)
    mad, pool = fallback_mad(score_XK, size, relation, side)
    terms = np.stack([iqr, eta * mad, np.full_like(iqr, epsilon)])
    return Scale(iqr, mad, pool, terms.max(0), terms.argmax(0).astype(np.int8))


def interquartile_range(score_XK: Floats, size: Ids) -> Floats:
    """IQR_x (Eq. scale): by linear interpolation, over the first `size` scores of each row; 0 if none."""
    inside = np.arange(score_XK.shape[1]) < size[:, None]
    ordered = np.sort(np.where(inside, score_XK, np.inf), axis=1)
    last = np.maximum(size - 1, 0)
    high, low = (_quantile(ordered, last, share) for share in (0.75, 0.25))
    return np.where(size > 0, high - low, 0.0)


def _quantile(ordered: Floats, last: Ids, share: float) -> Floats:
    if not ordered.shape[1]:
        return np.zeros(len(ordered))
    position = share * last
    below = np.floor(position).astype(np.int64)
    row = np.arange(len(ordered))
    left, right = ordered[row, below], ordered[row, np.minimum(below + 1, last)]
    # An empty row holds only padding; its difference would be inf - inf.
    left, right = (np.where(np.isfinite(edge), edge, 0.0) for edge in (left, right))
    return np.asarray(left + (right - left) * (position - below), dtype=np.float64)


def median_absolute_deviation(score: Floats) -> float:
    """MAD (Eq. scale): unscaled, from the median."""
    return _median(np.abs(score - _median(score)))


def _median(value: Floats) -> float:
    """The bits of `np.median` in a fifth of its time: values are ordered around one place, not three."""
    half = len(value) // 2
    if not len(value) or np.isnan(value.max()):
        return math.nan
    ordered = np.partition(value, half)
    return float(ordered[half] if len(value) % 2 else (ordered[:half].max() + ordered[half]) / 2)


def fallback_mad(
    score_XK: Floats, size: Ids, relation: Ids, side: NDArray[np.int8]
) -> tuple[Floats, NDArray[np.int8]]:
    """MAD^fb_x (Eq. scale): from the first adequate pool of the update; 0 if there is none (decision 26)."""
    mad = np.zeros(len(size))
    pool = np.full(len(size), POOLS.index("none"), dtype=np.int8)
    inside = np.arange(score_XK.shape[1]) < size[:, None]
    keys = (relation * 2 + side, side.astype(np.int64), np.zeros(len(size), dtype=np.int64))
    open_ = size > 0
    for level, key in enumerate(keys):
        for group in np.unique(key[open_]):
            chosen = np.flatnonzero((key == group) & (size > 0))
            if len(chosen) < ADEQUATE_OCCURRENCES or size[chosen].sum() < ADEQUATE_SCORES:
                continue
            served = chosen[open_[chosen]]
            mad[served] = median_absolute_deviation(score_XK[chosen][inside[chosen]])
            pool[served] = level
            open_[served] = False
    return mad, pool
