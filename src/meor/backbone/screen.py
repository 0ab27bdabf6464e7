"""Who scores above a threshold: exact float64 answers at float32 speed.

The score of a pair is *defined* as a float64 sum in one fixed order (`_exact_dot`, `_exact_distance`), so
it depends on the two rows alone, never on a tile's shape. Float32 only screens. With u = 2**-24 and any
order of summation,

    |fl32(q.e) - q.e| <= ((W + 4)u / (1 - (W + 4)u)) |q| |e|            (rounded inputs, products, sums)
    |fl32(d) - d|     <= u (|q|_1 + |e|_1) + (W + 4)u d                  (L1 distance)

so a screened score further than that band from the threshold is decided, and the few that are not are
redone in float64. Rows too large or too small for float32 are not screened at all.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray

from meor.backbone.base import Geometry
from meor.backbone.kernels import FAST
from meor.typing import Floats, Ids

Array = NDArray[Any]

UNIT32: Final = 2.0**-24
LARGEST: Final = 2.0**60  # products and their sums stay far from float32's overflow
SMALLEST: Final = 2.0**-60  # and a row of non-zero norm far from its underflow
LANES: Final = 64  # candidates that one L1 block measures side by side
TILE_QUERIES: Final = 512
TILE_CANDIDATES: Final = 2048

GREATER, TIED_BEFORE, TIED_AFTER = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Questions:
    """Queries against a universe: their rows, the answer each is about, and what must not count.

    `known_id[known_start:known_end]` are a query's known answers, sorted; they are no competitors.
    """

    query: Floats  # [Q, W]
    answer: Ids
    known_start: Ids
    known_end: Ids
    known_id: Ids

    def __len__(self) -> int:
        return len(self.query)

    def block(self, begin: int, end: int) -> Questions:
        part = slice(begin, end)
        return Questions(
            self.query[part], self.answer[part], self.known_start[part], self.known_end[part], self.known_id
        )


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rows of a universe, prepared once for many queries."""

    geometry: Geometry
    row: Floats  # [E, W] float64
    screened: torch.Tensor | Array | None  # float32: [W, E] for DOT, [blocks, W, LANES] for L1
    size: Floats  # [E] L2 norm (DOT) or L1 norm (L1)

    @classmethod
    def prepare(cls, geometry: Geometry, row: Array, *, screen: bool = True) -> Candidates:
        row = np.ascontiguousarray(row, dtype=np.float64)
        size = _sizes(geometry, row)
        if not (screen and len(row) and _fits_float32(row)):
            return cls(geometry, row, None, size)
        if geometry is Geometry.DOT:
            return cls(geometry, row, torch.from_numpy(row.astype(np.float32)).T.contiguous(), size)
        return cls(geometry, row, _lanes(row), size)


def _sizes(geometry: Geometry, row: Array) -> Floats:
    # A hair is added because the norms themselves are rounded.
    if geometry is Geometry.DOT:
        return np.sqrt(np.einsum("ij,ij->i", row, row)) * (1 + 1e-12)
    return np.abs(row).sum(1) * (1 + 1e-12)


def _fits_float32(row: Array) -> bool:
    largest = np.abs(row).max(initial=0.0)
    return bool(largest < LARGEST and (largest == 0 or largest > SMALLEST))


def _lanes(row: Array) -> Array:
    """[blocks, W, LANES] float32, padded with rows at infinity, so that lanes are read side by side."""
    n_blocks = -(-len(row) // LANES)
    padded = np.full((n_blocks * LANES, row.shape[1]), np.inf, np.float32)
    padded[: len(row)] = row
    return np.ascontiguousarray(padded.reshape(n_blocks, LANES, -1).transpose(0, 2, 1))


@njit(cache=True, fastmath=FAST)
def _exact_dot(query, row):
    total = 0.0
    for i in range(query.shape[0]):
        total += query[i] * row[i]
    return total


@njit(cache=True, fastmath=FAST)
def _exact_distance(query, row):
    total = 0.0
    for i in range(query.shape[0]):
        total += abs(query[i] - row[i])
    return total


@njit(cache=True)
def _exact(is_dot, query, row):
    """The score of a pair, up to TransE's constant."""
    return _exact_dot(query, row) if is_dot else -_exact_distance(query, row)


@njit(cache=True, parallel=True)
def _exact_pairs(is_dot, query, row, column, score):
    for q in prange(query.shape[0]):
        score[q] = _exact(is_dot, query[q], row[column[q]])


def exact_scores(geometry: Geometry, query: Array, row: Array, column: Ids) -> Floats:
    """Defined float64 scores (TransE: minus the distance) of each query against its own candidate."""
    score = np.empty(len(query), np.float64)
    _exact_pairs(geometry is Geometry.DOT, query, row, column, score)
    return score


@njit(cache=True)
def _is_known(known_id, begin, end, candidate):
    while begin < end:
        middle = (begin + end) // 2
        if known_id[middle] < candidate:
            begin = middle + 1
        elif known_id[middle] > candidate:
            end = middle
        else:
            return True
    return False


@njit(cache=True)
def _judge(is_dot, query, row, threshold, answer, candidate, column, tally):
    """Redo one undecided pair in float64 and tally it. False where the score is no number."""
    score = _exact(is_dot, query, row[column])
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
            if column == answer[q] or _is_known(known_id, known_start[q], known_end[q], column):
                continue
            healthy[q] &= _judge(is_dot, query[q], row, threshold[q], answer[q], column, column, tally[q])
    return healthy


@njit(cache=True, parallel=True)
def _count_dot_tile(
    score, query, row, first, threshold, low, high, answer, known_start, known_end, known_id, cursor, tally
):
    """Tally one float32 tile [Q, C] of candidates first..first+C-1."""
    n_columns = score.shape[1]
    for q in prange(score.shape[0]):
        line, lo, hi = score[q], low[q], high[q]
        above = np.int32(0)
        possible = np.int32(0)
        for c in range(n_columns):
            above += np.int32(line[c] > hi)
            possible += np.int32(line[c] >= lo)
        # Known answers come sorted and tiles in order, so a cursor replaces a search.
        at = cursor[q]
        while at < known_end[q] and known_id[at] < first + n_columns:
            c = known_id[at] - first
            if known_id[at] != answer[q]:
                above -= np.int32(line[c] > hi)
                possible -= np.int32(line[c] >= lo)
            at += 1
        begin, cursor[q] = cursor[q], at
        own = first <= answer[q] < first + n_columns
        if own:
            above -= np.int32(line[answer[q] - first] > hi)
            possible -= np.int32(line[answer[q] - first] >= lo)
        tally[q, GREATER] += above
        if possible == above:
            continue
        for c in range(n_columns):
            if lo <= line[c] <= hi:
                candidate = first + c
                if candidate != answer[q] and not _is_known(known_id, begin, at, candidate):
                    _judge(True, query[q], row, threshold[q], answer[q], candidate, candidate, tally[q])


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
        if i % 40 == 0:
            nearest = distance[0]
            for lane in range(LANES):
                nearest = min(nearest, distance[lane])
            if nearest > limit:
                return False
    for j in range(i, width):
        for lane in range(LANES):
            distance[lane] += abs(query[j] - block[j, lane])
    return True


@njit(cache=True, parallel=True)
def _count_l1(
    blocks, narrow, query, row, begin, end, threshold, low, high, answer, known_start, known_end, known_id, tally
):
    """Tally candidates begin..end-1 for a few queries a task: a block of lanes stays in cache meanwhile."""
    group = 16
    n_queries = query.shape[0]
    for g in prange(-(-n_queries // group)):
        distance = np.empty(LANES, np.float32)
        for b in range(begin // LANES, -(-end // LANES)):
            for q in range(g * group, min((g + 1) * group, n_queries)):
                if not _measure_block(narrow[q], blocks[b], high[q], distance):
                    continue
                for lane in range(LANES):
                    if distance[lane] > high[q]:
                        continue
                    candidate = b * LANES + lane
                    if candidate < begin or candidate >= end or candidate == answer[q]:
                        continue
                    if _is_known(known_id, known_start[q], known_end[q], candidate):
                        continue
                    if distance[lane] < low[q]:
                        tally[q, GREATER] += 1
                    else:
                        _judge(False, query[q], row, threshold[q], answer[q], candidate, candidate, tally[q])


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
    if candidates.screened is None or not _fits_float32(questions.query):
        healthy = _count_unscreened(
            is_dot, questions.query, candidates.row, begin, end, threshold, questions.answer, *known, tally
        )
        return tally, healthy
    low, high = _band(candidates, questions.query, threshold, begin, end)
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


def _band(
    candidates: Candidates, query: Array, threshold: Floats, begin: int, end: int
) -> tuple[Array, Array]:
    """Screened scores below `low` or above `high` are decided. For L1 both bound the distance instead."""
    width = query.shape[1]
    size = _sizes(candidates.geometry, query)
    largest = candidates.size[begin:end].max()
    roundings = (width + 4) * UNIT32
    relative = roundings / (1 - roundings)
    underflow = 2.0**-120 * (width + size + largest)
    if candidates.geometry is Geometry.DOT:
        slack = relative * size * largest + underflow
        centre = threshold
    else:
        centre = -threshold
        slack = UNIT32 * 1.01 * (size + largest) + 2 * relative * centre + underflow
    return _narrow(centre - slack, -np.inf), _narrow(centre + slack, np.inf)


def _narrow(value: Floats, towards: float) -> Array:
    """To float32, rounded outwards so that the band only widens."""
    return np.nextafter(value.astype(np.float32), np.float32(towards))


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
        cursor = _first_known(questions.known_start[part], questions.known_end[part], questions.known_id, begin)
        for first in range(begin, end, TILE_CANDIDATES):
            last = min(first + TILE_CANDIDATES, end)
            shape = part.stop - part.start, last - first
            tile = buffer[: shape[0] * shape[1]].view(shape)
            torch.mm(narrow[part], screened[:, first:last], out=tile)
            _count_dot_tile(
                tile.numpy(),
                questions.query[part],
                candidates.row,
                first,
                threshold[part],
                low[part],
                high[part],
                questions.answer[part],
                questions.known_start[part],
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
