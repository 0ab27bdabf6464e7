"""Rows on a grid of 256 steps: L1 distances of most pairs are decided by sums of differences of bytes.

A coordinate is x = centre + step * b + e with a byte b, so that, whatever the rounding errors e look like,

    | |q - x|_1 - step * sum |b_q - b_x| |  <=  |e_q|_1 + |e_x|_1

The errors are measured, not assumed: a coordinate far outside the grid only widens the band of its row. Sums
of bytes are exact integers. A machine with AVX-512 adds 64 differences in one instruction; elsewhere the same
sums come from a plain loop.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from meor.compiled import kernel, kernel_part, share
from meor.search.exact import Array
from meor.typing import Floats

GROUP: Final = 8  # coordinates that are compared as one 64-bit word
LANES: Final = 64  # candidates of a block
LARGEST_BYTE: Final = 255
REACH: Final = 5.0  # the grid spans so many standard deviations of a coordinate to either side
_WIDE: Final = 64  # bytes of the widest instruction


class Grid(NamedTuple):
    """Where the steps lie."""

    centre: Floats  # [W]
    step: float


@dataclass(frozen=True, slots=True)
class ByteRows:
    """Candidates as bytes: 64 of them side by side, eight coordinates of each at a time."""

    byte: Array  # [blocks, groups * LANES * GROUP] uint8
    error: float  # the largest |e_x|_1
    grid: Grid

    @classmethod
    def of(cls, row_EW: Floats) -> ByteRows:
        centre = row_EW.mean(0)
        spread = math.sqrt(float(np.square(row_EW - centre).mean()))
        grid = Grid(centre, 2 * REACH * spread / LARGEST_BYTE or 1.0)
        groups = -(-row_EW.shape[1] // GROUP)
        blocks = np.zeros((-(-len(row_EW) // LANES), groups, LANES, GROUP), np.uint8)
        error = np.zeros(len(row_EW))
        share(_to_blocks, len(row_EW), row_EW, *grid, blocks, error)
        return cls(blocks.reshape(len(blocks), -1), float(error.max(initial=0.0)), grid)

    def words_of(self, query_QW: Floats, place: Array) -> tuple[Array, Floats]:
        """[Q, groups] queries on the same grid, a word per group; and |e_q|_1."""
        groups = self.byte.shape[1] // (LANES * GROUP)
        byte, error = np.zeros((len(place), groups * GROUP), np.uint8), np.zeros(len(place))
        share(_to_bytes, len(place), query_QW, place, *self.grid, byte, error)
        return byte.view(np.uint64), error


@kernel_part
def _rounded(value, centre, step):
    """The nearest byte, and how far it is."""
    nearest = min(max(np.rint((value - centre) / step) + 128.0, 0.0), 255.0)
    return np.uint8(nearest), abs(value - (centre + step * (nearest - 128.0)))


@kernel
def _to_blocks(begin, end, row, centre, step, blocks, error):
    for e in range(begin, end):
        block, lane = e // LANES, e % LANES
        for i in range(row.shape[1]):
            blocks[block, i // GROUP, lane, i % GROUP], lost = _rounded(row[e, i], centre[i], step)
            error[e] += lost


@kernel
def _to_bytes(begin, end, row, place, centre, step, byte, error):
    for q in range(begin, end):
        for i in range(row.shape[1]):
            byte[q, i], lost = _rounded(row[place[q], i], centre[i], step)
            error[q] += lost


@kernel_part
def plain_sums(query, block, found):
    """Sums of absolute differences of bytes: a query's words against the LANES candidates of a block."""
    found[:] = 0
    for g in range(query.shape[0]):
        word = query[g]
        for lane in range(LANES):
            first = (g * LANES + lane) * GROUP
            total = np.int64(0)
            for i in range(GROUP):
                total += abs(
                    np.int64((word >> np.uint64(8 * i)) & np.uint64(255)) - np.int64(block[first + i])
                )
            found[lane] += total


def is_wide() -> bool:
    """Can this machine add 64 differences of bytes at once? Not where code is made for another machine."""
    named = getattr(config, "CPU_NAME", None) or getattr(config, "CPU_FEATURES", None)
    return not named and bool(binding.get_host_cpu_features().get("avx512bw"))


@intrinsic
def wide_sums(typing: Any, query: Any, block: Any, found: Any) -> Any:
    """`plain_sums` with AVX-512: eight sums of eight bytes in one instruction (vpsadbw)."""

    def build(context, builder, signature, arguments):
        arrays = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        words, bytes_, out = arrays
        byte, word = ir.IntType(8), ir.IntType(64)
        row_of_bytes, row_of_sums = ir.VectorType(byte, _WIDE), ir.VectorType(word, GROUP)
        add_up = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(row_of_sums, [row_of_bytes, row_of_bytes]),
            "llvm.x86.avx512.psad.bw.512",
        )
        parts = LANES * GROUP // _WIDE
        sums = [cgutils.alloca_once(builder, row_of_sums) for _ in range(parts)]
        for each in sums:
            builder.store(ir.Constant(row_of_sums, None), each)
        (groups,) = cgutils.unpack_tuple(builder, words.shape, 1)
        with cgutils.for_range(builder, groups) as loop:
            asked = builder.load(builder.gep(words.data, [loop.index]))
            one = builder.insert_element(ir.Constant(row_of_sums, ir.Undefined), asked, ir.IntType(32)(0))
            same = ir.Constant(ir.VectorType(ir.IntType(32), GROUP), [0] * GROUP)
            every = builder.bitcast(builder.shuffle_vector(one, one, same), row_of_bytes)
            first = builder.mul(loop.index, loop.index.type(LANES * GROUP))
            for part, each in enumerate(sums):
                at = builder.add(first, first.type(part * _WIDE))
                place = builder.bitcast(builder.gep(bytes_.data, [at]), row_of_bytes.as_pointer())
                apart = builder.call(add_up, [builder.load(place, align=1), every])
                builder.store(builder.add(builder.load(each), apart), each)
        for part, each in enumerate(sums):
            at = word(part * GROUP)
            place = builder.bitcast(builder.gep(out.data, [at]), row_of_sums.as_pointer())
            builder.store(builder.load(each), place, align=8)
        return context.get_dummy_value()

    return types.void(query, block, found), build


sums_of_bytes: Any = wide_sums if is_wide() else plain_sums
