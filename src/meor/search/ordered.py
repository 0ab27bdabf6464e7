"""Queries and candidates that do not move: their scores are put in order once, and counting is a search.

How many of the candidates stand above an answer whose own score moves is then a matter of two binary searches
per query. What float32 cannot decide is scored again, as in `counting`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from meor.compiled import kernel, kernel_part, share
from meor.search.counting import GREATER, Band, judge
from meor.search.dot_tiles import DotTiles, leave_out
from meor.search.exact import Array
from meor.search.queries import Queries
from meor.search.screen import Candidates, band
from meor.typing import Ids

BYTES: Final = 8
"""What an ordered score takes, with its column."""
SORTED_TOGETHER: Final = 256  # queries: the order of a row takes twice what is kept of it


@dataclass(frozen=True, slots=True)
class Ordered:
    """Scores of queries against candidates. Those that do not compete stand at -inf."""

    candidates: Candidates
    score: Array  # [Q, E] float32, ascending
    column: Array  # [Q, E] int32

    @classmethod
    def of(cls, candidates: Candidates, queries: Queries) -> Ordered | None:
        """Of inner products. None where float32 cannot hold the rows."""
        if candidates.screened is None or queries.screened is None:
            return None
        shape = len(queries), len(candidates.row)
        score, column = np.empty(shape, np.float32), np.empty(shape, np.int32)
        walk = DotTiles.of(candidates, queries, 0, shape[1])
        for query, first, tile in walk:
            share(_leave_out, len(tile), query, first, tile, queries.asked, walk.cursor)
            score[query : query + len(tile), first : first + tile.shape[1]] = tile
        for query in range(0, shape[0], SORTED_TOGETHER):
            part = slice(query, query + SORTED_TOGETHER)
            order = np.argsort(score[part], axis=1)
            score[part], column[part] = np.take_along_axis(score[part], order, 1), order
        return cls(replace(candidates, screened=None), score, column)

    def count(self, queries: Queries) -> Ids:
        """[Q, 3] of the same queries, whatever their answers score now: as `counting.count_range` counts."""
        tally = np.zeros((len(queries), 3), np.int64)
        if tally.size and self.score.shape[1]:
            size, threshold = queries.size, queries.threshold
            bounds = Band(*band(self.candidates, size, threshold, 0, self.score.shape[1]))
            found = self.candidates.row, bounds, tally
            share(_count, len(queries), self.score, self.column, queries.asked, *found)
        return tally


@kernel
def _leave_out(begin, end, query, first, tile, asked, cursor):
    for line in range(begin, end):
        leave_out(tile[line], query + line, first, asked, cursor)


@kernel_part
def _first_above(score, limit, including):
    """The first place of an ascending row whose score is above a limit, or equal to it."""
    begin, end = 0, score.shape[0]
    while begin < end:
        middle = (begin + end) // 2
        if score[middle] > limit or (including and score[middle] == limit):
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel
def _count(begin, end, score, column, asked, row, bounds, tally):
    for q in range(begin, end):
        query, threshold, answer = asked.row[asked.place[q]], asked.threshold[q], asked.answer[q]
        undecided = _first_above(score[q], bounds.low[q], True)
        above = _first_above(score[q], bounds.high[q], False)
        tally[q, GREATER] += score.shape[1] - above
        for at in range(undecided, above):
            candidate = column[q, at]
            judge(True, query, row[candidate], threshold, answer, candidate, tally[q])
