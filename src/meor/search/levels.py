"""How many candidates precede each answer at every scale of some rows, from one look at their scores.

Scores are inner products. Where the rows of either the candidates or the answer are multiplied by s > 0, a
candidate with score x precedes an answer with score t

    iff s x > t  (the candidate is scaled),     iff x >= s t  (the answer is scaled)

(whoever is not scaled has the smaller id, which decides a tie). So every scale is an *edge* that a score must
pass, t / s or s t, and all that a candidate needs is its *level*: the number of edges below its score. Levels
are read off float32 scores, in the band that `screen` explains; next to an edge the score is computed in
float64, and compared as it is written above.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meor.compiled import kernel, share
from meor.search.byte_rows import LANES
from meor.search.counting import Universe
from meor.search.dot_tiles import DotTiles, leave_out
from meor.search.exact import Array, exact, is_known
from meor.search.queries import Queries
from meor.search.screen import Candidates, band, narrow_towards
from meor.typing import Floats, Ids


class Edges(NamedTuple):
    """The scales as edges, the lowest edge of a query first."""

    scale: Floats  # [K], ascending
    of_candidate: bool  # whose rows are scaled: those of candidates, or the answer's
    falls: Array  # [Q] does the edge fall as the scale rises?
    low: Array  # [Q, K] float32: a score below it has not passed the edge
    high: Array  # [Q, K] float32: a score above it has


def count_levels(
    candidates: Candidates, queries: Queries, scale: Floats, begin: int, end: int, *, of_candidate: bool
) -> tuple[Ids, NDArray[np.bool_] | None]:
    """[Q, K] how many candidates of begin..end-1 precede the answer at each of K ascending scales.

    Candidates and answers must lie on different sides of what is scaled. The second value is None, or says
    for each query whether all of its scores were finite, as in `counting.count_range`.
    """
    at_level = np.zeros((len(queries), len(scale) + 1), np.int64)
    healthy = None
    if end > begin and len(queries):
        universe = Universe(candidates.row, begin, end)
        if candidates.screened is None or queries.screened is None:
            edges = _edges(queries, scale, of_candidate, np.zeros(len(queries)))
            healthy = np.ones(len(queries), np.bool_)
            share(_count_unscreened, len(queries), queries.asked, universe, edges, at_level, healthy)
        else:
            low, high = band(candidates, queries.size, np.zeros(len(queries)), begin, end)
            edges = _edges(queries, scale, of_candidate, np.maximum(high, -low).astype(np.float64))
            walk = DotTiles.of(candidates, queries, begin, end)
            for query, first, tile in walk:
                found = universe.row, edges, walk.cursor, at_level
                share(_count_tile, len(tile), query, first, tile, queries.asked, *found)
    # Past an edge are all levels above it.
    passed = at_level[:, :0:-1].cumsum(1)[:, ::-1]
    falls = _falls(queries.threshold, of_candidate)
    passed[falls] = passed[falls, ::-1]
    return passed, healthy


def _falls(threshold: Floats, of_candidate: bool) -> NDArray[np.bool_]:
    return np.asarray(threshold > 0 if of_candidate else threshold < 0)


def _edges(queries: Queries, scale: Floats, of_candidate: bool, slack: Floats) -> Edges:
    answer_Q1, falls = queries.threshold[:, None], _falls(queries.threshold, of_candidate)
    edge_QK = answer_Q1 / scale if of_candidate else answer_Q1 * scale
    edge_QK[falls] = edge_QK[falls, ::-1]
    low, high = edge_QK - slack[:, None], edge_QK + slack[:, None]
    with np.errstate(over="ignore"):  # unscreened rows have no place in float32, and need none
        narrow = narrow_towards(low, -np.inf), narrow_towards(high, np.inf)
    return Edges(scale, of_candidate, falls, *narrow)


@kernel
def _passes(score, threshold, scale, of_candidate):
    """Does a candidate precede the answer at a scale? `score` and `threshold` are those of unscaled rows."""
    return scale * score > threshold if of_candidate else score >= scale * threshold


@kernel
def _climb(level, limit, score, threshold, edges, falls):
    """The edges that an exact score passes, tried one by one from `level` and before `limit`."""
    last = edges.scale.shape[0] - 1
    while level < limit:
        scale = edges.scale[last - level if falls else level]
        if not _passes(score, threshold, scale, edges.of_candidate):
            break
        level += 1
    return level


@kernel
def _level(screened, q, candidate, asked, row, edges):
    low, high = edges.low[q], edges.high[q]
    n_edges = low.shape[0]
    level, beyond = 0, n_edges
    while level < beyond:  # how many edges are passed for certain
        middle = (level + beyond) // 2
        if high[middle] < screened:
            level = middle + 1
        else:
            beyond = middle
    limit = level
    while limit < n_edges and low[limit] <= screened:
        limit += 1
    if limit == level:
        return level
    score = exact(True, asked.row[asked.place[q]], row[candidate])
    return _climb(level, limit, score, asked.threshold[q], edges, edges.falls[q])


@kernel
def _count_tile(begin, end, query, first, tile, asked, row, edges, cursor, at_level):
    """Levels of one float32 tile [Q, C] of queries query.. against candidates first..first+C-1."""
    last = edges.low.shape[1] - 1
    for line_number in range(begin, end):
        line, q = tile[line_number], query + line_number
        leave_out(line, q, first, asked, cursor)
        lowest, highest = edges.low[q, 0], edges.high[q, last]
        for lane in range(0, tile.shape[1], LANES):
            some = line[lane : lane + LANES]
            above = possible = np.int32(0)
            for c in range(some.shape[0]):
                above += np.int32(some[c] > highest)
                possible += np.int32(some[c] >= lowest)
            at_level[q, last + 1] += above
            if possible > above:
                for c in range(some.shape[0]):
                    if lowest <= some[c] <= highest:
                        at_level[q, _level(some[c], q, first + lane + c, asked, row, edges)] += 1


@kernel
def _count_unscreened(begin, end, asked, universe, edges, at_level, healthy):
    n_edges = edges.scale.shape[0]
    for q in range(begin, end):
        query, threshold = asked.row[asked.place[q]], asked.threshold[q]
        for e in range(universe.begin, universe.end):
            if e == asked.answer[q] or is_known(asked.known_id, asked.known_start[q], asked.known_end[q], e):
                continue
            score = exact(True, query, universe.row[e])
            healthy[q] &= np.isfinite(score)
            at_level[q, _climb(0, n_edges, score, threshold, edges, edges.falls[q])] += 1
