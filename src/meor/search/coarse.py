"""A coarser screen: rows as eight-bit integers, whose products are exact and several times faster.

A row is x = step * b + e with b in -127..127, so that, whatever the rounding error e looks like,

    |q.x - step_q step_x (b_q.b_x)| <= |q| |e_x| + |e_q| |step_x b_x| <= (|q| + |e_q|) |e_x| + |e_q| |x|

The integer product has no rounding at all; the norms |e| are measured, not assumed.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from meor.compiled import fast_kernel, kernel, share

Array = NDArray[Any]

LARGEST_BYTE: Final = 127
NARROWEST: Final = 64  # below, bytes gain nothing
WIDEST: Final = 1024  # so many products of two bytes still add up to a number that float32 holds exactly


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


@kernel
def _largest_bits(bits):
    largest = np.int32(0)
    for i in range(bits.shape[0]):
        largest = max(largest, bits[i] & np.int32(0x7FFFFFFF))
    return largest


@fast_kernel
def _round_to_bytes(row, step, byte):
    """|x - step b| and |x|, a hair more than either: what float32 sums, or narrowing x, may have lost."""
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
    """Does this machine multiply bytes without saturating, and fast? Tried once, with the worst of bytes."""
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
