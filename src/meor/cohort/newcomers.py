"""Which entities take part at a historical occurrence: N_x, the eligible old pool, the scale sample.

Nothing here can see a score. An occurrence is one side of one fact: number 2f is fact f with its head
missing, number 2f + 1 with its tail missing.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meor.cohort.draw import Drawn, below, fill_words, key_words, occurrence_key
from meor.compiled import kernel, share
from meor.errors import InputError
from meor.random import Address
from meor.stream.occurrence import TrainAnswers
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Facts, Ids, Side

SCALE_SAMPLE = 256
"""K_scale of the paper."""

_KIND_SCALE = 0
_PAST_THE_END = np.iinfo(np.int64).max  # sorts behind every id


@dataclass(frozen=True, slots=True)
class Cohort:
    """The score-blind half of every occurrence of an update."""

    run: Address
    update: int
    n_old: int  # E_{u-1} is 0..n_old-1
    n_cur: int  # newcomers are n_old..n_cur-1
    fact: Facts  # [X, 3]
    side: NDArray[np.int8]  # [X]
    known: Ids  # P^tr: sorted ids, occurrence x owns known[known_start[x]:known_end[x]]
    known_start: Ids  # [X]
    known_end: Ids  # [X]
    n_newcomers: Ids  # [X] |N_x|
    n_pool: Ids  # [X] size of the eligible old pool
    scale: Ids  # [X, K] ids of the scale sample, sorted; -1 past its size
    scale_size: Ids  # [X]

    def __len__(self) -> int:
        return len(self.fact)

    @property
    def n_new(self) -> int:
        return self.n_cur - self.n_old

    @property
    def eligible(self) -> NDArray[np.bool_]:
        """[X] the part of B_M that needs no scores: newcomers, scale sample and terminal pool exist."""
        return (self.n_newcomers > 0) & (self.n_pool > 0) & (self.scale_size > 0)

    @property
    def relation(self) -> Ids:
        return self.fact[:, 1]

    @property
    def answer(self) -> Ids:
        return np.where(self.side == Side.HEAD, self.fact[:, 0], self.fact[:, 2])

    @property
    def anchor(self) -> Ids:
        return np.where(self.side == Side.HEAD, self.fact[:, 2], self.fact[:, 0])

    def known_of(self, x: int) -> Ids:
        return self.known[self.known_start[x] : self.known_end[x]]

    def newcomers_of(self, x: int) -> Ids:
        """N_x (Eq. new-cohort): newcomers that are neither the answer nor a known answer, by id."""
        return np.setdiff1d(np.arange(self.n_old, self.n_cur), self._excluded(x), assume_unique=True)

    def old_pool_of(self, x: int) -> Ids:
        """The eligible old pool (Eq. old-pool): old entities but the answer and known answers, by id."""
        return np.setdiff1d(np.arange(self.n_old), self._excluded(x), assume_unique=True)

    def scale_of(self, x: int) -> Ids:
        return self.scale[x, : self.scale_size[x]]

    def _excluded(self, x: int) -> Ids:
        return np.union1d(self.known_of(x), self.answer[x : x + 1])

    def is_newcomer(self, index: Ids) -> NDArray[np.bool_]:
        """[Q, n_new] membership in N_x, column i being newcomer n_old + i."""
        member = np.ones((len(index), self.n_new), dtype=bool)
        for row, x in enumerate(index):
            known = self.known_of(int(x))
            first, last = np.searchsorted(known, (self.n_old, self.n_cur))
            member[row, known[first:last] - self.n_old] = False
        return member


def build_cohort(
    stream: Stream,
    update: int,
    fact: Facts,
    *,
    run: Address,
    scale_sample: int = SCALE_SAMPLE,
    known: TrainAnswers | None = None,
) -> Cohort:
    """Cohorts of both sides of historical facts (replay buffer, or validation facts) at an update."""
    fact = np.ascontiguousarray(fact, dtype=np.int64).reshape(-1, 3)
    n_old = stream.entity_counts[update - 1] if update else 0
    n_cur = stream.entity_counts[update]
    if len(fact) and (update < 1 or fact[:, [0, 2]].max() >= n_old):
        raise InputError(
            f"a fact given as historical at update {update} holds an entity that is not old",
            remedy=f"Give facts of snapshots before {update} only",
        )
    answers = TrainAnswers.through(stream, update) if known is None else known
    bounds = [answers.on(side).bounds(fact[:, side.anchor_column], fact[:, 1]) for side in SIDES]
    shift = np.array([[0], [len(answers.head.answer)]])  # one array holds both sides, head first
    start = np.stack([begin for begin, _ in bounds]) + shift
    end = np.stack([stop for _, stop in bounds]) + shift
    ids = np.concatenate([answers.head.answer, answers.tail.answer])
    both = np.repeat(fact, len(SIDES), axis=0)
    side = np.tile(np.array(SIDES, dtype=np.int8), len(fact))
    answer = np.where(side == Side.HEAD, both[:, 0], both[:, 2])
    known_start, known_end = (np.ascontiguousarray(part.T).reshape(-1) for part in (start, end))
    drawn = Drawn(both, answer, ids, known_start, known_end)
    n_newcomers, n_pool = (np.empty(len(both), np.int64) for _ in range(2))
    scale = np.full((len(both), scale_sample), _PAST_THE_END, np.int64)
    words = key_words("scale", run, update)
    share(_scale_samples, len(both), drawn, side, n_old, n_cur, words, n_newcomers, n_pool, scale)
    scale.sort(axis=1)
    scale[scale == _PAST_THE_END] = -1
    return Cohort(
        run=run,
        update=update,
        n_old=n_old,
        n_cur=n_cur,
        fact=both,
        side=side,
        known=ids,
        known_start=known_start,
        known_end=known_end,
        n_newcomers=n_newcomers,
        n_pool=n_pool,
        scale=scale,
        scale_size=np.minimum(n_pool, scale_sample),
    )


@kernel
def _scale_samples(begin, end, drawn, side, n_old, n_cur, key, n_newcomers, n_pool, scale):
    """Sizes of N_x and of the old pool, and the scale sample (decision 24) of occurrences begin..end-1."""
    removed, pool = np.empty(n_old, np.bool_), np.empty(n_old, np.int64)
    words = np.empty((4, scale.shape[1]), np.uint64)
    k0, k1 = key
    for x in range(begin, end):
        removed[:] = False
        removed[drawn.answer[x]] = True
        n_newcomers[x] = n_cur - n_old
        for at in range(drawn.known_start[x], drawn.known_end[x]):
            known = drawn.known[at]
            if known < n_old:
                removed[known] = True
            elif known < n_cur:
                n_newcomers[x] -= 1
        filled = 0
        for entity in range(n_old):
            if not removed[entity]:
                pool[filled] = entity
                filled += 1
        n_pool[x] = filled
        fact = drawn.fact[x]
        own0, own1 = occurrence_key(fact[0], fact[1], fact[2], np.int64(side[x]), k0, k1)
        fill_words(np.uint64(0), np.uint64(_KIND_SCALE), own0, own1, words)
        for position in range(min(scale.shape[1], filled)):
            other = position + below(words[0, position], words[1, position], filled - position)
            pool[position], pool[other] = pool[other], pool[position]
            scale[x, position] = pool[position]
