"""Queries against a universe of candidates: their rows, the score to beat, and who does not compete."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from meor.backbone.base import Scoring
from meor.search.byte_rows import ByteRows
from meor.search.exact import Array
from meor.search.screen import Candidates, Coarse
from meor.typing import Floats, Ids


class Known(NamedTuple):
    """The known answers of query q are `id[start[q]:end[q]]`, ascending; they are no competitors."""

    start: Ids
    end: Ids
    id: Ids

    def select(self, index: Ids | slice) -> Known:
        return Known(self.start[index], self.end[index], self.id)


class Asked(NamedTuple):
    """`Queries` as kernels see them."""

    row: Floats  # [X, W]
    place: Ids  # [Q]
    threshold: Floats  # [Q]
    answer: Ids  # [Q]
    known_start: Ids  # [Q]
    known_end: Ids  # [Q]
    known_id: Ids


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries with what screening needs of them: prepared once, used as often as needed."""

    row: Floats  # [X, W] float64, of which the rows `place` are used
    place: Ids  # [Q]
    threshold: Floats  # [Q] exact score of the answer, or whatever a candidate must exceed
    answer: Ids  # [Q] entity that breaks ties: a smaller id stands before it
    known: Known
    screened: Array | Coarse | None  # [Q, W] float32, or bytes; None: not to be screened
    size: Floats  # [Q] norms

    @classmethod
    def prepare(
        cls,
        scoring: Scoring,
        row: Array,
        answer: Ids,
        known: Known,
        threshold: Floats | None = None,
        *,
        coarse: bool = False,
    ) -> Queries:
        """Narrow and measure query rows. A threshold that is not given yet is set with `asking`."""
        made = Candidates.prepare(scoring, row, lanes=False, coarse=coarse)
        screened = made.screened.numpy() if isinstance(made.screened, torch.Tensor) else made.screened
        assert not isinstance(screened, ByteRows)  # noqa: S101  (only candidates that are counted are)
        place = np.arange(len(made.row))
        needed = np.full(len(made.row), np.nan) if threshold is None else threshold
        return cls(made.row, place, needed, answer, known, screened, made.size)

    def asking(self, threshold: Floats) -> Queries:
        """The same queries with another score to beat."""
        return replace(self, threshold=threshold)

    def counted_from(self, first: int) -> Queries:
        """The same queries for a tile of candidates: ids then count from the first candidate of the tile."""
        if first == 0:
            return self
        known = self.known._replace(id=self.known.id - first)
        return replace(self, answer=self.answer - first, known=known)

    def select(self, index: Ids) -> Queries:
        """Some of the queries; their rows stay where they are."""
        screened = None if self.screened is None else self.screened.take(index, 0)
        return Queries(
            self.row,
            self.place.take(index),
            self.threshold.take(index),
            self.answer.take(index),
            self.known.select(index),
            screened,
            self.size.take(index),
        )

    def part(self, rows: slice) -> Queries:
        """Some of the queries, one after another."""
        index = np.arange(len(self))[rows]
        return self if len(index) == len(self) else self.select(index)

    def left_out(self, part: slice, ids: range) -> NDArray[np.bool_]:
        """[Q, E] True for candidates that do not compete: known answers, and the answer itself."""
        out = np.zeros((part.stop - part.start, len(ids)), np.bool_)
        for line, q in enumerate(range(part.start, part.stop)):
            known = self.known.id[self.known.start[q] : self.known.end[q]]
            begin, end = np.searchsorted(known, (ids.start, ids.stop))
            out[line, known[begin:end] - ids.start] = True
            if self.answer[q] in ids:
                out[line, self.answer[q] - ids.start] = True
        return out

    @property
    def asked(self) -> Asked:
        return Asked(self.row, self.place, self.threshold, self.answer, *self.known)

    def __len__(self) -> int:
        return len(self.place)
