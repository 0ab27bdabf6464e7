"""Where candidates stand relative to each answer, counted tile by tile of rows and block by block of queries.

A decision about a pair depends on its two rows alone, so how both are cut changes no count. Rows in float64
that fit the budget are prepared once; rows that are stored narrower are widened a tile at a time, because
the whole of them would take twice the memory of the file they come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from meor.backbone import Model
from meor.backbone.counting import count_range
from meor.backbone.screen import TILE_CANDIDATES, TILE_QUERIES, Candidates, Questions, exact_scores
from meor.errors import MemoryBudgetError, NonFiniteError
from meor.stream.answers import EvaluationFilter
from meor.stream.occurrence import Occurrences
from meor.typing import Floats, Ids

TILE_BYTES = 2**24
"""Of widened rows: more of them at a time would not be faster."""

_SMALLEST_BLOCK, _LARGEST_BLOCK = 64, 8192  # queries
_SMALLEST_TILE = 1024  # rows


@dataclass(frozen=True, slots=True)
class _Cut:
    """How many queries and how many candidates are looked at together."""

    queries: int
    rows: int

    @classmethod
    def of(cls, memory: int, model: Model, n_rows: int) -> _Cut:
        width = model.entity.shape[1]
        products = 4 * TILE_QUERIES * min(TILE_CANDIDATES, n_rows)
        query = width * (8 + 8 + 4 + 8) + 256  # rows gathered, query, its float32 copy, bookkeeping
        stored_wide = model.entity.dtype is torch.float64
        row = max(width * (4 if stored_wide else 8 + 4), 1)  # screened, and widened where it must be
        whole = (memory - products - n_rows * row) // query
        if stored_wide and whole >= _SMALLEST_BLOCK:
            return cls(min(whole, _LARGEST_BLOCK), max(n_rows, 1))
        room = memory - products - _SMALLEST_BLOCK * query
        least = min(_SMALLEST_TILE, n_rows)
        if room < least * row:
            raise MemoryBudgetError(
                f"A budget of {memory:,} bytes is too small: ranking {n_rows:,} candidates of width {width} "
                f"needs {memory - room + least * row:,}. Raise --memory."
            )
        rows = max(min(room // 2, TILE_BYTES) // row, least, 1)
        queries = (memory - products - rows * row) // query
        return cls(min(queries, _LARGEST_BLOCK), min(rows, max(n_rows, 1)))


def tally(
    model: Model,
    asked: Occurrences,
    known: EvaluationFilter,
    ranges: Sequence[tuple[int, int]],
    n_cur: int,
    memory: int,
    screen: bool,
) -> list[NDArray[np.int64]]:
    """[Q, 3] tallies for each candidate range."""
    cut = _Cut.of(memory, model, n_cur)
    _require_finite_rows(model, n_cur, asked)
    geometry = model.backbone.geometry
    tallies = [np.zeros((len(asked), 3), np.int64) for _ in ranges]
    start, end = known.on(asked.side).bounds(asked.anchor, asked.relation)
    whole = list(_tiles(model, ranges, n_cur, cut.rows, screen)) if cut.rows >= n_cur else None
    for first in range(0, len(asked), cut.queries):
        part = slice(first, first + cut.queries)
        some = asked.select(np.arange(first, min(first + cut.queries, len(asked))))
        query = queries(model, some)
        threshold = exact_scores(geometry, query, wide_rows(model, some.answer), np.arange(len(some)))
        _require_finite(np.isfinite(threshold), some)
        questions = Questions(query, some.answer, start[part], end[part], known.on(asked.side).answer)
        for begin, candidates in whole or _tiles(model, ranges, n_cur, cut.rows, screen):
            here = _shifted(questions, begin)
            for found, (low, high) in zip(tallies, ranges, strict=True):
                inside = max(low - begin, 0), min(high - begin, len(candidates.row))
                more, healthy = count_range(candidates, here, threshold, *inside)
                found[part] += more
                if healthy is not None:
                    _require_finite(healthy, some)
    return tallies


def wide_rows(model: Model, ids: slice | Ids) -> Floats:
    """Entity rows in float64; without a copy where they are a slice of float64 rows."""
    chosen = model.entity[ids if isinstance(ids, slice) else torch.from_numpy(ids)]
    return np.ascontiguousarray(chosen.detach().cpu().numpy(), dtype=np.float64)


def queries(model: Model, asked: Occurrences) -> Floats:
    query = model.query_array(asked.anchor, asked.relation, asked.side)
    return np.ascontiguousarray(query, dtype=np.float64)


def tile_slices(model: Model, begin: int, end: int) -> Iterator[slice]:
    """All rows at once where they are float64 already, else as many as should be widened together."""
    stored_wide = model.entity.dtype is torch.float64
    size = end - begin if stored_wide else TILE_BYTES // (8 * max(model.entity.shape[1], 1))
    for first in range(begin, end, max(size, 1)):
        yield slice(first, min(first + max(size, 1), end))


def _tiles(
    model: Model, ranges: Sequence[tuple[int, int]], n_cur: int, size: int, screen: bool
) -> Iterator[tuple[int, Candidates]]:
    """The first id and the prepared rows of each tile that a range reaches into."""
    for begin in range(0, n_cur, size):
        end = min(begin + size, n_cur)
        if any(low < end and high > begin for low, high in ranges):
            rows = wide_rows(model, slice(begin, end))
            yield begin, Candidates.prepare(model.backbone.geometry, rows, screen=screen)


def _shifted(questions: Questions, begin: int) -> Questions:
    """The same questions with ids counted from a tile's first."""
    if begin == 0:
        return questions
    known = questions.known_id - begin
    return Questions(
        questions.query, questions.answer - begin, questions.known_start, questions.known_end, known
    )


def _require_finite_rows(model: Model, n_cur: int, asked: Occurrences) -> None:
    broken = [
        part.start + np.flatnonzero(~np.isfinite(wide_rows(model, part)).all(1))
        for part in tile_slices(model, 0, n_cur)
    ]
    first = np.concatenate([*broken, np.empty(0, np.int64)])
    if len(first) and len(asked):
        raise NonFiniteError(
            f"{_describe(asked, 0)}: candidate {int(first[0])} has a NaN or infinite embedding, as have "
            f"{len(first) - 1} others. No rank was computed; repair the model's rows."
        )


def _require_finite(healthy: NDArray[np.bool_], asked: Occurrences) -> None:
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
