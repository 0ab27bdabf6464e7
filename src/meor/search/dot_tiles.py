"""Inner products in float32, tile by tile; the answer of a query and what is known do not compete."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from meor.compiled import kernel
from meor.search.exact import Array
from meor.search.queries import Queries
from meor.search.screen import TILE_CANDIDATES, TILE_QUERIES, Candidates
from meor.typing import Ids


@dataclass(frozen=True, slots=True)
class DotTiles:
    """Screened scores of queries against candidates begin..end-1. The candidates advance first."""

    query: torch.Tensor  # [Q, W] float32
    candidate: torch.Tensor  # [E, W] float32
    begin: int
    end: int
    cursor: Ids  # [Q] the next known answer of each query, for `leave_out`

    @classmethod
    def of(cls, candidates: Candidates, queries: Queries, begin: int, end: int) -> DotTiles:
        screened = candidates.screened
        assert isinstance(screened, torch.Tensor)  # noqa: S101  (what `prepare` made for DOT)
        cursor = _first_known(queries.known.start, queries.known.end, queries.known.id, begin)
        return cls(torch.from_numpy(queries.screened), screened, begin, end, cursor)

    def __iter__(self) -> Iterator[tuple[int, int, Array]]:
        """The first query and the first candidate of a tile, and its scores, which the next one replaces."""
        n_queries, n_candidates = len(self.query), self.end - self.begin
        buffer = torch.empty(min(TILE_QUERIES, n_queries) * min(TILE_CANDIDATES, n_candidates))
        for query in range(0, n_queries, TILE_QUERIES):
            own = self.query[query : query + TILE_QUERIES]
            for first in range(self.begin, self.end, TILE_CANDIDATES):
                some = self.candidate[first : min(first + TILE_CANDIDATES, self.end)]
                tile = buffer[: len(own) * len(some)].view(len(own), len(some))
                torch.mm(own, some.T, out=tile)
                yield query, first, tile.numpy()


@kernel
def _first_known(known_start, known_end, known_id, begin):
    """Where the known answers of each query reach the range."""
    cursor = known_start.copy()
    for q in range(known_start.shape[0]):
        while cursor[q] < known_end[q] and known_id[cursor[q]] < begin:
            cursor[q] += 1
    return cursor


@kernel
def leave_out(line, q, first, asked, cursor):
    """The answer and what is known, of candidates first.., are put below every score of a query's line."""
    n_columns, answer = line.shape[0], asked.answer[q]
    if first <= answer < first + n_columns:
        line[answer - first] = -np.inf
    # Known answers come sorted and tiles in order, so a cursor replaces a search.
    at = cursor[q]
    while at < asked.known_end[q] and asked.known_id[at] < first + n_columns:
        line[asked.known_id[at] - first] = -np.inf
        at += 1
    cursor[q] = at
