"""What if they wait? The smallest set of newcomers found whose holding back satisfies the gate.

Exact for the rows at hand: a rank is a sum over newcomers, so it is known without any of them. The facts of
a newcomer that waits count as reciprocal rank 0 in A_TN, and one that is left without a fact waits too.
Finding the smallest set is hard in general. Greedy choices by several scores are thinned out and improved by
exchanges, and the smallest result is taken; where none fits, few newcomers are tried exhaustively.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from meor.typing import Floats, Ids

FEW = 14
"""So many newcomers are tried exhaustively."""
EXCHANGED = 12
"""Sets of at most so many are improved by exchanges."""
MANY, STEPS, BLOCKS, TRIES = 200, 60, 32, 200
"""More than so many are added in about so many steps, and thinned out in so many blocks, by so many tries."""
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

    def without_gain(self) -> Problem:
        """The same, with no query of the batch."""
        none = np.zeros(0, np.int64)
        nobody = sparse.csr_array((0, self.size), dtype=np.int64)
        return replace(self, others=none, rivals=nobody, own=none.reshape(0, 2), gain=np.zeros(0), floor=0.0)

    def measure(self, waits: Mask) -> Measured:
        """The gate without those who wait."""
        stays = (~waits).astype(np.int64)
        cur, gained = self.old + self.ahead @ stays, self.others + self.rivals @ stays
        gone = np.asarray(((self.own >= 0) & waits[self.own]).any(1))
        missed = np.where(self.most > 0, np.maximum(cur - self.most, 0), 0)
        costs = self.costs @ (1 / self.old - 1 / cur)
        gain = float((self.gain * np.where(gone, 0.0, 1 / gained)).sum())
        fits = bool((costs <= self.budget + TOLERANCE).all() and not missed.any())
        return Measured(
            waits, cur, gained, gone, missed, costs, gain, fits and gain >= self.floor - TOLERANCE
        )

    def satisfied(self, waits: Mask) -> bool:
        return self.measure(waits).satisfied


@dataclass(frozen=True, slots=True)
class Measured:
    """What holds if these wait."""

    waits: Mask
    cur: Ids  # [Q]
    gained: Ids  # [T] ranks of batch queries
    gone: Mask  # [T] facts that wait too
    missed: Ids  # [Q] places by which a must-keep answer misses its top k
    costs: Floats  # [R] D_MCI of each rule
    gain: float  # A_TN
    satisfied: bool


def smallest(problem: Problem, *, few: int = FEW) -> Mask | None:
    """Who should wait; None where no set was found. Nobody, where the gate holds anyway."""
    nobody = problem.closed(np.zeros(problem.size, np.bool_))
    if problem.satisfied(nobody):
        return nobody
    if problem.floor <= 0:
        problem = problem.without_gain()  # A_TN decides nothing, so it need not be followed
    helpful = np.flatnonzero(np.asarray(problem.ahead.sum(0) + problem.rivals.sum(0)).ravel())
    scores = SCORES if len(helpful) <= MANY else SCORES_OF_MANY
    found = [made for how in scores for made in _greedy(problem, how, len(helpful))]
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
SCORES_OF_MANY = ("share", "share-dear", "shortest")
"""How greedy choices are scored: by an even share of what an answer lost, the same less what waiting costs
the newcomers, by what the next place gives, and by how few others would have to wait for the same answer."""


def _greedy(problem: Problem, how: str, helpful: int) -> list[Mask]:
    """Add whoever helps most until the gate holds, then let back in whoever need not wait."""
    now = problem.measure(problem.closed(np.zeros(problem.size, np.bool_)))
    added: list[int] = []
    at_once = max(1, helpful // STEPS) if helpful > MANY else 1
    while not now.satisfied and len(added) < problem.size:
        score = _scores(problem, now, how)
        score[now.waits] = -np.inf
        best = np.argsort(-score, kind="stable")[:at_once]
        best = best[score[best] > (-np.inf if how == "share-dear" else 0)]
        if not len(best):
            break
        added.extend(best.tolist())
        now = problem.measure(problem.closed(now.waits | _mask(problem, best.tolist())))
    return [_thinned(problem, now.waits, added)] if now.satisfied else []


def _scores(problem: Problem, now: Measured, how: str) -> Floats:
    over = (now.costs > problem.budget).astype(float)
    lost, ahead = 1 / problem.old - 1 / now.cur, np.maximum(now.cur - problem.old, 1)
    if how == "marginal":
        lost = 1 / np.maximum(now.cur - 1, problem.old) - 1 / now.cur
    elif how == "shortest":
        lost = lost / ahead**2
    else:
        lost = lost / ahead
    worth = problem.costs.T @ over * lost
    worth = worth + (now.missed > 0) / np.maximum(now.missed, 1)  # a must-keep answer comes before any cost
    score = np.asarray(problem.ahead.T @ worth, dtype=np.float64)
    return score - _price(problem, now) if how == "share-dear" and len(problem.gain) else score


def _price(problem: Problem, now: Measured) -> Floats:
    """What A_TN would lose if one more waited."""
    worth = np.where(now.gone, 0.0, problem.gain / now.gained)
    price = np.zeros(problem.size)
    for column in problem.own.T:
        real = column >= 0
        np.add.at(price, column[real], worth[real])
    nearer = 1 / np.maximum(now.gained - 1, 1) - 1 / now.gained
    return np.asarray(price - problem.rivals.T @ np.where(now.gone, 0.0, problem.gain * nearer))


def _thinned(problem: Problem, waits: Mask, added: list[int]) -> Mask:
    """Without whoever need not wait; those added last are tried first, many of them in blocks."""
    chosen = dict.fromkeys(added)
    size = max(1, len(added) // BLOCKS) if len(added) > MANY else 1
    blocks = [added[max(end - size, 0) : end] for end in range(len(added), 0, -size)]
    tries = max(len(added), TRIES) if len(added) <= MANY else TRIES
    while blocks and tries:
        block, tries = blocks.pop(0), tries - 1
        fewer = [each for each in chosen if each not in set(block)]
        closed = problem.closed(_mask(problem, fewer))
        if problem.satisfied(closed):
            chosen, waits = dict.fromkeys(fewer), closed
        elif len(block) > 1:
            half = len(block) // 2
            blocks += [block[half:], block[:half]]
    return waits


def _exchanged(problem: Problem, best: Mask, helpful: Ids) -> Mask:
    """Two who wait for one who does not, as long as that is found."""
    better = True
    while better:
        better = False
        inside = np.flatnonzero(best)
        worth = _scores(problem, problem.measure(np.zeros_like(best)), "share")
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
