"""Where candidates stand relative to each answer, counted tile by tile of rows and block by block of queries.

A decision about a pair depends on its two rows alone, so how both are cut changes no count. Rows in float64
that fit the budget are prepared once; rows that are stored narrower are widened a tile at a time, because
the whole of them would take twice the memory of the file they come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from meor.backbone.base import Backbone, Geometry, Model
from meor.errors import MemoryBudgetError, NonFiniteError
from meor.search.counting import count_range
from meor.search.exact import exact_scores
from meor.search.queries import Known, Queries
from meor.search.screen import TILE_CANDIDATES, TILE_QUERIES, Candidates
from meor.stream.occurrence import EvaluationFilter, Occurrences
from meor.typing import Floats, Ids

DEFAULT_MEMORY: Final = 2**30
SMALLEST_BLOCK: Final = 64  # queries
LARGEST_BLOCK: Final = 8192
SMALLEST_TILE: Final = 1024  # rows
TILE_BYTES: Final = 2**24  # of widened rows: more of them at a time would not be faster


@dataclass(frozen=True, slots=True)
class RankingPlan:
    """How many queries and how many candidates are looked at together, so that ranking keeps to a budget.

    Rows stored in float64 are prepared once if the budget allows it. Narrower rows are widened a tile at a
    time: the whole of them would take twice the memory of the file they come from.
    """

    queries: int
    rows: int
    width: int
    widened: bool  # rows are stored narrower than float64
    candidates: int
    as_bytes: bool = False  # L1 rows are screened as bytes, and their sums are counted where they are made

    @classmethod
    def within(
        cls, memory: int, candidates: int, width: int, *, widened: bool = False, as_bytes: bool = False
    ) -> RankingPlan:
        """The largest plan; a `MemoryBudgetError` before anything is allocated if there is none."""

        def plan(queries: int, rows: int) -> RankingPlan:
            return cls(queries, rows, width, widened, candidates, as_bytes)

        query, row = (plan(*unit).bytes - plan(0, 0).bytes for unit in ((1, 0), (0, 1)))
        whole = (memory - plan(0, candidates).bytes) // query
        if not widened and whole >= SMALLEST_BLOCK:
            return plan(min(whole, LARGEST_BLOCK), max(candidates, 1))
        smallest = plan(SMALLEST_BLOCK, min(SMALLEST_TILE, candidates))
        if smallest.bytes > memory:
            raise MemoryBudgetError(
                f"A budget of {memory:,} bytes is too small: ranking {candidates:,} candidates of width "
                f"{width} needs {smallest.bytes:,}. Raise --memory."
            )
        room = memory - plan(SMALLEST_BLOCK, 0).bytes
        rows = min(max(min(room // 2, TILE_BYTES) // row, smallest.rows, 1), max(candidates, 1))
        return plan(min((memory - plan(0, rows).bytes) // query, LARGEST_BLOCK), rows)

    @property
    def bytes(self) -> int:
        """What ranking takes beside the model: screened (and widened) rows, a tile of scores, queries."""
        row = max(self.width, 1) * (8 * self.widened + (1 if self.as_bytes else 4))
        query = self.width * (8 + 8 + 4 + 8) + 256  # rows gathered, query, its float32 copy, bookkeeping
        scores = 0 if self.as_bytes else 4 * TILE_QUERIES * min(TILE_CANDIDATES, self.candidates)
        return scores + self.rows * row + self.queries * query


def tally(
    model: Model,
    asked: Occurrences,
    known: EvaluationFilter,
    ranges: Sequence[tuple[int, int]],
    n_cur: int,
    memory: int,
    screen: bool = True,
    queries: Queries | None = None,
) -> list[NDArray[np.int64]]:
    """[Q, 3] tallies for each candidate range. `queries`: what was asked, where it is prepared already."""
    tallies = [np.zeros((len(asked), 3), np.int64) for _ in ranges]
    for tile in tiles_of(model, asked, known, ranges, n_cur, memory, screen, queries):
        for found, (low, high) in zip(tallies, ranges, strict=True):
            more, healthy = count_range(tile.candidates, tile.queries, *tile.inside(low, high))
            found[tile.part] += more
            tile.require_finite(healthy)
    return tallies


@dataclass(frozen=True, slots=True)
class Tile:
    """A block of queries and a tile of candidates; ids count from the tile's first."""

    part: slice  # of the queries that were asked
    asked: Occurrences
    queries: Queries
    candidates: Candidates
    begin: int

    def inside(self, low: int, high: int) -> tuple[int, int]:
        """What the tile holds of the candidates low..high-1."""
        return max(low - self.begin, 0), min(high - self.begin, len(self.candidates.row))

    def require_finite(self, healthy: NDArray[np.bool_] | None) -> None:
        if healthy is not None:
            require_finite(healthy, self.asked)


def tiles_of(
    model: Model,
    asked: Occurrences,
    known: EvaluationFilter,
    ranges: Sequence[tuple[int, int]],
    n_cur: int,
    memory: int,
    screen: bool = True,
    queries: Queries | None = None,
) -> Iterator[Tile]:
    """Every query meets every candidate of the ranges once, within the budget."""
    if not len(asked):
        return
    plan = RankingPlan.within(
        memory,
        n_cur,
        model.entity.shape[1],
        widened=model.entity.dtype is not torch.float64,
        as_bytes=screen and model.backbone.geometry is Geometry.L1,
    )
    first_row = min((low for low, _ in ranges), default=0)
    _require_finite_rows(model, first_row, n_cur, asked)
    rows = range(first_row, n_cur, plan.rows)
    whole = list(_prepared(model, ranges, rows, screen)) if len(rows) == 1 else None
    for first in range(0, len(asked), plan.queries):
        part = slice(first, first + plan.queries)
        some = asked.select(np.arange(first, min(first + plan.queries, len(asked))))
        mine = queries_of(model, some, known) if queries is None else queries.part(part)
        require_finite(np.isfinite(mine.threshold), some)
        for begin, candidates in whole or _prepared(model, ranges, rows, screen):
            yield Tile(part, some, mine.counted_from(begin), candidates, begin)


def wide_rows(model: Model, ids: slice | Ids) -> Floats:
    """Rows to compare with, in float64; without a copy where they are a slice of stored float64 rows."""
    chosen = model.entity[ids if isinstance(ids, slice) else torch.from_numpy(ids)].detach().cpu()
    return candidate_rows(model.backbone, chosen)


def candidate_rows(backbone: Backbone, stored: Tensor) -> Floats:
    """Stored entity rows as kernels compare them: in float64, as the backbone's `candidate` makes them."""
    return np.ascontiguousarray(backbone.candidate(stored.detach().cpu().double()).numpy())


def queries_of(model: Model, asked: Occurrences, known: EvaluationFilter, *, coarse: bool = False) -> Queries:
    """Queries with their known answers, each with the exact score of its answer as threshold."""
    scoring, index = model.backbone.scoring, known.on(asked.side)
    query = model.query_array(asked.anchor, asked.relation, asked.side)
    row = np.ascontiguousarray(query, dtype=np.float64)
    threshold = exact_scores(scoring, row, wide_rows(model, asked.answer), np.arange(len(asked)))
    of = Known(*index.bounds(asked.anchor, asked.relation), index.answer)
    return Queries.prepare(scoring, row, asked.answer, of, threshold, coarse=coarse)


def tile_slices(model: Model, begin: int, end: int) -> Iterator[slice]:
    """All rows at once where they are float64 already, else as many as should be widened together."""
    stored_wide = model.entity.dtype is torch.float64
    size = end - begin if stored_wide else TILE_BYTES // (8 * max(model.entity.shape[1], 1))
    for first in range(begin, end, max(size, 1)):
        yield slice(first, min(first + max(size, 1), end))


def _prepared(
    model: Model, ranges: Sequence[tuple[int, int]], rows: range, screen: bool
) -> Iterator[tuple[int, Candidates]]:
    """The first id and the prepared rows of each tile that a range reaches into; `rows` are the first ids."""
    for begin in rows:
        end = min(begin + rows.step, rows.stop)
        if any(low < end and high > begin for low, high in ranges):
            wide = wide_rows(model, slice(begin, end))
            yield begin, Candidates.prepare(model.backbone.scoring, wide, screen=screen, counted=True)


def _require_finite_rows(model: Model, begin: int, end: int, asked: Occurrences) -> None:
    broken = [
        part.start + np.flatnonzero(~np.isfinite(wide_rows(model, part)).all(1))
        for part in tile_slices(model, begin, end)
    ]
    first = np.concatenate([*broken, np.empty(0, np.int64)])
    if len(first):
        raise NonFiniteError(
            f"{_describe(asked, 0)}: candidate {int(first[0])} has a NaN or infinite embedding, as have "
            f"{len(first) - 1} others. No rank was computed; repair the model's rows."
        )


def require_finite(healthy: NDArray[np.bool_], asked: Occurrences) -> None:
    if not healthy.all():
        first = int(np.flatnonzero(~healthy)[0])
        raise NonFiniteError(
            f"{_describe(asked, first)}: a score is NaN or infinite. No rank was computed; "
            "look at the rows of the query's entity and relation."
        )


def _describe(asked: Occurrences, index: int) -> str:
    head, relation, tail = (int(value) for value in asked.fact[index])
    return (
        f"Query for the {asked.side.label} of fact (head {head}, relation {relation}, tail {tail}) "
        f"at update {asked.update}"
    )
