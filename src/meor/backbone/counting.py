"""How many candidates stand above, or tie with, each answer: the inner loop of every rank."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from meor.backbone.base import Geometry
from meor.backbone.kernels import FAST
from meor.backbone.screen import (
    LANES,
    TILE_CANDIDATES,
    TILE_QUERIES,
    Array,
    Candidates,
    Questions,
    band,
    exact,
    fits_float32,
    is_known,
    sizes,
)
from meor.compiled import njit, prange
from meor.typing import Floats, Ids

GREATER, TIED_BEFORE, TIED_AFTER = 0, 1, 2


@njit(cache=True)
def _judge(is_dot, query, row, threshold, answer, candidate, column, tally):
    """Redo one undecided pair in float64 and tally it. False where the score is no number."""
    score = exact(is_dot, query, row[column])
    if score > threshold:
        tally[GREATER] += 1
    elif score == threshold:
        tally[TIED_BEFORE if candidate < answer else TIED_AFTER] += 1
    return np.isfinite(score)


@njit(cache=True, parallel=True)
def _count_unscreened(
    is_dot, query, row, begin, end, threshold, answer, known_start, known_end, known_id, tally
):
    healthy = np.ones(query.shape[0], np.bool_)
    for q in prange(query.shape[0]):
        for column in range(begin, end):
            if column == answer[q] or is_known(known_id, known_start[q], known_end[q], column):
                continue
            healthy[q] &= _judge(is_dot, query[q], row, threshold[q], answer[q], column, column, tally[q])
    return healthy


@njit(cache=True, inline="always")
def _tally_lanes(score, low, high, first, query, row, threshold, answer, tally):
    """Count a few screened scores side by side; look closer only where one of them is undecided."""
    above = np.int32(0)
    possible = np.int32(0)
    for c in range(score.shape[0]):
        above += np.int32(score[c] > high)
        possible += np.int32(score[c] >= low)
    tally[GREATER] += above
    if possible > above:
        for c in range(score.shape[0]):
            if low <= score[c] <= high:
                _judge(True, query, row, threshold, answer, first + c, first + c, tally)


@njit(cache=True, parallel=True)
def _count_dot_tile(
    score, query, row, first, threshold, low, high, answer, known_end, known_id, cursor, tally
):
    """Tally one float32 tile [Q, C] of candidates first..first+C-1."""
    n_columns = score.shape[1]
    for q in prange(score.shape[0]):
        line, lo, hi = score[q], low[q], high[q]
        if first <= answer[q] < first + n_columns:
            line[answer[q] - first] = -np.inf
        # Known answers come sorted and tiles in order, so a cursor replaces a search.
        at = cursor[q]
        while at < known_end[q] and known_id[at] < first + n_columns:
            line[known_id[at] - first] = -np.inf
            at += 1
        cursor[q] = at
        for begin in range(0, n_columns, LANES):
            _tally_lanes(
                line[begin : begin + LANES],
                lo,
                hi,
                first + begin,
                query[q],
                row,
                threshold[q],
                answer[q],
                tally[q],
            )


@njit(cache=True, fastmath=FAST, inline="always")
def _measure_block(query, block, limit, distance):
    """Float32 L1 distances of LANES candidates; False as soon as all of them are beyond `limit`."""
    width = query.shape[0]
    distance[:] = 0
    i = 0
    while i + 8 <= width:
        q0, q1, q2, q3 = query[i], query[i + 1], query[i + 2], query[i + 3]
        q4, q5, q6, q7 = query[i + 4], query[i + 5], query[i + 6], query[i + 7]
        for lane in range(LANES):
            distance[lane] += (
                (abs(q0 - block[i, lane]) + abs(q1 - block[i + 1, lane]))
                + (abs(q2 - block[i + 2, lane]) + abs(q3 - block[i + 3, lane]))
            ) + (
                (abs(q4 - block[i + 4, lane]) + abs(q5 - block[i + 5, lane]))
                + (abs(q6 - block[i + 6, lane]) + abs(q7 - block[i + 7, lane]))
            )
        i += 8
        # Distances only grow with the coordinates: a block may be given up before its end.
        if i >= width // 2 and i % 24 == 0:
            within = np.int32(0)
            for lane in range(LANES):
                within += np.int32(distance[lane] <= limit)
            if within == 0:
                return False
    for j in range(i, width):
        for lane in range(LANES):
            distance[lane] += abs(query[j] - block[j, lane])
    return True


@njit(cache=True, inline="always")
def _tally_block(
    distance,
    first,
    begin,
    end,
    query,
    row,
    threshold,
    low,
    high,
    answer,
    known_id,
    known_at,
    known_end,
    tally,
):
    """Tally one measured block of candidates first..first+LANES-1."""
    # Lanes of another range, the answer and what is known do not count.
    distance[: max(0, begin - first)] = np.inf
    distance[min(LANES, end - first) :] = np.inf
    if first <= answer < first + LANES:
        distance[answer - first] = np.inf
    while known_at < known_end and known_id[known_at] < first + LANES:
        distance[known_id[known_at] - first] = np.inf
        known_at += 1
    nearer = np.int32(0)
    possible = np.int32(0)
    for lane in range(LANES):
        nearer += np.int32(distance[lane] < low)
        possible += np.int32(distance[lane] <= high)
    tally[GREATER] += nearer
    if possible == nearer:
        return
    for lane in range(LANES):
        if low <= distance[lane] <= high:
            _judge(False, query, row, threshold, answer, first + lane, first + lane, tally)


@njit(cache=True, parallel=True)
def _count_l1(
    blocks,
    narrow,
    query,
    row,
    begin,
    end,
    threshold,
    low,
    high,
    answer,
    known_start,
    known_end,
    known_id,
    tally,
):
    """Tally candidates begin..end-1 for a few queries a task: a block of lanes stays in cache meanwhile."""
    group = 16
    n_queries = query.shape[0]
    for g in prange(-(-n_queries // group)):
        distance = np.empty(LANES, np.float32)
        cursor = np.empty(group, np.int64)
        for q in range(g * group, min((g + 1) * group, n_queries)):
            cursor[q - g * group] = known_start[q]
        for b in range(begin // LANES, -(-end // LANES)):
            first = b * LANES
            for q in range(g * group, min((g + 1) * group, n_queries)):
                at = cursor[q - g * group]
                while at < known_end[q] and known_id[at] < first:
                    at += 1
                cursor[q - g * group] = at
                if _measure_block(narrow[q], blocks[b], high[q], distance):
                    _tally_block(
                        distance,
                        first,
                        begin,
                        end,
                        query[q],
                        row,
                        threshold[q],
                        low[q],
                        high[q],
                        answer[q],
                        known_id,
                        at,
                        known_end[q],
                        tally[q],
                    )


def count_range(
    candidates: Candidates, questions: Questions, threshold: Floats, begin: int, end: int
) -> tuple[Ids, NDArray[np.bool_] | None]:
    """[Q, 3] how many candidates of begin..end-1 are greater, tied before, tied after the answer.

    `threshold` is the answer's exact score. The second value is None, or says for each query whether all
    of its scores were finite (known beforehand where rows are moderate).
    """
    tally = np.zeros((len(questions), 3), np.int64)
    if end <= begin or not len(questions):
        return tally, None
    known = questions.known_start, questions.known_end, questions.known_id
    is_dot = candidates.geometry is Geometry.DOT
    if candidates.screened is None or not fits_float32(questions.query):
        healthy = _count_unscreened(
            is_dot, questions.query, candidates.row, begin, end, threshold, questions.answer, *known, tally
        )
        return tally, healthy
    low, high = band(candidates, sizes(candidates.geometry, questions.query), threshold, begin, end)
    if is_dot:
        _count_dot(candidates, questions, threshold, low, high, begin, end, tally)
    else:
        narrow = questions.query.astype(np.float32)
        _count_l1(
            candidates.screened,
            narrow,
            questions.query,
            candidates.row,
            begin,
            end,
            threshold,
            low,
            high,
            questions.answer,
            *known,
            tally,
        )
    return tally, None


def _count_dot(
    candidates: Candidates,
    questions: Questions,
    threshold: Floats,
    low: Array,
    high: Array,
    begin: int,
    end: int,
    tally: Ids,
) -> None:
    screened = candidates.screened
    assert isinstance(screened, torch.Tensor)  # noqa: S101  (what `prepare` made for DOT)
    narrow = torch.from_numpy(questions.query.astype(np.float32))
    buffer = torch.empty(min(TILE_QUERIES, len(questions)) * min(TILE_CANDIDATES, end - begin))
    # Cursors start at the first known answer of the range.
    for row in range(0, len(questions), TILE_QUERIES):
        part = slice(row, min(row + TILE_QUERIES, len(questions)))
        cursor = _first_known(
            questions.known_start[part], questions.known_end[part], questions.known_id, begin
        )
        for first in range(begin, end, TILE_CANDIDATES):
            last = min(first + TILE_CANDIDATES, end)
            shape = part.stop - part.start, last - first
            tile = buffer[: shape[0] * shape[1]].view(shape)
            torch.mm(narrow[part], screened[first:last].T, out=tile)
            _count_dot_tile(
                tile.numpy(),
                questions.query[part],
                candidates.row,
                first,
                threshold[part],
                low[part],
                high[part],
                questions.answer[part],
                questions.known_end[part],
                questions.known_id,
                cursor,
                tally[part],
            )


@njit(cache=True)
def _first_known(known_start, known_end, known_id, begin):
    cursor = np.empty_like(known_start)
    for q in range(known_start.shape[0]):
        cursor[q] = known_start[q] + np.searchsorted(known_id[known_start[q] : known_end[q]], begin)
    return cursor
