"""tau_x (Eq. scale) where old rows move, for the occurrences of one step.

The pooled MAD takes the scores of every occurrence, of which one step needs a few. It nearly never wins
against an IQR, and it moves by at most twice what a score moves. So it is held, and made again only when it
might win: tau_x has the bits of `frozen.present_scale` all the same.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from meor.backbone.base import Geometry, Scoring
from meor.compiled import fast_kernel, share
from meor.methods.comparison import Comparison, require_finite
from meor.methods.equations import POOLS, Scale, interquartile_range
from meor.methods.frozen import scale_of
from meor.search.exact import exact_columns
from meor.typing import Floats, Ids

ROUNDING = 1 + 1e-9  # a bound is a sum of many rounded numbers


@dataclass(frozen=True, slots=True)
class _Held:
    """The scale of all occurrences at some moment, and the rows it was made from."""

    scale: Scale
    query: Floats  # [X, W]
    old: Floats  # [n_old, W]


@dataclass(slots=True)
class MovingScale:
    """tau_x at the present rows."""

    comparison: Comparison
    scoring: Scoring
    made: int = 0  # how often all occurrences were scored
    _held: _Held | None = field(init=False, default=None)

    def tau(self, query_XW: Floats, row_EW: Floats, index: Ids) -> Floats:
        """tau_x of some occurrences, from the query rows of all of them and the rows of the entities."""
        cohort, settings = self.comparison.cohort, self.comparison.settings
        old_EW = row_EW[: cohort.n_old]
        if self._held is not None and isinstance(self.scoring, Geometry):
            score_QK = exact_columns(self.scoring, query_XW[index], old_EW, cohort.scale[index])
            require_finite(cohort, score_QK, index)
            least = np.maximum(interquartile_range(score_QK, cohort.scale_size[index]), settings.epsilon)
            mad = self._held.scale.mad[index] + 2 * self._moved(self._held, query_XW, old_EW)
            has_pool = self._held.scale.mad_pool[index] != POOLS.index("none")
            if not (has_pool & ~(settings.eta * mad * ROUNDING < least)).any():
                return least
        scale = scale_of(self.comparison, self.scoring, query_XW, old_EW)
        self._held = _Held(scale, query_XW.copy(), old_EW.copy())  # float64 rows may be the trained ones
        self.made += 1
        return scale.tau[index]

    def _moved(self, held: _Held, query_XW: Floats, old_EW: Floats) -> float:
        """No score of a query with an old entity has moved by more than this."""
        is_dot = self.scoring is Geometry.DOT
        query = _farthest(is_dot, held.query, query_XW)
        row = _farthest(is_dot, held.old, old_EW)
        if not is_dot:
            return query + row
        # q'e' - q e = (q' - q) e' + q (e' - e)
        return query * _longest(old_EW) + _longest(held.query) * row


def _farthest(is_dot: bool, before_RW: Floats, after_RW: Floats) -> float:
    """The longest way a row went, in the norm that bounds scores."""
    way_R = np.empty(len(before_RW))
    share(_ways, len(before_RW), is_dot, before_RW, after_RW, way_R)
    return float(way_R.max(initial=0.0))


def _longest(row_RW: Floats) -> float:
    return float(np.sqrt(np.einsum("rw,rw->r", row_RW, row_RW).max(initial=0.0)))


@fast_kernel
def _ways(begin, end, is_dot, before_RW, after_RW, way_R):
    for row in range(begin, end):
        total = 0.0
        for i in range(before_RW.shape[1]):
            apart = after_RW[row, i] - before_RW[row, i]
            total += apart * apart if is_dot else abs(apart)
        way_R[row] = math.sqrt(total) if is_dot else total
