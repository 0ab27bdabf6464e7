"""Counts of the same queries again and again, while neither an old entity nor an old relation moves.

What an old anchor asks by an old relation stays the same, and so do the scores of old candidates. Where the
answer is old too, they are counted once. Where it is a newcomer its own score moves, and the old ones are
kept in order (`Ordered`). Newcomers alone are scored again, and queries whose own rows move.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from meor.backbone.base import Geometry, Model
from meor.evaluation.rank import Counts, count
from meor.evaluation.tally import queries_of, require_finite, tally, wide_rows
from meor.search.exact import exact_scores
from meor.search.ordered import BYTES, Ordered
from meor.search.queries import Queries
from meor.search.screen import Candidates
from meor.stream.occurrence import EvaluationFilter, Occurrences
from meor.typing import Ids


@dataclass(slots=True)
class _Standing:
    """Queries that stand, and what is known of their old candidates."""

    place: Ids  # among all queries
    asked: Occurrences
    queries: Queries | None  # None: there is no room for them, they are made again
    old: Ids | Ordered

    def counts(
        self, model: Model, known: EvaluationFilter, universes: tuple[int, int], memory: int
    ) -> Counts:
        queries, old = self.queries, self.old
        if isinstance(old, Ordered):
            assert queries is not None  # noqa: S101  (`_ordered` keeps both or none)
            answers = wide_rows(model, self.asked.answer)
            place = np.arange(len(self.asked))
            queries = queries.asking(exact_scores(model.backbone.scoring, queries.row, answers, place))
            require_finite(np.isfinite(queries.threshold), self.asked)
            old = old.count(queries)
        (new,) = tally(model, self.asked, known, [universes], universes[1], memory, queries=queries)
        return Counts(old, new)


@dataclass(slots=True)
class Recount:
    """A model -> where the candidates stand relative to each answer, as `rank.count` has it."""

    asked: Occurrences
    known: EvaluationFilter
    universes: tuple[int, int]
    n_relations: int  # old ones
    memory: int  # bytes that ranking may take
    room: int  # bytes of queries and of scores that may be kept
    _standing: list[_Standing] = field(init=False)
    _moving: Ids = field(init=False)
    _is_made: bool = field(init=False, default=False)

    def __call__(self, model: Model) -> Counts:
        if not self._is_made:
            self._keep(model)
        found = Counts(*np.zeros((2, len(self.asked), 3), np.int64))
        for part in self._standing:
            counts = part.counts(model, self.known, self.universes, self.memory)
            found.old[part.place], found.new[part.place] = counts.old, counts.new
        moving = self.asked.select(self._moving)
        counts = count(model, moving, self.known, self.universes, memory=self.memory)
        found.old[self._moving], found.new[self._moving] = counts.old, counts.new
        return found

    def _keep(self, model: Model) -> None:
        asked, n_old = self.asked, self.universes[0]
        stands = (asked.anchor < n_old) & (asked.relation < self.n_relations)
        is_old = asked.answer < n_old
        # Old answers first: all that they need room for is their queries.
        parts = (
            self._settled(model, np.flatnonzero(stands & is_old)),
            self._ordered(model, np.flatnonzero(stands & ~is_old)),
        )
        self._standing = [part for part in parts if part is not None]
        self._moving = np.setdiff1d(
            np.arange(len(asked)),
            np.concatenate([np.empty(0, np.int64), *(part.place for part in self._standing)]),
        )
        self._is_made = True

    def _settled(self, model: Model, place: Ids) -> _Standing | None:
        """Queries whose answers are old: old candidates stand above them or they do not."""
        if not len(place):
            return None
        asked, (n_old, n_cur) = self.asked.select(place), self.universes
        (old,) = tally(model, asked, self.known, [(0, n_old)], n_cur, self.memory)
        needed = _query_bytes(model) * len(place)
        fits = needed <= self.room
        self.room -= needed * fits
        return _Standing(place, asked, queries_of(model, asked, self.known) if fits else None, old)

    def _ordered(self, model: Model, place: Ids) -> _Standing | None:
        """Queries whose answers are newcomers, as many as there is room for; of inner products alone."""
        n_old, is_widened = self.universes[0], model.entity.dtype is not torch.float64
        rows = n_old * model.entity.shape[1] * 8 * is_widened
        each = _query_bytes(model) + BYTES * n_old
        place = place[: max((self.room - rows) // each, 0)]
        if not len(place) or model.backbone.geometry is not Geometry.DOT:
            return None
        asked = self.asked.select(place)
        queries = queries_of(model, asked, self.known)
        old = Candidates.prepare(model.backbone.scoring, wide_rows(model, slice(0, n_old)))
        ordered = Ordered.of(old, queries)
        if ordered is None:
            return None
        self.room -= rows + each * len(place)
        return _Standing(place, asked, queries, ordered)


def _query_bytes(model: Model) -> int:
    return model.entity.shape[1] * (8 + 4) + 64
