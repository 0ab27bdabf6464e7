"""Division of many numbers by one, to the bit: training divides whole rows by their length."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg"

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from meor.compiled import kernel_part


@intrinsic
def _fused_add(_typing: Any, _x: Any, _y: Any, _z: Any) -> Any:
    """x y + z, rounded once."""

    def emitted(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(*(types.float64,) * 3), emitted


@kernel_part
def divided(x, y, inverse):
    """x / y to the bit, given 1 / y, in a third of the time where y divides many numbers.

    The first correction leaves at most one wrong last digit, and the second one rounds it (Markstein, 1990).
    Where x or y is no finite number of normal size, neither is the answer.
    """
    guess = x * inverse
    guess = _fused_add(_fused_add(-guess, y, x), inverse, guess)
    return _fused_add(_fused_add(-guess, y, x), inverse, guess)
