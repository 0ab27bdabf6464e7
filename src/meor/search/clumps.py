"""Very many newcomers: rows that lie close together are ruled out together, exactly.

For a row x in a clump with centre c, q.x <= q.c + |q| |x - c|: where that stays below the threshold, x is
not scored at all. Everything that remains is screened in float32 and decided in float64, so outrankers and
their bits are those of `outrankers.outrankers`. Which rows make a clump changes the cost, nothing else.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from meor.compiled import fast_kernel, kernel, share
from meor.random import generator
from meor.search.clump_search import CHUNKS, HAIR, UNSCREENABLE, Clumped, Entries, Narrow, in_order, search
from meor.search.exact import Array
from meor.search.outrankers import Outrankers
from meor.search.queries import Queries
from meor.search.screen import sizes_fit_float32
from meor.typing import Ids

DIRECTIONS: Final = 64  # random projections by which rows are compared
NEARBY: Final = 0.3  # of a leader's norm: a row further away belongs to another clump
WORTH: Final = 0.5  # of all pairs: if more must be looked at, the plain screen is as fast
_BLOCK_ROWS: Final = 65_536


@dataclass(slots=True)
class Clumps:
    """Rows by clump. Centres follow the rows from one search to the next."""

    member: Ids  # [N] rows, by clump, ascending within one
    start: Ids  # [B + 1]
    centre: Array  # [B, W] float32
    looked: float = 0.0  # share of all pairs that the last search could not rule out
    searches: int = 0

    @property
    def pays(self) -> bool:
        return self.looked < WORTH

    @classmethod
    def find(cls, row_NW: Array) -> Clumps | None:
        """Clumps of a leader and the rows near it; None if most rows have no other row near them."""
        short = _project(row_NW)
        cell, n_cells = _nearest_pivot(short)
        order = np.argsort(cell, kind="stable")
        cell_start = np.append(0, np.cumsum(np.bincount(cell, minlength=n_cells)))
        leader = np.empty(len(row_NW), np.int64)
        share(_follow_leaders, n_cells, short, order, cell_start, leader)
        _, clump, size = np.unique(leader, return_inverse=True, return_counts=True)
        if 4 * len(size) > len(row_NW):
            return None
        member = np.argsort(clump, kind="stable")
        start = np.append(0, np.cumsum(size))
        centre = np.empty((len(size), row_NW.shape[1]), np.float32)
        share(_average, len(size), row_NW, member, start, centre)
        return cls(member, start, centre)

    def outrankers(
        self, row_NW: Array, queries: Queries, *, offset: int = 0, room: int = 2**24
    ) -> Outrankers | None:
        """As `outrankers.outrankers`; None where rows or queries cannot be screened in float32.

        `room`: entries that may be found; where they do not suffice, the queries are halved.
        """
        row = queries.row.take(queries.place, 0).astype(np.float32)
        narrow = Narrow(row, np.linalg.norm(row, axis=1) * np.float32(HAIR), offset)
        norm = np.linalg.norm(self.centre, axis=1).astype(np.float64) * HAIR
        width, largest = row_NW.shape[1], narrow.size.max(initial=0.0)
        if not (sizes_fit_float32(norm.max(), width) and sizes_fit_float32(largest, width)):
            return None
        tile = torch.mm(torch.from_numpy(self.centre), torch.from_numpy(row).T).numpy()
        clumped = Clumped(row_NW, self.member, self.start, self.centre, norm, tile)
        shape = CHUNKS, -(-room // CHUNKS)
        entries = Entries(
            np.empty(shape, np.int32),
            np.empty(shape, np.int32),
            np.empty(shape, np.float64),
            np.empty(CHUNKS, np.int64),
            np.empty(CHUNKS, np.int64),
            np.empty_like(self.centre),
        )
        share(search, CHUNKS, clumped, queries.asked, narrow, entries)
        if (entries.found == UNSCREENABLE).any():
            return None
        if (entries.found > entries.query.shape[1]).any():
            return self._half_at_a_time(row_NW, queries, offset, room)
        self.centre = entries.following
        self.searches += 1
        self.looked = float(entries.looked.sum()) / max(1, len(queries) * len(row_NW))
        start, column = np.empty(len(queries) + 1, np.int64), np.empty(entries.found.sum(), np.int64)
        score = np.empty(len(column))
        in_order(entries, np.zeros(len(row_NW) + 1, np.int64), start, column, score)
        return Outrankers(start, column, score)

    def _half_at_a_time(self, row_NW: Array, queries: Queries, offset: int, room: int) -> Outrankers | None:
        if len(queries) == 1:
            room *= 2
        parts = []
        for own in np.array_split(np.arange(len(queries)), min(2, len(queries))):
            part = self.outrankers(row_NW, queries.select(own), offset=offset, room=room)
            if part is None:
                return None
            parts.append(part)
        return Outrankers.one_after_another(parts)


def _project(row_NW: Array) -> Array:
    draw = generator("clump directions", row_NW.shape[1])
    direction = draw.standard_normal((row_NW.shape[1], DIRECTIONS)) / np.sqrt(DIRECTIONS)
    short = np.empty((len(row_NW), DIRECTIONS), np.float32)
    for first in range(0, len(row_NW), _BLOCK_ROWS):
        part = slice(first, first + _BLOCK_ROWS)
        short[part] = row_NW[part].astype(np.float32) @ direction.astype(np.float32)
    return short


def _nearest_pivot(short: Array) -> tuple[Ids, int]:
    """A cell for each row: leaders are looked for within one cell only."""
    n_cells = max(1, int(np.sqrt(len(short)) / 2))
    chosen = generator("clump pivots", len(short)).choice(len(short), n_cells, replace=False)
    pivot = torch.from_numpy(short[np.sort(chosen)])
    half_square = pivot.square().sum(1) / 2
    cell = np.empty(len(short), np.int64)
    for first in range(0, len(short), _BLOCK_ROWS):
        part = slice(first, first + _BLOCK_ROWS)
        cell[part] = (torch.from_numpy(short[part]) @ pivot.T - half_square).argmax(1).numpy()
    return cell, n_cells


@fast_kernel
def _distance(one, other):
    total = np.float32(0)
    for i in range(one.shape[0]):
        total += (one[i] - other[i]) * (one[i] - other[i])
    return np.sqrt(total)


@kernel
def _follow_leaders(begin, end, short, order, cell_start, leader):
    for cell in range(begin, end):
        lead = np.empty(cell_start[cell + 1] - cell_start[cell], np.int64)
        number = 0
        for at in range(cell_start[cell], cell_start[cell + 1]):
            row = order[at]
            reach = NEARBY * np.sqrt(np.sum(short[row] * short[row]))
            leader[row] = row
            for k in range(number):
                if _distance(short[row], short[lead[k]]) < reach:
                    leader[row] = lead[k]
                    break
            if leader[row] == row:
                lead[number] = row
                number += 1


@fast_kernel
def _average(begin, end, row, member, start, centre):
    for b in range(begin, end):
        centre[b] = 0
        for at in range(start[b], start[b + 1]):
            for i in range(row.shape[1]):
                centre[b, i] += row[member[at], i]
        centre[b] /= start[b + 1] - start[b]
