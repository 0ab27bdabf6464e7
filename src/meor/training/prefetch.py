"""Rows asked for before they are needed: batches name rows at random, and no processor can guess those."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg"

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from meor.compiled import kernel_part

LINE = 64
"""Bytes that memory gives at once."""


@intrinsic
def _ask(_typing: Any, _address: Any) -> Any:
    def emitted(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        number, place = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [place, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        to_read, second_cache, data = number(0), number(2), number(1)
        builder.call(ask, [builder.inttoptr(arguments[0], place), to_read, second_cache, data])
        return context.get_dummy_value()

    return types.void(types.intp), emitted


@kernel_part
def prefetch(row):
    """Ask for a contiguous row. Nothing waits for it, and nothing changes."""
    address = row.ctypes.data
    for place in range(0, row.shape[0] * row.itemsize, LINE):
        _ask(address + place)
