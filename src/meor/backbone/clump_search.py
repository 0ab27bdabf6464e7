"""The search through clumps, compiled: which rows of which clump can outrank which query at all."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Final

import numpy as np

from meor.backbone.kernels import FAST
from meor.backbone.screen import LARGEST, UNIT32, exact, is_known
from meor.compiled import njit, prange

CHUNKS: Final = 64
HAIR: Final = 1 + 1e-4  # more than float32 sums over a row can lose
UNSCREENABLE: Final = -1  # found, where a row is too large for float32


@njit(cache=True, fastmath=FAST)
def _dot(one, other):
    total = np.float32(0)
    for i in range(one.shape[0]):
        total += one[i] * other[i]
    return total


@njit(cache=True, fastmath=FAST)
def _measure(row, centre, narrow, following):
    """Narrow a row, add it to the next centre, and say how far it is from the present one."""
    total = np.float32(0)
    for i in range(row.shape[0]):
        value = np.float32(row[i])
        narrow[i] = value
        following[i] += value
        total += (value - centre[i]) * (value - centre[i])
    return np.sqrt(total)


@njit(cache=True)
def _count_possible(tile, size, low, distance):
    number = np.int32(0)
    for q in range(tile.shape[0]):
        number += np.int32(tile[q] + size[q] * distance >= low[q])
    return number


@njit(cache=True)
def _lower(threshold, size, norm, width, low):
    """Float32 bounds: what the roundings of two products and of narrowing may hide, for rows up to a norm."""
    relative = 2 * (width + 8) * UNIT32 * norm
    for q in range(len(low)):
        low[q] = threshold[q] - relative * size[q] - 2.0**-100 * (1 + size[q])
        low[q] -= abs(low[q]) * np.float32(1e-6)


@njit(cache=True)
def _look(
    own,
    wide,
    further,
    row,
    tile,
    size,
    low,
    query,
    place,
    narrow,
    threshold,
    excluded_start,
    excluded_end,
    excluded,
    name,
    entry_query,
    entry_row,
    entry_score,
    number,
):
    """One row against the queries it is not ruled out for; entries beyond the room are only counted."""
    dots = 0
    for q in range(len(place)):
        if tile[q] + size[q] * further < low[q]:
            continue
        dots += 1
        if _dot(own, narrow[q]) >= low[q] and not is_known(
            excluded, excluded_start[q], excluded_end[q], name
        ):
            value = exact(True, query[place[q]], wide)
            if not value <= threshold[q]:
                if number < len(entry_query):
                    entry_query[number], entry_row[number], entry_score[number] = q, row, value
                number += 1
    return number, dots


@njit(cache=True, parallel=True)
def search(
    row,
    member,
    start,
    centre,
    norm,
    tile,
    query,
    place,
    narrow,
    size,
    threshold,
    excluded_start,
    excluded_end,
    excluded,
    offset,
    entry_query,
    entry_row,
    entry_score,
    found,
    looked,
    following,
):
    width = centre.shape[1]
    for chunk in prange(CHUNKS):
        # Chunks of about equal numbers of rows; a clump belongs to the chunk its first row is in.
        begin = np.searchsorted(start[:-1], len(member) * chunk // CHUNKS)
        end = np.searchsorted(start[:-1], len(member) * (chunk + 1) // CHUNKS)
        own, wide = np.empty(width, np.float32), np.empty(width, np.float64)
        low = np.empty(len(place), np.float32)
        found[chunk] = looked[chunk] = 0
        for b in range(begin, end):
            following[b] = 0
            highest = -1.0
            for at in range(start[b], start[b + 1]):
                distance = np.float64(_measure(row[member[at]], centre[b], own, following[b])) * HAIR
                if not norm[b] + distance < LARGEST:
                    found[chunk] = UNSCREENABLE
                    break
                if norm[b] + distance > highest:
                    highest = norm[b] + distance
                    _lower(threshold, size, highest, width, low)
                further = np.float32(distance + 1e-6 * highest)
                if _count_possible(tile[b], size, low, further) == 0:
                    continue
                wide[:] = row[member[at]]
                known = excluded_start, excluded_end, excluded, member[at] + offset
                asked = tile[b], size, low, query, place, narrow, threshold
                kept = entry_query[chunk], entry_row[chunk], entry_score[chunk]
                found[chunk], dots = _look(
                    own, wide, further, member[at], *asked, *known, *kept, found[chunk]
                )
                looked[chunk] += dots
            if found[chunk] == UNSCREENABLE:
                break
            following[b] /= start[b + 1] - start[b]


@njit(cache=True)
def in_order(entry_query, entry_row, entry_score, found, by_row, start, column, score):
    """Two counting sorts: by row, then by query, which keeps rows ascending."""
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
