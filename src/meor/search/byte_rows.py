"""Rows on a grid of 256 steps: L1 distances of most pairs are decided by sums of differences of bytes.

A coordinate is x = centre + step * b + e with a byte b, so that, whatever the rounding errors e look like,

    | |q - x|_1 - step * sum |b_q - b_x| |  <=  |e_q|_1 + |e_x|_1

The errors are measured, not assumed: a coordinate far outside the grid only widens the band of its row. Sums
of bytes are exact integers.
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

from meor.compiled import fast_kernel, kernel, kernel_part, share
from meor.search.exact import Array
from meor.typing import Floats

GROUP: Final = 8  # coordinates that are compared as one 64-bit word
LANES: Final = 64  # candidates of a block
LARGEST_BYTE: Final = 255
REACH: Final = 5.0  # the grid spans so many standard deviations of a coordinate to either side
VECTOR: Final = 64  # bytes that are compared at once, in as many instructions as the machine needs
REGISTERS: Final = 4  # vectors of sums that every machine can hold
TOGETHER: Final = 128  # groups whose sums fit 16 bits
SOME: Final = 1024  # rows decide the grid


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
    size: Floats  # [E] L1 norms, a hair more than they are

    @classmethod
    def of(cls, row_EW: Floats) -> ByteRows:
        some = row_EW[:: -(-len(row_EW) // SOME)]  # any grid will do: what it loses is measured on all rows
        with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses rows by their norms
            centre = some.mean(0)
            spread = math.sqrt(np.square(some - centre).mean())
        grid = Grid(centre, 2 * REACH * spread / LARGEST_BYTE or 1.0)
        groups = -(-row_EW.shape[1] // GROUP)
        blocks = np.zeros((-(-len(row_EW) // LANES), groups, LANES, GROUP), np.uint8)
        error, size = np.empty((2, len(row_EW)))
        share(_to_blocks, len(row_EW), row_EW, *grid, blocks, error, size)
        return cls(blocks.reshape(len(blocks), -1), float(error.max(initial=0.0)), grid, size)

    def words_of(self, query_QW: Floats, place: Array) -> tuple[Array, Floats]:
        """[Q, groups] queries on the same grid, a word per group; and |e_q|_1."""
        groups = self.byte.shape[1] // (LANES * GROUP)
        byte, error = np.zeros((len(place), groups * GROUP), np.uint8), np.zeros(len(place))
        share(_to_bytes, len(place), query_QW, place, *self.grid, byte, error)
        return byte.view(np.uint64), error

    def slack(self, error: Floats, size: Floats, largest: float, distance: Floats) -> Floats:
        """How far a distance may be from its sum of bytes; a hair more, because everything is rounded."""
        return (error + self.error) * (1 + 1e-6) + 1e-12 * (size + largest + np.abs(distance))


@kernel_part
def _rounded(value, centre, step, inverse):
    """The nearest byte, and how far it is."""
    nearest = min(max(np.rint((value - centre) * inverse) + 128.0, 0.0), 255.0)
    return np.uint8(nearest), abs(value - (centre + step * (nearest - 128.0)))


@fast_kernel
def _to_blocks(begin, end, row, centre, step, blocks, error, size):
    inverse = 1.0 / step
    for e in range(begin, end):
        block, lane = e // LANES, e % LANES
        lost = norm = 0.0
        for i in range(row.shape[1]):
            value = row[e, i]
            blocks[block, i // GROUP, lane, i % GROUP], apart = _rounded(value, centre[i], step, inverse)
            lost += apart
            norm += abs(value)
        error[e], size[e] = lost, norm * (1 + 1e-12)


@kernel
def _to_bytes(begin, end, row, place, centre, step, byte, error):
    inverse = 1.0 / step
    for q in range(begin, end):
        for i in range(row.shape[1]):
            byte[q, i], lost = _rounded(row[place[q], i], centre[i], step, inverse)
            error[q] += lost


@kernel_part
def sums_of_bytes(query, block, found):
    """Sums of absolute differences of bytes: a query's words against the LANES candidates of a block."""
    found[:] = 0
    for first in range(0, query.shape[0], TOGETHER):
        _add_sums(query, block, first, min(first + TOGETHER, query.shape[0]), found)  # type: ignore[call-arg]


@intrinsic
def _add_sums(typing: Any, query: Any, block: Any, first: Any, last: Any, found: Any) -> Any:
    """Adds the sums over groups first..last-1, in vectors of 64 bytes: a plain loop is 20 times slower.

    AVX-512 adds the eight differences of each word in one instruction. Elsewhere even and odd bytes are added
    to 16-bit numbers, which hold 128 such sums.
    """

    def build(context, builder, signature, arguments):
        query, block, found = (
            context.make_array(signature.args[at])(context, builder, arguments[at]) for at in (0, 1, 4)
        )
        parts, wide = LANES * GROUP // VECTOR, adds_eight_bytes()
        kind, apart = (_WORDS, _words_apart) if wide else (_NARROW, _bytes_apart)
        for some in range(0, parts, REGISTERS):
            sums = [cgutils.alloca_once(builder, kind) for _ in range(REGISTERS)]
            for each in sums:
                builder.store(ir.Constant(kind, None), each)
            with cgutils.for_range_slice(builder, arguments[2], arguments[3], ir.IntType(64)(1)) as (
                group,
                _,
            ):
                asked = _every(builder, builder.load(builder.gep(query.data, [group])))
                start = builder.mul(group, ir.IntType(64)(LANES * GROUP))
                for part, each in enumerate(sums, some):
                    place = builder.gep(block.data, [builder.add(start, ir.IntType(64)(part * VECTOR))])
                    theirs = builder.load(builder.bitcast(place, _BYTES.as_pointer()), align=1)
                    builder.store(builder.add(builder.load(each), apart(builder, asked, theirs)), each)
            for part, each in enumerate(sums, some):
                place = builder.gep(found.data, [ir.IntType(64)(part * GROUP)])
                place = builder.bitcast(place, _WORDS.as_pointer())
                sums_of_words = builder.load(each) if wide else _folded(builder, builder.load(each))
                total = builder.add(builder.load(place, align=8), sums_of_words)
                builder.store(total, place, align=8)
        return context.get_dummy_value()

    return types.void(query, block, types.int64, types.int64, found), build


_BYTES, _NARROW, _WORDS = (ir.VectorType(ir.IntType(bits), 8 * VECTOR // bits) for bits in (8, 16, 64))


def _constant(kind: ir.VectorType, value: int) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)


def _every(builder: ir.IRBuilder, word: ir.Value) -> ir.Value:
    """A vector of one word over and over, as bytes."""
    one = builder.insert_element(ir.Constant(_WORDS, ir.Undefined), word, ir.IntType(32)(0))
    same = ir.Constant(ir.VectorType(ir.IntType(32), _WORDS.count), None)
    return builder.bitcast(builder.shuffle_vector(one, one, same), _BYTES)


def adds_eight_bytes() -> bool:
    """Has the machine that code is made for AVX-512's instruction? One named by hand is not asked."""
    named = getattr(config, "CPU_NAME", None) or getattr(config, "CPU_FEATURES", None)
    return not named and bool(binding.get_host_cpu_features().get("avx512bw"))


def _words_apart(builder: ir.IRBuilder, one: ir.Value, two: ir.Value) -> ir.Value:
    """The sum of |one - two| over the bytes of each word."""
    kind = ir.FunctionType(_WORDS, [_BYTES, _BYTES])
    name = "llvm.x86.avx512.psad.bw.512"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [one, two])


def _bytes_apart(builder: ir.IRBuilder, one: ir.Value, two: ir.Value) -> ir.Value:
    """|one - two| of bytes, two neighbours added, as 16-bit numbers."""
    larger = builder.select(builder.icmp_unsigned(">", one, two), one, two)
    smaller = builder.select(builder.icmp_unsigned(">", one, two), two, one)
    pairs = builder.bitcast(builder.sub(larger, smaller), _NARROW)
    even = builder.and_(pairs, _constant(_NARROW, 255))
    return builder.add(even, builder.lshr(pairs, _constant(_NARROW, 8)))


def _folded(builder: ir.IRBuilder, narrow: ir.Value) -> ir.Value:
    """The sum of the four 16-bit numbers of each word."""
    words = builder.bitcast(narrow, _WORDS)
    for bits, mask in ((16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF)):
        kept = _constant(_WORDS, mask)
        upper = builder.lshr(words, _constant(_WORDS, bits))
        words = builder.add(builder.and_(words, kept), builder.and_(upper, kept))
    return words
