"""The picture of `meor dial`: what a scale of newcomers' rows gives and takes."""

from __future__ import annotations

import math
from functools import partial

from meor.report.figures import figure
from meor.report.page import Figure
from meor.report.svg import NARROW, Canvas, Scale, padded, x_axis, y_axis
from meor.report.words import number
from meor.run.dial import Dial

HEIGHT, GAP = 330.0, 30.0
TONES = {"H_cur": "old", "H_old": "old soft", "A_TN": "new", "A_QN": "new soft"}
"""The colour of an endpoint: that of old answers or that of newcomers; soft ones are dashed."""
LABELLED = (1.0, 0.5, 2.0, 0.7, 1.4, 0.8, 1.2, 0.9, 1.1)
"""Scales that are named along a curve, the most important first."""
ROOM = 30.0  # between two of these names

Corner = tuple[float, float]
Series = list[tuple[float, float]]  # (scale, value)
Placed = list[tuple[float, float, float]]  # (scale, x, y) of points on the canvas


def dial_figure(dial: Dial, title: str) -> Figure:
    """H_cur and A_QN against A_TN, and every endpoint over the scale."""
    told = ", ".join(
        f"{name} from {number(series[0][1], 3)} to {number(series[-1][1], 3)}"
        for name in TONES
        if (series := _series(dial, name))
    )
    low, high = dial.scales[0], dial.scales[-1]
    return figure(
        "dial",
        title,
        f"As the scale rises from {low:g} to {high:g}: {told}.",
        "Every point is the same training: the rows of all entities after snapshot 0 times one scale. The "
        f"larger mark is the run as it was trained (scale 1). {dial.split.value.capitalize()} facts.",
        partial(_drawn, dial),
        (
            ("curve old", "H_cur: old answers"),
            ("curve old soft", "H_old: the same among old entities"),
            ("curve new", "A_TN: answers that are newcomers"),
            ("curve new soft", "A_QN: queries about newcomers"),
        ),
    )


def _series(dial: Dial, name: str) -> Series:
    return [
        (scale, value)
        for scale, value in zip(dial.scales, dial.values(name), strict=True)
        if value is not None
    ]


def _drawn(dial: Dial, width: float) -> Canvas:
    wide = width > NARROW
    canvas = Canvas(width, HEIGHT if wide else 2 * HEIGHT + GAP)
    panel = (width - GAP) / 2 if wide else width
    _trade(canvas, dial, (0.0, 0.0), panel)
    _over_scale(canvas, dial, (panel + GAP, 0.0) if wide else (0.0, HEIGHT + GAP), panel)
    return canvas


def _trade(canvas: Canvas, dial: Dial, corner: Corner, width: float) -> None:
    """Up and to the right is better."""
    left, top = corner
    gained = dict(_series(dial, "A_TN"))
    curves = {
        name: [(scale, gained[scale], value) for scale, value in _series(dial, name) if scale in gained]
        for name in ("H_cur", "A_QN")
    }
    values = [value for points in curves.values() for _, _, value in points]
    x = Scale(*padded(list(gained.values())), left + 44, left + width - 8)
    y = Scale(*padded(values), top + HEIGHT - 44, top + 24)
    x_axis(canvas, x, top + 24, top + HEIGHT - 44, 4)
    y_axis(canvas, y, left + 44, x.end, 5)
    canvas.text(left, top + 12, "H_cur and A_QN ↑", "muted")
    canvas.text((x.start + x.end) / 2, top + HEIGHT - 8, "A_TN →", "muted", "middle")
    for name, points in curves.items():
        if not points:
            continue
        placed = [(scale, x(at), y(value)) for scale, at, value in points]
        _curve(canvas, placed, TONES[name])
        if name == "H_cur":
            _name_scales(canvas, placed)


def _name_scales(canvas: Canvas, points: Placed) -> None:
    """The scale beside some points, as far as there is room."""
    named: list[tuple[float, float]] = []
    for wanted in LABELLED:
        scale, at, value = min(points, key=lambda point: abs(math.log(point[0] / wanted)))
        near = any(math.hypot(at - x, value - y) < ROOM for x, y in named)
        if not near and abs(math.log(scale / wanted)) < 0.05:
            named.append((at, value))
            canvas.text(at + 6, value - 6, f"{scale:.2g}", "tiny ink-old")


def _over_scale(canvas: Canvas, dial: Dial, corner: Corner, width: float) -> None:
    left, top = corner
    curves = {name: _series(dial, name) for name in TONES}
    values = [value for series in curves.values() for _, value in series]
    ends = math.log2(dial.scales[0]), math.log2(dial.scales[-1])
    x = Scale(*(ends if ends[0] < ends[1] else padded(list(ends))), left + 44, left + width - 8)
    y = Scale(*padded(values), top + HEIGHT - 44, top + 24)
    y_axis(canvas, y, left + 44, x.end, 5)
    for scale in (wanted for wanted in (0.5, 0.7, 1.0, 1.4, 2.0) if ends[0] <= math.log2(wanted) <= ends[1]):
        at = x(math.log2(scale))
        canvas.line(at, top + 24, at, top + HEIGHT - 44, "zero" if scale == 1 else "grid")
        canvas.text(at, top + HEIGHT - 28, f"{scale:g}", "tiny muted", "middle")
    canvas.text(left, top + 12, "mean reciprocal rank", "muted")
    canvas.text((x.start + x.end) / 2, top + HEIGHT - 8, "scale of newcomers' rows →", "muted", "middle")
    for name, series in curves.items():
        _curve(canvas, [(scale, x(math.log2(scale)), y(value)) for scale, value in series], TONES[name])


def _curve(canvas: Canvas, points: Placed, tone: str) -> None:
    canvas.path([(at, value) for _, at, value in points], f"curve {tone}")
    for scale, at, value in points:
        if scale == 1.0:
            canvas.circle(at, value, 5, f"dot {tone}")
