"""Naming the newcomers: who stands ahead of each displaced answer, and what each newcomer costs in all.

Membership is decided by the exact scores that ranks are counted from, so a query's list has exactly
`cur - old` entries. Only displaced queries are scored, in blocks that fit the byte budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from meor.backbone.base import Geometry, Model
from meor.backbone.screen import exact_scores
from meor.evaluation.displacement import Displaced
from meor.evaluation.endpoints import select
from meor.evaluation.protocols import FilterPrefix, filter_parts
from meor.evaluation.rank import DEFAULT_MEMORY, Ranks
from meor.stream.answers import EvaluationFilter
from meor.stream.occurrence import Occurrences
from meor.stream.snapshot import Stream
from meor.typing import SPLITS, Floats, Ids, Role, Split

UNIT = 2.0**-53
_BYTES_A_SCORE = 40  # a float64 score, its comparison, and room for the pairs found
_LARGEST_BLOCK = 4096
_PAIRS_AT_A_TIME = 1 << 14


@dataclass(frozen=True, slots=True)
class Blame:
    """What each newcomer of an update did to the historical answers of one side."""

    update: int
    first: int  # id of the first newcomer
    displaced: Ids  # [N] answers it stands ahead of
    charge: Floats  # [N] its share of their lost reciprocal rank, split evenly among those ahead


@dataclass(frozen=True, slots=True)
class Ahead:
    """Newcomers ahead of the answers of some queries: those of query i are `id[start[i]:start[i+1]]`."""

    query: Ids  # rows of the occurrences
    start: Ids
    id: Ids
    score: Floats


def blame(
    stream: Stream,
    model: Model,
    ranks: Ranks,
    *,
    filter_prefix: FilterPrefix = FilterPrefix.CURRENT,
    filter_splits: Sequence[Split] = SPLITS,
    memory: int = DEFAULT_MEMORY,
) -> Blame:
    """Count, for every newcomer of the update, the historical answers it displaces.

    `ranks` must be those of this model, with ties by id and the same filter.
    """
    update = ranks.occurrences.update
    newcomers = stream.newcomers(update)
    displaced = np.zeros(len(newcomers), dtype=np.int64)
    charge = np.zeros(len(newcomers))
    chosen = select(ranks, (ranks.occurrences.role == Role.HISTORICAL) & (ranks.cur > ranks.old))
    asked = chosen.occurrences
    share = (1 / chosen.old - 1 / chosen.cur) / (chosen.cur - chosen.old)
    for rows, known in filter_parts(stream, asked, filter_prefix, filter_splits):
        for found in newcomers_ahead(model, asked, known, newcomers, rows=rows, memory=memory):
            size = np.diff(found.start)
            _require_agreement(asked, found.query, size, (chosen.cur - chosen.old)[found.query])
            # add.at adds one by one in order: how queries are cut into blocks cannot change a bit.
            np.add.at(displaced, found.id - newcomers.start, 1)
            np.add.at(charge, found.id - newcomers.start, np.repeat(share[found.query], size))
    return Blame(update, newcomers.start, displaced, charge)


def name_newcomers(
    stream: Stream,
    model: Model,
    worst: Sequence[Displaced],
    *,
    filter_prefix: FilterPrefix = FilterPrefix.CURRENT,
    filter_splits: Sequence[Split] = SPLITS,
    limit: int | None = None,
) -> tuple[Displaced, ...]:
    """The same answers with the newcomers ahead of them, highest score first, at most `limit` each.

    All of `worst` must be of the update whose model is given.
    """
    named = []
    for each in worst:
        fact = np.array([each.fact], dtype=np.int64)
        asked = Occurrences(
            each.update,
            each.side,
            fact,
            np.array([each.snapshot]),
            np.array([Role.HISTORICAL], dtype=np.int8),
        )
        for rows, known in filter_parts(stream, asked, filter_prefix, filter_splits):
            for found in newcomers_ahead(model, asked, known, stream.newcomers(each.update), rows=rows):
                order = np.lexsort((found.id, -found.score))[:limit]
                named.append(replace(each, newcomers=tuple(int(e) for e in found.id[order])))
    return tuple(named)


def newcomers_ahead(
    model: Model,
    asked: Occurrences,
    known: EvaluationFilter,
    newcomers: range,
    *,
    rows: Ids | None = None,
    memory: int = DEFAULT_MEMORY,
) -> Iterator[Ahead]:
    """Eligible newcomers that score above the answer, block by block of the chosen queries.

    Meant for queries with an old answer: at equal scores its smaller id keeps it first.
    """
    chosen = np.arange(len(asked)) if rows is None else rows
    if not len(newcomers) or not len(chosen):
        return
    entity = np.ascontiguousarray(model.entity[: newcomers.stop].detach().cpu().numpy(), dtype=np.float64)
    index = known.on(asked.side)
    fits = memory // (_BYTES_A_SCORE * len(newcomers))
    block = int(np.clip(fits, 1, _LARGEST_BLOCK))
    for first in range(0, len(chosen), block):
        part = chosen[first : first + block]
        some = asked.select(part)
        query = model.query_array(some.anchor, some.relation, some.side).astype(np.float64)
        threshold = exact_scores(model.backbone.geometry, query, entity, some.answer)
        number, column, score = _above(model.backbone.geometry, query, entity, newcomers, threshold)
        begin, end = index.bounds(some.anchor, some.relation)
        open_to_all = ~_is_known(number, column, begin, end, index.answer)
        number, column, score = number[open_to_all], column[open_to_all], score[open_to_all]
        start = np.searchsorted(number, np.arange(len(part) + 1))
        yield Ahead(part, start, column, score)


def _above(
    geometry: Geometry, query: Floats, entity: Floats, newcomers: range, threshold: Floats
) -> tuple[Ids, Ids, Floats]:
    """(query, candidate id, score) of every newcomer above the threshold, in that order.

    A fast product decides all but the pairs within its rounding error of the threshold; those are scored
    exactly. The scores returned are the product's.
    """
    candidate = entity[newcomers.start : newcomers.stop]
    left, right = torch.from_numpy(query), torch.from_numpy(candidate)
    with np.errstate(over="ignore", invalid="ignore"):
        if geometry is Geometry.DOT:
            score = (left @ right.T).numpy()
            size = np.linalg.norm(query, axis=1) * np.linalg.norm(candidate, axis=1).max()
        else:
            score = -torch.cdist(left, right, p=1.0).numpy()
            size = np.abs(query).sum(1) + np.abs(candidate).sum(1).max()
        slack = 4 * (query.shape[1] + 4) * UNIT * size + 1e-300
        certain = score > (threshold + slack)[:, None]
        doubtful = ~certain & ~(score < (threshold - slack)[:, None])
    number, column = np.nonzero(doubtful)
    for first in range(0, len(number), _PAIRS_AT_A_TIME):
        pair = slice(first, first + _PAIRS_AT_A_TIME)
        exact = exact_scores(geometry, query[number[pair]], entity, column[pair] + newcomers.start)
        certain[number[pair], column[pair]] = exact > threshold[number[pair]]
    number, column = np.nonzero(certain)
    return number, column + newcomers.start, score[number, column]


def _is_known(
    number: Ids, candidate: Ids, begin: Ids, end: Ids, answer: Ids
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which pairs are known answers: a binary search in each pair's own slice of the index, all at once."""
    low, high = begin[number], end[number]
    if not len(answer):
        return np.zeros(len(number), dtype=bool)
    last = high.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        smaller = open_ & (answer[np.minimum(middle, len(answer) - 1)] < candidate)
        low = np.where(smaller, middle + 1, low)
        high = np.where(open_ & ~smaller, middle, high)
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = (low < last) & (
        answer[np.minimum(low, len(answer) - 1)] == candidate
    )
    return found


def _require_agreement(asked: Occurrences, query: Ids, found: Ids, counted: Ids) -> None:
    wrong = np.flatnonzero(found != counted)
    if len(wrong):
        head, relation, tail = asked.fact[query[wrong[0]]]
        raise ValueError(
            f"({head}, {relation}, {tail}), side {asked.side.label}: {found[wrong[0]]} newcomers ahead, but "
            f"the ranks say {counted[wrong[0]]}; they are not of this model, filter and tie rule"
        )
