"""What if they wait? The smallest set of newcomers found whose holding back satisfies the gate.

Exact for the rows at hand: a rank is a sum over newcomers, so it is known without any of them. The facts of
a newcomer that waits count as reciprocal rank 0 in A_TN, and one that is left without a fact waits too.
Finding the smallest set is hard in general. Greedy choices by several scores are thinned out and improved by
exchanges, and the smallest result is taken; where none fits, few newcomers are tried exhaustively.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from meor.typing import Floats, Ids

FEW = 14
"""So many newcomers are tried exhaustively."""
EXCHANGED = 12
"""Sets of at most so many are improved by exchanges."""
OUTSIDE = 64
"""So many who do not wait are tried in their place."""
TOLERANCE = 1e-12
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Problem:
    """Q protected queries, T queries of the batch, N newcomers, F train facts of the batch."""

    old: Ids  # [Q]
    ahead: sparse.csr_array  # [Q, N] 1 where a newcomer stands ahead
    costs: Floats  # [R, Q] the weights of each rule; each row sums to 1
    budget: float
    most: Ids  # [Q] the rank that must not be exceeded; 0: any
    others: Ids  # [T] 1 + old entities ahead
    rivals: sparse.csr_array  # [T, N]
    own: Ids  # [T, 2] the newcomers of the fact; -1: an old entity
    gain: Floats  # [T] weights; they sum to 1
    floor: float
    fact: Ids  # [F, 2] the newcomers of each train fact; -1: an old entity

    @property
    def size(self) -> int:
        return int(self.ahead.shape[1])

    def closed(self, waits: Mask) -> Mask:
        """With the newcomers that are left without a fact."""
        waits = waits.copy()
        if not len(self.fact):
            return waits
        real = self.fact >= 0
        while True:
            gone = (real & waits[self.fact]).any(1)
            left = np.zeros(self.size, np.bool_)
            left[self.fact[~gone][real[~gone]]] = True
            if not (~left & ~waits).any():
                return waits
            waits |= ~left

    def ranks(self, waits: Mask) -> tuple[Ids, Ids, Mask]:
        """Ranks of protected and of batch queries without those who wait, and which facts wait with them."""
        stays = (~waits).astype(np.int64)
        gone = np.asarray(((self.own >= 0) & waits[self.own]).any(1))
        return self.old + self.ahead @ stays, self.others + self.rivals @ stays, gone

    def values(self, waits: Mask) -> tuple[Floats, int, float]:
        """D_MCI of each rule, places by which must-keep answers miss their top k, and A_TN."""
        cur, gained, gone = self.ranks(waits)
        lost = 1 / self.old - 1 / cur
        missed = int(np.where(self.most > 0, np.maximum(cur - self.most, 0), 0).sum())
        return self.costs @ lost, missed, float((self.gain * np.where(gone, 0.0, 1 / gained)).sum())

    def satisfied(self, waits: Mask) -> bool:
        costs, missed, gained = self.values(waits)
        return bool(
            (costs <= self.budget + TOLERANCE).all() and not missed and gained >= self.floor - TOLERANCE
        )


def smallest(problem: Problem, *, few: int = FEW) -> Mask | None:
    """Who should wait; None where no set was found. Nobody, where the gate holds anyway."""
    nobody = problem.closed(np.zeros(problem.size, np.bool_))
    if problem.satisfied(nobody):
        return nobody
    helpful = np.flatnonzero(
        np.asarray(problem.ahead.sum(0)).ravel() + (np.asarray(problem.rivals.sum(0)).ravel() > 0)
    )
    found = [made for how in SCORES for made in _greedy(problem, how)]
    best = min(found, key=lambda waits: int(waits.sum()), default=None)
    if best is not None and best.sum() <= EXCHANGED:
        best = _exchanged(problem, best, helpful)
    if best is None and len(helpful) <= few:
        return _exhaustive(problem, helpful)
    return best


def _exhaustive(problem: Problem, helpful: Ids) -> Mask | None:
    """The smallest set there is, where greedy choices found none: a floor may leave few that fit."""
    for size in range(1, len(helpful) + 1):
        tried = (problem.closed(_mask(problem, chosen)) for chosen in combinations(helpful.tolist(), size))
        fitting = [waits for waits in tried if problem.satisfied(waits)]
        if fitting:
            return min(fitting, key=lambda waits: int(waits.sum()))
    return None


def _mask(problem: Problem, chosen: Iterable[int]) -> Mask:
    waits = np.zeros(problem.size, np.bool_)
    waits[list(chosen)] = True
    return waits


SCORES = ("share", "share-dear", "marginal", "shortest")
"""How greedy choices are scored: by an even share of what an answer lost, the same less what waiting costs
the newcomers, by what the next place gives, and by how few others would have to wait for the same answer."""


def _greedy(problem: Problem, how: str) -> list[Mask]:
    """Add whoever helps most until the gate holds, then let back in whoever need not wait."""
    waits = problem.closed(np.zeros(problem.size, np.bool_))
    added: list[int] = []
    for _ in range(problem.size):
        if problem.satisfied(waits):
            return [_thinned(problem, waits, added)]
        score = _scores(problem, waits, how)
        score[waits] = -np.inf
        best = int(np.argmax(score))
        if not score[best] > -np.inf or (score[best] <= 0 and how != "share-dear"):
            break
        added.append(best)
        waits = problem.closed(waits | _mask(problem, [best]))
    return [_thinned(problem, waits, added)] if problem.satisfied(waits) else []


def _scores(problem: Problem, waits: Mask, how: str) -> Floats:
    cur, gained, gone = problem.ranks(waits)
    over = np.maximum(problem.costs @ (1 / problem.old - 1 / cur) - problem.budget, 0.0)
    weight = problem.costs.T @ (over > 0).astype(float)
    ahead = np.maximum(cur - problem.old, 1)
    if how == "marginal":
        worth = weight * (1 / np.maximum(cur - 1, problem.old) - 1 / cur)
    elif how == "shortest":
        worth = weight * (1 / problem.old - 1 / cur) / ahead**2
    else:
        worth = weight * (1 / problem.old - 1 / cur) / ahead
    missed = np.where(problem.most > 0, np.maximum(cur - problem.most, 0), 0)
    worth = worth + (missed > 0) / np.maximum(missed, 1)  # a must-keep answer comes before any cost
    score = np.asarray(problem.ahead.T @ worth, dtype=np.float64)
    if how == "share-dear" and len(problem.gain):
        score -= _price(problem, waits, gained, gone)
    return score


def _price(problem: Problem, waits: Mask, gained: Ids, gone: Mask) -> Floats:
    """What A_TN would lose if one more waited."""
    worth = np.where(gone, 0.0, problem.gain / gained)
    price = np.zeros(problem.size)
    for column in problem.own.T:
        real = column >= 0
        np.add.at(price, column[real], worth[real])
    better = np.where(gone, 0.0, problem.gain * (1 / np.maximum(gained - 1, 1) - 1 / gained))
    return np.asarray(price - problem.rivals.T @ better)


def _thinned(problem: Problem, waits: Mask, added: list[int]) -> Mask:
    """Without whoever need not wait; those added last are tried first."""
    chosen = list(added)
    for one in [*reversed(added)]:
        fewer = [each for each in chosen if each != one]
        closed = problem.closed(_mask(problem, fewer))
        if problem.satisfied(closed):
            chosen, waits = fewer, closed
    return waits


def _exchanged(problem: Problem, best: Mask, helpful: Ids) -> Mask:
    """Two who wait for one who does not, as long as that is found."""
    better = True
    while better:
        better = False
        inside = np.flatnonzero(best)
        worth = _scores(problem, np.zeros_like(best), "share")
        outside = np.setdiff1d(helpful, inside)
        outside = outside[np.argsort(-worth[outside], kind="stable")][:OUTSIDE]
        for pair in combinations(inside.tolist(), 2):
            fewer = best.copy()
            fewer[list(pair)] = False
            for one in (None, *outside.tolist()):
                tried = problem.closed(fewer if one is None else fewer | _mask(problem, [one]))
                if tried.sum() < best.sum() and problem.satisfied(tried):
                    best, better = tried, True
                    break
            if better:
                break
    return best
