"""Very large admissions: newcomers in balls, and whole balls skipped that provably cannot outrank.

With centre c and radius r of a ball, q.e <= q.c + |q| r for every member e, and for L1 distances
d(q, e) >= d(q, c) - r. Membership is fixed once; centres and radii are those of the present rows, so the
bounds hold however the rows have moved. What is left is scored exactly, so pruning changes no result.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from meor.backbone.base import Geometry
from meor.backbone.kernels import FAST
from meor.backbone.outrankers import Outrankers, outrankers
from meor.backbone.screen import Array, Candidates, exact, is_known
from meor.random import generator
from meor.typing import Floats, Ids

LEAF = 64
"""Members of a ball at most."""

_SLACK = 1e-9  # far above the rounding of centres, radii and norms, far below any gap that matters


@dataclass(frozen=True, slots=True)
class Clusters:
    """A partition of rows: ball k has the rows `member[start[k]:start[k + 1]]`."""

    start: Ids
    member: Ids

    @classmethod
    def build(cls, row: Array, *, leaf: int = LEAF) -> Clusters:
        """Halve again and again, along the line between two rows of each part, down to small balls."""
        order = np.arange(len(row))
        levels = max(0, math.ceil(math.log2(max(len(row), 1) / leaf)))
        bounds = np.array([0, len(row)])
        for level in range(levels):
            pick = generator("clusters", level).random((len(bounds) - 1, 2))
            size = np.diff(bounds)
            pivot = order[
                bounds[:-1, None] + np.minimum((pick * size[:, None]).astype(np.int64), size[:, None] - 1)
            ]
            part = np.repeat(np.arange(len(size)), size)
            along = np.empty(len(row))
            _project(row, order, part, pivot, along)
            order = order[np.lexsort((along, part))]
            bounds = np.unique(np.concatenate([bounds, bounds[:-1] + size // 2]))
        return cls(bounds.astype(np.int64), order)

    def __len__(self) -> int:
        return len(self.start) - 1


@njit(cache=True, parallel=True, fastmath=FAST)
def _project(row, order, part, pivot, along):
    for at in prange(order.shape[0]):
        own = row[order[at]]
        first, second = row[pivot[part[at], 0]], row[pivot[part[at], 1]]
        total = 0.0
        for i in range(own.shape[0]):
            total += own[i] * (first[i] - second[i])
        along[at] = total


@njit(cache=True, parallel=True, fastmath=FAST)
def _balls(is_dot, row, start, member, centre, radius):
    """Mean and radius (L2, or L1) of the present rows of every ball."""
    for k in prange(start.shape[0] - 1):
        own = centre[k]
        own[:] = 0
        size = start[k + 1] - start[k]
        for at in range(start[k], start[k + 1]):
            for i in range(own.shape[0]):
                own[i] += row[member[at], i]
        for i in range(own.shape[0]):
            own[i] /= size
        largest = 0.0
        for at in range(start[k], start[k + 1]):
            total = 0.0
            for i in range(own.shape[0]):
                gap = row[member[at], i] - own[i]
                total += gap * gap if is_dot else abs(gap)
            largest = max(largest, total)
        radius[k] = math.sqrt(largest) if is_dot else largest


def pruned_outrankers(
    clusters: Clusters,
    geometry: Geometry,
    row: Array,
    query: Floats,
    threshold: Floats,
    excluded_start: Ids,
    excluded_end: Ids,
    excluded_id: Ids,
    *,
    offset: int = 0,
) -> tuple[Outrankers, int]:
    """What `outrankers` finds, and how many pairs had to be scored for it. Rows must be finite."""
    is_dot = geometry is Geometry.DOT
    centre, radius = np.empty((len(clusters), row.shape[1])), np.empty(len(clusters))
    _balls(is_dot, row, clusters.start, clusters.member, centre, radius)
    near = _near_balls(geometry, centre, radius * (1 + _SLACK), query, threshold)
    size = np.zeros(len(query), np.int64)
    possible = np.diff(clusters.start)[near.column]
    at = np.append(0, np.cumsum(np.bincount(_owner(near), weights=possible, minlength=len(query)))).astype(
        np.int64
    )
    column, score = np.empty(at[-1], np.int64), np.empty(at[-1])
    _score_members(
        is_dot,
        query,
        row,
        clusters.start,
        clusters.member,
        near.start,
        near.column,
        threshold,
        excluded_start,
        excluded_end,
        excluded_id,
        offset,
        at,
        column,
        score,
        size,
    )
    owner = np.repeat(np.arange(len(query)), np.diff(at))
    keep = np.arange(at[-1]) - at[owner] < size[owner]
    owner, column, score = owner[keep], column[keep], score[keep]
    order = np.lexsort((column, owner))  # by id, as the unpruned path gives them: sums keep their bits
    return Outrankers(np.append(0, np.cumsum(size)), column[order], score[order]), int(at[-1])


def _owner(near: Outrankers) -> Ids:
    return np.repeat(np.arange(len(near.start) - 1), np.diff(near.start))


def _near_balls(
    geometry: Geometry, centre: Floats, radius: Floats, query: Floats, threshold: Floats
) -> Outrankers:
    """The balls of each query that may hold an outranker."""
    nothing = np.zeros(len(query), np.int64)
    excluded = nothing, nothing, np.empty(0, np.int64)
    if geometry is Geometry.DOT:
        # q.c + |q| r is one inner product of rows that are one column longer.
        norm = np.sqrt(np.einsum("ij,ij->i", query, query))
        wide_query, wide_centre = np.column_stack([query, norm]), np.column_stack([centre, radius])
        slack = _SLACK * (np.abs(threshold) + norm * (1.0 + radius.max(initial=0.0)))
        return outrankers(Candidates.prepare(geometry, wide_centre), wide_query, threshold - slack, *excluded)
    slack = _SLACK * (1.0 + np.abs(threshold))
    widest = radius.max(initial=0.0)
    found = outrankers(Candidates.prepare(geometry, centre), query, threshold - slack - widest, *excluded)
    owner = _owner(found)
    keep = found.score + radius[found.column] > (threshold - slack)[owner]
    start = np.append(0, np.cumsum(np.bincount(owner[keep], minlength=len(query))))
    return Outrankers(start, found.column[keep], found.score[keep])


@njit(cache=True, parallel=True)
def _score_members(
    is_dot,
    query,
    row,
    ball_start,
    member,
    near_start,
    near_ball,
    threshold,
    excluded_start,
    excluded_end,
    excluded,
    offset,
    at,
    column,
    score,
    size,
):
    for q in prange(query.shape[0]):
        slot = at[q]
        wide = np.empty(row.shape[1], np.float64)  # float32 rows are scored as their float64 copies would be
        for near in range(near_start[q], near_start[q + 1]):
            ball = near_ball[near]
            for place in range(ball_start[ball], ball_start[ball + 1]):
                candidate = member[place]
                if is_known(excluded, excluded_start[q], excluded_end[q], candidate + offset):
                    continue
                wide[:] = row[candidate]
                value = exact(is_dot, query[q], wide)
                if not value <= threshold[q]:
                    column[slot] = candidate
                    score[slot] = value
                    slot += 1
        size[q] = slot - at[q]
