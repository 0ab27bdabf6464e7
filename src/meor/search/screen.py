"""Screens: rows prepared so that most pairs are decided without their exact score.

In float32, with u = 2**-24 and any order of summation,

    |fl32(q.e) - q.e| <= ((W + 4)u / (1 - (W + 4)u)) |q| |e|            (rounded inputs, products, sums)
    |fl32(d) - d|     <= u (|q|_1 + |e|_1) + (W + 4)u d                  (L1 distance)

so a screened score further than that band from the threshold is decided, and the few that are not are
redone in float64 (`exact`). Rows too large or too small for float32 are not screened at all.

In eight-bit integers, whose products are exact and several times faster: a row is x = step * b + e with b in
-127..127, so that, whatever the rounding error e looks like,

    |q.x - step_q step_x (b_q.b_x)| <= |q| |e_x| + |e_q| |step_x b_x| <= (|q| + |e_q|) |e_x| + |e_q| |x|

The norms |e| are measured, not assumed.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import torch

from meor.backbone.base import Geometry, Scoring
from meor.compiled import fast_kernel, kernel, kernel_part, share
from meor.search.byte_rows import LANES, ByteRows
from meor.search.exact import Array
from meor.typing import Floats

UNIT32: Final = 2.0**-24
LARGEST: Final = 2.0**50  # products and their sums stay far from float32's overflow
SMALLEST: Final = 2.0**-50  # and a row of non-zero norm far from its underflow
TILE_QUERIES: Final = 1024
TILE_CANDIDATES: Final = 2048
LARGEST_BYTE: Final = 127
NARROWEST: Final = 64  # below, bytes gain nothing
WIDEST: Final = 1024  # so many products of two bytes still add up to a number that float32 holds exactly


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rows of a universe, prepared once for many queries."""

    scoring: Scoring
    row: Floats  # [E, W] float64
    screened: torch.Tensor | Array | Coarse | ByteRows | None
    """DOT: float32 [E, W] or `Coarse`. L1: `ByteRows`, or float32 [blocks, W, LANES]."""
    size: Floats  # [E] L2 norm (DOT) or L1 norm (L1)

    @classmethod
    def prepare(
        cls,
        scoring: Scoring,
        row: Array,
        *,
        screen: bool = True,
        lanes: bool = True,
        coarse: bool = False,
        counted: bool = False,
        into: Candidates | None = None,
    ) -> Candidates:
        """Narrow and measure rows; `into` gives up its buffers, for rows that move at every step.

        Without `lanes` the float32 rows of L1 stay [E, W] too, as queries need them. `coarse`: bytes, for
        `outrankers` alone, where the machine allows them. `counted`: for `counting.count_range` alone.
        """
        row = np.ascontiguousarray(row, dtype=np.float64)
        if not isinstance(scoring, Geometry):
            return cls(scoring, row, None, np.zeros(len(row)))
        if coarse and screen and scoring is Geometry.DOT and fits_bytes(row.shape[1]):
            held = into.screened if into is not None and isinstance(into.screened, Coarse) else None
            rounded = Coarse.of(row, held)
            fits = sizes_fit_float32(rounded.size.max(initial=0.0), row.shape[1])
            return cls(scoring, row, rounded if fits else None, rounded.size)
        if scoring is Geometry.L1 and (counted or (coarse and lanes)) and screen and len(row):
            bytes_ = ByteRows.of(row)
            fits = sizes_fit_float32(bytes_.size.max(), row.shape[1])
            return cls(scoring, row, bytes_ if fits else None, bytes_.size)
        if scoring is Geometry.L1 and lanes and screen and len(row):
            blocks, size = _lanes(row)
            return cls(scoring, row, blocks if sizes_fit_float32(size.max(), row.shape[1]) else None, size)
        narrow = None if into is None else into.screened
        if not isinstance(narrow, torch.Tensor) or narrow.shape != row.shape:
            narrow = torch.empty(row.shape, dtype=torch.float32)
        size = np.empty(len(row))
        share(_narrow_rows, len(row), scoring is Geometry.DOT, row, narrow.numpy(), size)
        if not (screen and len(row) and sizes_fit_float32(size.max(), row.shape[1])):
            return cls(scoring, row, None, size)
        return cls(
            scoring, row, narrow, size
        )  # this tensor: one made of its array would keep earlier ones alive


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
    """Do rows of this largest norm, which no coordinate exceeds, fit float32? NaN fits nowhere."""
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
    if candidates.scoring is Geometry.DOT:
        slack = relative * size * largest + underflow
        centre = threshold
    else:
        centre = -threshold
        slack = UNIT32 * 1.01 * (size + largest) + 2 * relative * centre + underflow
    return narrow_towards(centre - slack, -np.inf), narrow_towards(centre + slack, np.inf)


def narrow_towards(value: Floats, towards: float) -> Array:
    """To float32, rounded outwards so that a bound only widens."""
    return np.nextafter(value.astype(np.float32), np.float32(towards))


@dataclass(frozen=True, slots=True)
class Coarse:
    """Rows as bytes, and how far each is from what it stands for. Norms are rounded upwards."""

    byte: torch.Tensor  # [E, W] int8
    step: Array  # [E] float32, positive
    error: Array  # [E] float32 |x - step b|
    size: Array  # [E] float32 |x|

    @classmethod
    def of(cls, row_EW: Array, into: Coarse | None = None) -> Coarse:
        """`into` gives up its buffers, for rows that move at every step."""
        if into is None or into.byte.shape != row_EW.shape:
            byte = torch.empty(row_EW.shape, dtype=torch.int8)
            into = cls(byte, *(np.empty(len(row_EW), np.float32) for _ in range(3)))
        share(_coarsen, len(row_EW), row_EW, into.byte.numpy(), into.step, into.error, into.size)
        return into

    def take(self, index: Array, axis: int = 0) -> Coarse:
        """Rows by index, as of an array."""
        byte = self.byte.index_select(0, torch.from_numpy(index))
        return Coarse(byte, self.step.take(index), self.error.take(index), self.size.take(index))

    def __len__(self) -> int:
        return len(self.step)


@kernel
def _coarsen(begin, end, row, byte, step, error, size):
    # Magnitudes are compared as integers: their bits stand in the same order, and that loop is vectorised.
    bits = step.view(np.int32)
    narrow = np.empty(row.shape[1], np.float32)
    for e in range(begin, end):
        for i in range(row.shape[1]):
            narrow[i] = row[e, i]
        bits[e] = _largest_bits(narrow.view(np.int32))
        # A hair more than a 127th: no byte can round beyond 127.
        step[e] = step[e] * np.float32((1 + 1e-5) / LARGEST_BYTE) if step[e] > 0 else np.float32(1)
        error[e], size[e] = _round_to_bytes(narrow, step[e], byte[e])


@kernel_part
def _largest_bits(bits):
    largest = np.int32(0)
    for i in range(bits.shape[0]):
        largest = max(largest, bits[i] & np.int32(0x7FFFFFFF))
    return largest


@fast_kernel
def _round_to_bytes(row, step, byte):
    """|x - step b| and |x|, each a little too large: float32 may have lost something."""
    inverse = np.float32(1) / step
    lost, square = np.float32(0), np.float32(0)
    for i in range(row.shape[0]):
        value = row[i] * inverse  # in steps, so that no square underflows
        nearest = np.rint(value)
        byte[i] = np.int8(np.int32(nearest))
        lost += (value - nearest) * (value - nearest)
        square += value * value
    size = np.float32(1 + 1e-4) * np.sqrt(square) * step
    return np.float32(1 + 1e-4) * np.sqrt(lost) * step + np.float32(1e-6) * size, size


@cache
def integers_are_exact() -> bool:
    """Does this machine multiply bytes fast and without saturation? Tried once, with the largest bytes."""
    if not torch.backends.mkldnn.is_available() or "AVX512" not in torch.backends.cpu.get_cpu_capability():
        return False  # elsewhere integer products may be a plain loop
    sign = torch.tensor([1, -1, 1, 1] * 128, dtype=torch.int8)
    row = torch.stack([LARGEST_BYTE * sign, -LARGEST_BYTE * sign, LARGEST_BYTE * torch.ones_like(sign)])
    row = row.repeat(20, 1)
    found = torch._int_mm(row, row.T)
    return bool((found == row.to(torch.int32) @ row.to(torch.int32).T).all())


def fits_bytes(width: int) -> bool:
    return NARROWEST <= width <= WIDEST and integers_are_exact()


def coarse_products(query: Coarse, candidate: Coarse, out: torch.Tensor) -> Array:
    """[Q, E] int32 products of bytes."""
    torch._int_mm(query.byte, candidate.byte.T, out=out)
    return out.numpy()
