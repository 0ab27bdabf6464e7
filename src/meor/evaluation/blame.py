"""Which newcomers stand ahead of each displaced answer, and what each newcomer costs in total.

Membership is decided by the exact scores that ranks are counted from, so a query's list has exactly
`cur - old` entries. Only displaced queries are scored, in blocks that fit the byte budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from meor.backbone.base import Model
from meor.evaluation.displacement import Displaced
from meor.evaluation.rank import PAPER, Ranks, Rules
from meor.evaluation.tally import DEFAULT_MEMORY, queries_of, tile_slices, wide_rows
from meor.search.outrankers import Outrankers, outrankers
from meor.search.screen import Candidates
from meor.stream.occurrence import EvaluationFilter, Occurrences
from meor.stream.snapshot import Stream
from meor.typing import Floats, Ids, Role

_BYTES_A_PAIR = 72  # a query and a newcomer ahead of it: ids, score, charge, their order, and their copies
_LARGEST_BLOCK = 4096  # queries
_ENOUGH = 2**26  # bytes of pairs: more of them at a time would not be faster


@dataclass(frozen=True, slots=True)
class Blame:
    """What each newcomer of an update did to the historical answers of one side."""

    update: int
    first: int  # id of the first newcomer
    displaced: Ids  # [N] answers it stands ahead of
    charge: Floats  # [N] its share of their lost reciprocal rank, split evenly among those ahead
    dearest: Ids  # [N] row of the ranks in which that share is largest, the first of equals; -1: none


@dataclass(frozen=True, slots=True)
class Ahead:
    """Newcomers ahead of the answers of some queries: those of query i are `id[start[i]:start[i+1]]`."""

    query: Ids  # rows of the occurrences
    start: Ids
    id: Ids
    score: Floats


def blame(
    stream: Stream, model: Model, ranks: Ranks, *, rules: Rules = PAPER, memory: int = DEFAULT_MEMORY
) -> Blame:
    """Count, for every newcomer of the update, the historical answers it displaces.

    `ranks` must be those of this model, with ties by id and the same filter.
    """
    update = ranks.occurrences.update
    newcomers = stream.newcomers(update)
    displaced = np.zeros(len(newcomers), dtype=np.int64)
    charge = np.zeros(len(newcomers))
    dearest = np.full(len(newcomers), -1, dtype=np.int64)
    largest = np.zeros(len(newcomers))
    lost = np.flatnonzero((ranks.occurrences.role == Role.HISTORICAL) & (ranks.cur > ranks.old))
    chosen = ranks.select(lost)
    asked = chosen.occurrences
    share = (1 / chosen.old - 1 / chosen.cur) / (chosen.cur - chosen.old)
    for rows, known in rules.filters(stream, asked):
        for found in newcomers_ahead(model, asked, known, newcomers, rows=rows, memory=memory):
            size = np.diff(found.start)
            _require_agreement(asked, found.query, size, (chosen.cur - chosen.old)[found.query])
            # add.at adds one by one in order: how queries are cut into blocks cannot change a bit.
            ids, shares = found.id - newcomers.start, np.repeat(share[found.query], size)
            np.add.at(displaced, ids, 1)
            np.add.at(charge, ids, shares)
            _keep_largest(largest, dearest, ids, shares, np.repeat(lost[found.query], size))
    return Blame(update, newcomers.start, displaced, charge, dearest)


def _keep_largest(largest: Floats, dearest: Ids, ids: Ids, shares: Floats, rows: Ids) -> None:
    """Remember the row of each newcomer's largest share; of equal shares the first row."""
    order = np.lexsort((-rows, shares))  # what is assigned last stays
    here, row = np.zeros_like(largest), np.full_like(dearest, -1)
    here[ids[order]], row[ids[order]] = shares[order], rows[order]
    better = (here > largest) | ((here == largest) & (row >= 0) & (row < dearest))
    largest[better], dearest[better] = here[better], row[better]


def name_newcomers(
    stream: Stream,
    model: Model,
    worst: Sequence[Displaced],
    *,
    rules: Rules = PAPER,
    limit: int | None = None,
) -> tuple[Displaced, ...]:
    """The same answers with the newcomers ahead of them, highest score first, at most `limit` each.

    All of `worst` must be of the update whose model is given.
    """
    named = list(worst)
    for side in {each.side for each in worst}:
        place = [index for index, each in enumerate(worst) if each.side is side]
        asked = _as_occurrences([worst[index] for index in place])
        for rows, known in rules.filters(stream, asked):
            for found in newcomers_ahead(model, asked, known, stream.newcomers(asked.update), rows=rows):
                for query, (begin, end) in zip(found.query, pairwise(found.start), strict=True):
                    order = begin + np.lexsort((found.id[begin:end], -found.score[begin:end]))[:limit]
                    ids = tuple(int(e) for e in found.id[order])
                    named[place[query]] = replace(named[place[query]], newcomers=ids)
    return tuple(named)


def _as_occurrences(chosen: Sequence[Displaced]) -> Occurrences:
    return Occurrences(
        chosen[0].update,
        chosen[0].side,
        np.array([each.fact for each in chosen], dtype=np.int64),
        np.array([each.snapshot for each in chosen], dtype=np.int64),
        np.full(len(chosen), Role.HISTORICAL, dtype=np.int8),
    )


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
    slices = list(tile_slices(model, newcomers.start, newcomers.stop))
    kept = list(_prepared(model, slices)) if len(slices) == 1 else None
    block = int(np.clip(min(memory, _ENOUGH) // (_BYTES_A_PAIR * len(newcomers)), 1, _LARGEST_BLOCK))
    for first in range(0, len(chosen), block):
        part = chosen[first : first + block]
        queries = queries_of(model, asked.select(part), known, coarse=True)
        tiles = kept or _prepared(model, slices)
        ahead = Outrankers.of_tiles(
            [(tile.start, outrankers(rows, queries, offset=tile.start)) for tile, rows in tiles]
        )
        yield Ahead(part, ahead.start, ahead.column, ahead.score)


def _prepared(model: Model, slices: Sequence[slice]) -> Iterator[tuple[slice, Candidates]]:
    for tile in slices:
        yield tile, Candidates.prepare(model.backbone.scoring, wide_rows(model, tile), coarse=True)


def _require_agreement(asked: Occurrences, query: Ids, found: Ids, counted: Ids) -> None:
    wrong = np.flatnonzero(found != counted)
    if len(wrong):
        head, relation, tail = asked.fact[query[wrong[0]]]
        raise ValueError(
            f"({head}, {relation}, {tail}), side {asked.side.label}: {found[wrong[0]]} newcomers ahead, but "
            f"the ranks say {counted[wrong[0]]}; they are not of this model, filter and tie rule"
        )
