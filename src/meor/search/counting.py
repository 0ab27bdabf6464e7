"""How many candidates stand above, or tie with, each answer: the inner loop of every rank.

Queries and candidates are screened, inner products in float32 and L1 distances in bytes; pairs that this
cannot decide are scored again by `exact.exact`. For a backbone without a geometry all scores are computed
(`_count_tiles`).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meor.backbone.base import Backbone, Geometry
from meor.compiled import kernel, kernel_part, share
from meor.search.byte_rows import LANES, ByteRows, sums_of_bytes
from meor.search.dot_tiles import DotTiles, leave_out
from meor.search.exact import Array, exact, first_from, is_known, tiles
from meor.search.queries import Queries
from meor.search.screen import Candidates, band
from meor.typing import Ids

GREATER, TIED_BEFORE, TIED_AFTER = 0, 1, 2
GROUP = 16  # queries that walk the blocks of an L1 universe together: a block stays in cache meanwhile
NEVER = 2**40  # steps away, which no candidate is


class Universe(NamedTuple):
    """A range of candidates as kernels see it."""

    row: Array  # [E, W], all of them
    begin: int
    end: int


class Band(NamedTuple):
    """Screened scores below `low` or above `high` are decided; in the same way distances in steps."""

    low: Array  # [Q] float32, or integers
    high: Array


def count_range(
    candidates: Candidates, queries: Queries, begin: int, end: int
) -> tuple[Ids, NDArray[np.bool_] | None]:
    """[Q, 3] how many candidates of begin..end-1 are greater, tied before, tied after the answer.

    The second value is None, or says for each query whether all of its scores were finite (known beforehand
    where rows are moderate).
    """
    tally = np.zeros((len(queries), 3), np.int64)
    if end <= begin or not len(queries):
        return tally, None
    if isinstance(candidates.scoring, Backbone):
        return tally, _count_tiles(candidates.scoring, candidates.row[begin:end], queries, begin, tally)
    universe = Universe(candidates.row, begin, end)
    is_dot = candidates.scoring is Geometry.DOT
    if candidates.screened is None or queries.screened is None:
        healthy = np.ones(len(queries), np.bool_)
        share(_count_unscreened, len(queries), is_dot, queries.asked, universe, tally, healthy)
        return tally, healthy
    if isinstance(candidates.screened, ByteRows):
        _count_bytes(candidates, candidates.screened, queries, universe, tally)
    else:
        bounds = Band(*band(candidates, queries.size, queries.threshold, begin, end))
        _count_dot(candidates, queries, universe, bounds, tally)
    return tally, None


def _count_tiles(
    backbone: Backbone, row: Array, queries: Queries, begin: int, tally: Ids
) -> NDArray[np.bool_]:
    """Count by any score function: every score is computed."""
    healthy = np.ones(len(queries), np.bool_)
    for own, part, score in tiles(backbone, queries.row.take(queries.place, 0), row):
        # A tile is too little work to share.
        _count_scores(0, len(score), own.start, begin + part.start, score, queries.asked, tally, healthy)
    return healthy


def _count_dot(
    candidates: Candidates, queries: Queries, universe: Universe, bounds: Band, tally: Ids
) -> None:
    walk = DotTiles.of(candidates, queries, universe.begin, universe.end)
    for query, first, tile in walk:
        found = universe.row, bounds, walk.cursor, tally
        share(_count_dot_tile, len(tile), query, first, tile, queries.asked, *found)


def _count_bytes(
    candidates: Candidates, rows: ByteRows, queries: Queries, universe: Universe, tally: Ids
) -> None:
    words, error = rows.words_of(queries.row, queries.place)
    largest, needed = candidates.size[universe.begin : universe.end].max(), -queries.threshold
    slack = rows.slack(error, queries.size, largest, needed)
    low, high = (needed - slack) / rows.grid.step, (needed + slack) / rows.grid.step
    limit = float(NEVER - 1)
    bounds = Band(*(np.clip(edge, -1, limit).astype(np.int64) for edge in (np.floor(low), np.ceil(high))))
    groups = -(-len(queries) // GROUP)
    share(_count_l1, groups, rows.byte, words, queries.asked, universe, bounds, tally)


@kernel_part
def judge(is_dot, query, row, threshold, answer, candidate, tally):
    """Redo one undecided pair in float64 and tally it. False if the score is not finite."""
    score = exact(is_dot, query, row)
    if score > threshold:
        tally[GREATER] += 1
    elif score == threshold:
        tally[TIED_BEFORE if candidate < answer else TIED_AFTER] += 1
    return np.isfinite(score)


@kernel
def _count_unscreened(begin, end, is_dot, asked, universe, tally, healthy):
    for q in range(begin, end):
        query, answer = asked.row[asked.place[q]], asked.answer[q]
        for e in range(universe.begin, universe.end):
            if e == answer or is_known(asked.known_id, asked.known_start[q], asked.known_end[q], e):
                continue
            healthy[q] &= judge(is_dot, query, universe.row[e], asked.threshold[q], answer, e, tally[q])


@kernel
def _count_scores(begin, end, query, first, tile, asked, tally, healthy):
    """Tally a tile [Q, C] of scores of queries query.. against candidates first..first+C-1."""
    for line in range(begin, end):
        q = query + line
        answer, threshold = asked.answer[q], asked.threshold[q]
        known, last = asked.known_start[q], asked.known_end[q]
        known += np.searchsorted(asked.known_id[known:last], first)
        for column in range(tile.shape[1]):
            candidate, score = first + column, tile[line, column]
            known = first_from(asked.known_id, known, last, candidate)
            if candidate == answer or (known < last and asked.known_id[known] == candidate):
                continue
            healthy[q] &= np.isfinite(score)
            if score > threshold:
                tally[q, GREATER] += 1
            elif score == threshold:
                tally[q, TIED_BEFORE if candidate < answer else TIED_AFTER] += 1


@kernel_part
def _tally_lanes(score, low, high, first, query, row, threshold, answer, tally):
    """Count a few screened scores side by side; look closer only where one of them is undecided."""
    above = possible = np.int32(0)
    for c in range(score.shape[0]):
        above += np.int32(score[c] > high)
        possible += np.int32(score[c] >= low)
    tally[GREATER] += above
    if possible > above:
        for c in range(score.shape[0]):
            if low <= score[c] <= high:
                judge(True, query, row[first + c], threshold, answer, first + c, tally)


@kernel
def _count_dot_tile(begin, end, query, first, tile, asked, row, bounds, cursor, tally):
    """Tally one float32 tile [Q, C] of queries query.. against candidates first..first+C-1."""
    n_columns = tile.shape[1]
    for line_number in range(begin, end):
        line, q = tile[line_number], query + line_number
        leave_out(line, q, first, asked, cursor)
        answer = asked.answer[q]
        own, threshold = asked.row[asked.place[q]], asked.threshold[q]
        low, high = bounds.low[q], bounds.high[q]
        for lane in range(0, n_columns, LANES):
            some = line[lane : lane + LANES]
            _tally_lanes(some, low, high, first + lane, own, row, threshold, answer, tally[q])


@kernel_part
def _blank(total, first, begin, end, answer):
    """Lanes of another range and the answer do not count."""
    if first < begin or first + LANES > end:
        total[: max(0, begin - first)] = NEVER
        total[min(LANES, end - first) :] = NEVER
    if first <= answer < first + LANES:
        total[answer - first] = NEVER


@kernel
def _count_l1(begin, end, blocks, words, asked, universe, bounds, tally):
    """Tally a universe for groups begin..end-1 of queries."""
    # Arrays are taken out of their tuples here: inside the loops that would take longer than a block.
    row_EW, low_Q, high_Q, answer_Q = universe.row, bounds.low, bounds.high, asked.answer
    known_id, known_end, cursor = asked.known_id, asked.known_end, asked.known_start.copy()
    total = np.empty(LANES, np.int64)
    for group in range(begin, end):
        last = min((group + 1) * GROUP, words.shape[0])
        for b in range(universe.begin // LANES, -(-universe.end // LANES)):
            first = b * LANES
            for q in range(group * GROUP, last):
                sums_of_bytes(words[q], blocks[b], total)
                _blank(total, first, universe.begin, universe.end, answer_Q[q])
                while cursor[q] < known_end[q] and known_id[cursor[q]] < first + LANES:
                    if known_id[cursor[q]] >= first:
                        total[known_id[cursor[q]] - first] = NEVER
                    cursor[q] += 1
                low, high, nearer, possible = low_Q[q], high_Q[q], 0, 0
                for lane in range(LANES):
                    nearer += total[lane] < low
                    possible += total[lane] <= high
                tally[q, GREATER] += nearer
                if possible > nearer:
                    _judge_lanes(total, low, high, first, q, asked, row_EW, tally[q])


@kernel_part
def _judge_lanes(total, low, high, first, q, asked, row, tally):
    query, threshold, answer = asked.row[asked.place[q]], asked.threshold[q], asked.answer[q]
    for lane in range(LANES):
        if low <= total[lane] <= high:
            judge(False, query, row[first + lane], threshold, answer, first + lane, tally)
