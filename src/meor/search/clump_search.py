"""The search through clumps, compiled: which rows may outrank which query."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from meor.compiled import fast_kernel, kernel
from meor.search.exact import Array, exact, is_known
from meor.search.screen import LARGEST, UNIT32
from meor.typing import Floats, Ids

CHUNKS: Final = 64
HAIR: Final = 1 + 1e-4  # more than float32 sums over a row can lose
UNSCREENABLE: Final = -1  # found, where a row is too large for float32


@fast_kernel
def _dot(one, other):
    total = np.float32(0)
    for i in range(one.shape[0]):
        total += one[i] * other[i]
    return total


@fast_kernel
def _measure(row, centre, narrow, following):
    """Narrow a row, add it to the next centre, and say how far it is from the present one."""
    total = np.float32(0)
    for i in range(row.shape[0]):
        value = np.float32(row[i])
        narrow[i] = value
        following[i] += value
        total += (value - centre[i]) * (value - centre[i])
    return np.sqrt(total)


@kernel
def _count_possible(tile, size, low, distance):
    number = np.int32(0)
    for q in range(tile.shape[0]):
        number += np.int32(tile[q] + size[q] * distance >= low[q])
    return number


@kernel
def _lower(threshold, size, norm, width, low):
    """Thresholds in float32, lowered by all that rounding may hide for rows up to a norm."""
    relative = 2 * (width + 8) * UNIT32 * norm
    for q in range(len(low)):
        low[q] = threshold[q] - relative * size[q] - 2.0**-100 * (1 + size[q])
        low[q] -= abs(low[q]) * np.float32(1e-6)


class Clumped(NamedTuple):
    """Rows by clump, as the search sees them."""

    row: Array  # [N, W]
    member: Ids  # [N]
    start: Ids  # [B + 1]
    centre: Array  # [B, W] float32
    norm: Floats  # [B]
    tile: Array  # [B, Q] float32 products of centres and queries


class Narrow(NamedTuple):
    """Queries in float32, and the entity id of row 0."""

    row: Array  # [Q, W]
    size: Array  # [Q] norms
    offset: int


class Entries(NamedTuple):
    """Room for what each chunk of clumps finds, and what it noted on the way."""

    query: Array  # [CHUNKS, room] int32
    row: Array  # [CHUNKS, room] int32
    score: Floats  # [CHUNKS, room]
    found: Ids  # [CHUNKS] entries, also beyond the room; UNSCREENABLE
    looked: Ids  # [CHUNKS] pairs that were not ruled out
    following: Array  # [B, W] float32 the next centres


@kernel
def _look(own, wide, further, row, tile, low, asked, narrow, entries, chunk):
    """One row against the queries it is not ruled out for; entries beyond the room are only counted."""
    number = entries.found[chunk]
    for q in range(len(asked.place)):
        if tile[q] + narrow.size[q] * further < low[q]:
            continue
        entries.looked[chunk] += 1
        if _dot(own, narrow.row[q]) >= low[q] and not is_known(
            asked.known_id, asked.known_start[q], asked.known_end[q], row + narrow.offset
        ):
            value = exact(True, asked.row[asked.place[q]], wide)
            if not value <= asked.threshold[q]:
                if number < entries.query.shape[1]:
                    entries.query[chunk, number] = q
                    entries.row[chunk, number] = row
                    entries.score[chunk, number] = value
                number += 1
    entries.found[chunk] = number


@kernel
def _search_clump(b, chunk, clumped, asked, narrow, entries, low, own, wide):
    """The rows of one clump, each against the queries that the centre does not rule out for it."""
    row, member, start, norm = clumped.row, clumped.member, clumped.start, clumped.norm[b]
    following = entries.following[b]
    following[:] = 0
    highest = -1.0
    for at in range(start[b], start[b + 1]):
        distance = HAIR * np.float64(_measure(row[member[at]], clumped.centre[b], own, following))
        if not norm + distance < LARGEST:
            entries.found[chunk] = UNSCREENABLE
            return
        if norm + distance > highest:
            highest = norm + distance
            _lower(asked.threshold, narrow.size, highest, len(own), low)
        further = np.float32(distance + 1e-6 * highest)
        if _count_possible(clumped.tile[b], narrow.size, low, further) > 0:
            for i in range(len(wide)):
                wide[i] = row[member[at], i]
            _look(own, wide, further, member[at], clumped.tile[b], low, asked, narrow, entries, chunk)
    for i in range(len(following)):
        following[i] /= start[b + 1] - start[b]


@kernel
def search(begin, end, clumped, asked, narrow, entries):
    """Chunks begin..end-1 of about equal numbers of rows; a clump belongs to the chunk of its first row."""
    n_rows, width, first_rows = len(clumped.member), clumped.centre.shape[1], clumped.start[:-1]
    own, wide = np.empty(width, np.float32), np.empty(width, np.float64)
    low = np.empty(len(asked.place), np.float32)
    for chunk in range(begin, end):
        entries.found[chunk] = entries.looked[chunk] = 0
        first = np.searchsorted(first_rows, n_rows * chunk // CHUNKS)
        last = np.searchsorted(first_rows, n_rows * (chunk + 1) // CHUNKS)
        for b in range(first, last):
            _search_clump(b, chunk, clumped, asked, narrow, entries, low, own, wide)
            if entries.found[chunk] == UNSCREENABLE:
                break


@kernel
def in_order(entries, by_row, start, column, score):
    """Two counting sorts: by row, then by query, which keeps rows ascending."""
    entry_query, entry_row, entry_score, found = entries.query, entries.row, entries.score, entries.found
    n_entries = found.sum()
    flat_query, flat_row = np.empty(n_entries, np.int32), np.empty(n_entries, np.int32)
    flat_score = np.empty(n_entries, np.float64)
    for chunk in range(len(found)):
        for p in range(found[chunk]):
            by_row[entry_row[chunk, p] + 1] += 1
    for row in range(len(by_row) - 1):
        by_row[row + 1] += by_row[row]
    start[:] = 0
    for chunk in range(len(found)):
        for p in range(found[chunk]):
            put = by_row[entry_row[chunk, p]]
            by_row[entry_row[chunk, p]] += 1
            flat_query[put] = entry_query[chunk, p]
            flat_row[put] = entry_row[chunk, p]
            flat_score[put] = entry_score[chunk, p]
            start[entry_query[chunk, p] + 1] += 1
    for q in range(len(start) - 1):
        start[q + 1] += start[q]
    put_at = start[:-1].copy()
    for p in range(n_entries):
        put = put_at[flat_query[p]]
        put_at[flat_query[p]] += 1
        column[put] = flat_row[p]
        score[put] = flat_score[p]
