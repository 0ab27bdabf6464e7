"""The norm cap: how long a newcomer's row may become, from degrees and base rows alone.

Norms of trained rows follow degree: nu(d) = a + b log2(1 + d). Newcomers are trained on a few facts, for
long, and outgrow it; where a score is an inner product, a row that is too long outranks everybody. So after
each step a newcomer's row is scaled back to at most c nu(d). Nothing here sees a score.

Unless it is given, c follows the size of an update: the more newcomers come at once, the more old answers
they displace, and the tighter the cap is.

The cap loosens from update to update: c growth^(u - 1). Newcomers of update u compete with earlier newcomers,
which are longer than base rows; under a fixed cap each cohort is learned worse than the one before it
(ENTITY, validation facts, c 1.3: A_TN .19 at update 1 and .145 at update 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from meor.methods.registry import CAP_FACTOR, BySize, at_size
from meor.stream.snapshot import Stream
from meor.training.adam import Longest
from meor.typing import HEAD_COLUMN, TAIL_COLUMN, Facts, Floats, Ids

LOOSENED = 3
"""How often a cap loosens: the streams on which its growth was chosen have four updates."""


@dataclass(frozen=True, slots=True)
class NormLaw:
    """nu(d) = a + b log2(1 + d)."""

    a: float
    b: float

    @classmethod
    def fit(cls, rows: Tensor, degree: Ids) -> NormLaw:
        """Least squares over base rows; with one degree only, their mean norm."""
        norm = np.linalg.norm(rows.detach().double().cpu().numpy(), axis=1)
        x = np.log2(1.0 + degree)
        if np.ptp(x) == 0.0:
            return cls(float(norm.mean()), 0.0)
        b = float(((x - x.mean()) * (norm - norm.mean())).sum() / ((x - x.mean()) ** 2).sum())
        return cls(float(norm.mean() - b * x.mean()), b)

    def __call__(self, degree: Ids) -> Floats:
        return np.asarray(self.a + self.b * np.log2(1.0 + degree), dtype=np.float64)


def degrees(fact: Facts, n_entities: int) -> Ids:
    """Facts that name each entity; one that names it twice counts once."""
    head, tail = fact[:, HEAD_COLUMN], fact[:, TAIL_COLUMN]
    both = np.concatenate([head, tail[tail != head]])
    return np.bincount(both, minlength=n_entities).astype(np.int64)


def loosened(growth: float, update: int) -> float:
    return float(growth ** min(update - 1, LOOSENED))


def longest_newcomers(
    base: Tensor,
    stream: Stream,
    update: int,
    factor: BySize = CAP_FACTOR,
    *,
    growth: float = 1.0,
    exactly: bool = False,
) -> Longest:
    """c growth^(u - 1) nu(d) of each newcomer of update u; `base` are the rows of snapshot 0.

    A large update brings as many entities as snapshot 0 has.
    """
    law = NormLaw.fit(base, degrees(stream.snapshots[0].train, len(base)))
    facts, newcomers = stream.snapshots[update].train, stream.newcomers(update)
    c = at_size(factor, stream.growth(update)) * loosened(growth, update)
    return Longest(c * law(degrees(facts, newcomers.stop)[newcomers.start :]), exactly)
