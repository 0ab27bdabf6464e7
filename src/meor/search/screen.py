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

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from meor.backbone.base import Geometry
from meor.compiled import fast_kernel, kernel, share
from meor.search.coarse import Coarse, fits_bytes
from meor.typing import Floats, Ids

Array = NDArray[Any]

UNIT32: Final = 2.0**-24
LARGEST: Final = 2.0**50  # products and their sums stay far from float32's overflow
SMALLEST: Final = 2.0**-50  # and a row of non-zero norm far from its underflow
LANES: Final = 64  # candidates that one L1 block measures side by side
TILE_QUERIES: Final = 1024
TILE_CANDIDATES: Final = 2048


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rows of a universe, prepared once for many queries."""

    geometry: Geometry
    row: Floats  # [E, W] float64
    screened: torch.Tensor | Array | Coarse | None  # DOT: float32 [E, W] or bytes; L1: [blocks, W, LANES]
    size: Floats  # [E] L2 norm (DOT) or L1 norm (L1)

    @classmethod
    def prepare(
        cls,
        geometry: Geometry,
        row: Array,
        *,
        screen: bool = True,
        lanes: bool = True,
        coarse: bool = False,
        into: Candidates | None = None,
    ) -> Candidates:
        """Narrow and measure rows; `into` gives up its buffers, for rows that move at every step.

        Without `lanes` the float32 rows of L1 stay [E, W] too, as queries need them. `coarse`: bytes
        where the geometry and the machine allow them.
        """
        row = np.ascontiguousarray(row, dtype=np.float64)
        if coarse and screen and geometry is Geometry.DOT and fits_bytes(row.shape[1]):
            held = into.screened if into is not None and isinstance(into.screened, Coarse) else None
            rounded = Coarse.of(row, held)
            fits = sizes_fit_float32(rounded.size.max(initial=0.0), row.shape[1])
            return cls(geometry, row, rounded if fits else None, rounded.size)
        if geometry is Geometry.L1 and lanes and screen and len(row):
            blocks, size = _lanes(row)
            return cls(geometry, row, blocks if sizes_fit_float32(size.max(), row.shape[1]) else None, size)
        narrow = None if into is None else into.screened
        if not isinstance(narrow, torch.Tensor) or narrow.shape != row.shape:
            narrow = torch.empty(row.shape, dtype=torch.float32)
        size = np.empty(len(row))
        share(_narrow_rows, len(row), geometry is Geometry.DOT, row, narrow.numpy(), size)
        if not (screen and len(row) and sizes_fit_float32(size.max(), row.shape[1])):
            return cls(geometry, row, None, size)
        # The tensor itself: one made anew from its array would keep every earlier one alive, a step a link.
        return cls(geometry, row, narrow, size)


@fast_kernel
def _narrow_rows(begin, end, is_dot, row, narrow, size):
    """Float32 copies and norms (L2 or L1), in one reading of the rows."""
    for e in range(begin, end):
        total = 0.0
        if is_dot:
            for i in range(row.shape[1]):
                value = row[e, i]
                narrow[e, i] = value
                total += value * value
        else:
            for i in range(row.shape[1]):
                value = row[e, i]
                narrow[e, i] = value
                total += abs(value)
        # A hair more, because the norm itself is rounded.
        size[e] = (math.sqrt(total) if is_dot else total) * (1 + 1e-12)


def sizes_fit_float32(largest: float, width: int) -> bool:
    """No magnitude exceeds its row's norm, and the norm is at most `width` times the largest one.

    A NaN anywhere makes the largest norm NaN, which fits nowhere.
    """
    return bool(largest < LARGEST and (largest == 0 or largest > SMALLEST * width))


def _lanes(row: Floats) -> tuple[Array, Floats]:
    """[blocks, W, LANES] float32, padded with rows at infinity, so that lanes are read side by side; norms.

    A few rows at a time: a float32 copy of all of them would double what ranking takes.
    """
    blocks = np.full((-(-len(row) // LANES), row.shape[1], LANES), np.inf, np.float32)
    size = np.empty(len(row))
    for first in range(0, len(row), TILE_CANDIDATES):
        part = row[first : first + TILE_CANDIDATES]
        narrow = np.full((-(-len(part) // LANES) * LANES, row.shape[1]), np.inf, np.float32)
        share(_narrow_rows, len(part), False, part, narrow[: len(part)], size[first : first + len(part)])
        turned = narrow.reshape(-1, LANES, row.shape[1]).transpose(0, 2, 1)
        blocks[first // LANES : first // LANES + len(turned)] = turned
    return blocks, size


@fast_kernel
def _exact_dot(query, row):
    total = 0.0
    for i in range(query.shape[0]):
        total += query[i] * row[i]
    return total


@fast_kernel
def _exact_distance(query, row):
    total = 0.0
    for i in range(query.shape[0]):
        total += abs(query[i] - row[i])
    return total


@kernel
def exact(is_dot, query, row):
    """The score of a pair, up to TransE's constant."""
    return _exact_dot(query, row) if is_dot else -_exact_distance(query, row)


@kernel
def _exact_pairs(begin, end, is_dot, query, row, column, score):
    for q in range(begin, end):
        score[q] = exact(is_dot, query[q], row[column[q]])


def exact_scores(geometry: Geometry, query: Array, row: Array, column: Ids) -> Floats:
    """Defined float64 scores (TransE: minus the distance) of each query against its own candidate."""
    score = np.empty(len(query), np.float64)
    share(_exact_pairs, len(query), geometry is Geometry.DOT, query, row, column, score)
    return score


@kernel
def is_known(known_id, begin, end, candidate):
    while begin < end:
        middle = (begin + end) // 2
        if known_id[middle] < candidate:
            begin = middle + 1
        elif known_id[middle] > candidate:
            end = middle
        else:
            return True
    return False


def band(
    candidates: Candidates, size: Floats, threshold: Floats, begin: int, end: int
) -> tuple[Array, Array]:
    """Screened scores below `low` or above `high` are decided; `size` are the norms of the queries.

    For L1 both bound the distance instead.
    """
    width = candidates.row.shape[1]
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
    return narrow_towards(centre - slack, -np.inf), narrow_towards(centre + slack, np.inf)


def narrow_towards(value: Floats, towards: float) -> Array:
    """To float32, rounded outwards so that a bound only widens."""
    return np.nextafter(value.astype(np.float32), np.float32(towards))
