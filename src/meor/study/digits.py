"""Four decimals, except where they would deceive.

An effect that is not 0 never prints as 0, and a bound beside the margin of preservation never prints as the
margin.
"""

from __future__ import annotations

from meor.methods.calibration_grid import MARGIN

DECIMALS = 4


def level(value: float) -> str:
    text = f"{value:.{DECIMALS}f}"
    # Rounding must not invent a sign.
    return text.removeprefix("-") if float(text) == 0 else text


def effect(value: float) -> str:
    """Two digits of what four decimals would call 0; only 0 itself is printed as 0."""
    text = level(value)
    if value == 0 or float(text) != 0:
        return text
    return f"{value:.6f}".rstrip("0") if abs(value) >= 1e-5 else f"{value:.1e}"


def bound(value: float) -> str:
    """As many digits as it takes to see on which side of the margin it lies."""
    text, decimals = effect(value), DECIMALS
    while abs(float(text)) == MARGIN != abs(value):
        decimals += 1
        text = f"{value:.{decimals}f}"
    return text
