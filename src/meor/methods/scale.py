"""tau_x, the unit in which gaps are measured: detached, from scale samples only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from meor.typing import Floats, Ids

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
    return float(np.median(np.abs(score - np.median(score))))


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
