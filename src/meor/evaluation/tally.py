"""Where candidates stand relative to each answer, counted tile by tile of rows and block by block of queries.

A decision about a pair depends on its two rows alone, so how both are cut changes no count. Rows in float64
that fit the budget are prepared once; rows that are stored narrower are widened a tile at a time, because
the whole of them would take twice the memory of the file they come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from meor.backbone import Model
from meor.errors import NonFiniteError
from meor.evaluation.budget import TILE_BYTES, RankingPlan
from meor.search.counting import count_range
from meor.search.queries import Known, Queries
from meor.search.screen import Candidates, exact_scores
from meor.stream.occurrence import EvaluationFilter, Occurrences
from meor.typing import Floats, Ids


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
    widened = model.entity.dtype is not torch.float64
    plan = RankingPlan.within(memory, n_cur, model.entity.shape[1], widened=widened)
    _require_finite_rows(model, n_cur, asked)
    geometry = model.backbone.geometry
    tallies = [np.zeros((len(asked), 3), np.int64) for _ in ranges]
    start, end = known.on(asked.side).bounds(asked.anchor, asked.relation)
    whole = list(_tiles(model, ranges, n_cur, plan.rows, screen)) if plan.rows >= n_cur else None
    for first in range(0, len(asked), plan.queries):
        part = slice(first, first + plan.queries)
        some = asked.select(np.arange(first, min(first + plan.queries, len(asked))))
        row = query_rows(model, some)
        threshold = exact_scores(geometry, row, wide_rows(model, some.answer), np.arange(len(some)))
        _require_finite(np.isfinite(threshold), some)
        of = Known(start[part], end[part], known.on(asked.side).answer)
        queries = Queries.prepare(geometry, row, some.answer, of, threshold)
        for begin, candidates in whole or _tiles(model, ranges, n_cur, plan.rows, screen):
            here = queries.counted_from(begin)
            for found, (low, high) in zip(tallies, ranges, strict=True):
                inside = max(low - begin, 0), min(high - begin, len(candidates.row))
                more, healthy = count_range(candidates, here, *inside)
                found[part] += more
                if healthy is not None:
                    _require_finite(healthy, some)
    return tallies


def wide_rows(model: Model, ids: slice | Ids) -> Floats:
    """Entity rows in float64; without a copy where they are a slice of float64 rows."""
    chosen = model.entity[ids if isinstance(ids, slice) else torch.from_numpy(ids)]
    return np.ascontiguousarray(chosen.detach().cpu().numpy(), dtype=np.float64)


def query_rows(model: Model, asked: Occurrences) -> Floats:
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
