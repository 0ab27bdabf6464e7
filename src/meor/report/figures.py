"""Effects, frontiers, the same facts over time. Each is drawn twice: for a wide page and for a phone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meor.escape import clipped
from meor.evaluation.displacement import Loss
from meor.report.page import Figure
from meor.report.svg import DIAMOND, DIGIT, LETTER, NARROW, WIDE, Canvas, Scale, padded, x_axis, y_axis
from meor.report.words import interval, number, signed
from meor.study.effects import Level

ROW = 24.0
WORDS_LINE = 15.0
KEY = 20.0  # room for the mark of a method before its name


def figure(
    name: str,
    title: str,
    alt: str,
    caption: str,
    draw: Callable[[float], Canvas],
    legend: tuple[tuple[str, str], ...] = (),
) -> Figure:
    return Figure(name, title, alt, caption, draw(WIDE), draw(NARROW), legend)


@dataclass(frozen=True, slots=True)
class ForestRow:
    label: str
    mean: float
    low: float  # two-sided interval
    high: float
    bound: float  # one-sided lower bound
    tone: str = "neutral"  # "good", "bad" or "neutral"
    key: str = ""  # the mark of the method that the row is about

    @property
    def shown(self) -> str:
        return f"{signed(self.mean)}  {interval(self.low, self.high)}"


@dataclass(frozen=True, slots=True)
class ForestGroup:
    title: str
    rows: tuple[ForestRow, ...]
    margin: float | None = None  # a preservation margin to draw


def forest(groups: Sequence[ForestGroup], width: float) -> Canvas:
    """Means with two-sided intervals; the tick on an interval is the one-sided lower bound."""
    wide = width > NARROW
    rows = [row for group in groups for row in group.rows]
    label_width, value_width = _forest_sides(rows, width) if wide else (6.0, 0.0)
    words = 0.0 if wide else _words_above(rows, width)
    row_height = ROW if wide else words + 22
    body = sum(28 + row_height * len(group.rows) for group in groups)
    canvas = Canvas(width, body + 40)
    values = [v for group in groups for row in group.rows for v in (row.low, row.high, row.bound)]
    margins = tuple(-group.margin for group in groups if group.margin is not None)
    scale = Scale(*padded(values, include=(0.0, *margins)), label_width, width - value_width - 8)
    y = 0.0
    x_axis(canvas, scale, 8, body, 6 if wide else 4)
    canvas.line(scale(0), 8, scale(0), body, "zero")
    for group in groups:
        y += 20
        canvas.text(0, y, group.title, "strong")
        y += 8
        for row in group.rows:
            if group.margin is not None:
                at = scale(-group.margin)
                canvas.line(at, y + words + (0 if wide else 3), at, y + row_height, "margin")
            _forest_row(canvas, scale, row, y, words)
            y += row_height
    return canvas


def _forest_sides(rows: Sequence[ForestRow], width: float) -> tuple[float, float]:
    """Room for labels and for numbers beside the plot."""
    labels = max((len(row.label) for row in rows), default=0)
    numbers = max((len(row.shown) for row in rows), default=0)
    return min(max(labels * LETTER + KEY + 14, 110.0), width * 0.4), numbers * DIGIT + 10


def _words_above(rows: Sequence[ForestRow], width: float) -> float:
    """On a phone label and numbers stand above the interval: on one line, or on two if they are long."""
    fit = all(len(row.label) * LETTER + KEY + len(row.shown) * DIGIT + 16 < width for row in rows)
    return WORDS_LINE if fit else 2 * WORDS_LINE


def _forest_row(canvas: Canvas, scale: Scale, row: ForestRow, y: float, words: float) -> None:
    wide = canvas.width > NARROW
    middle = y + (12 if wide else words + 11)
    tone, line = row.tone, y + (16 if wide else 13)
    start = KEY if row.key else 8.0
    if row.key:
        canvas.method(10, line - 4, row.key, 4)
    room = (scale.start if wide else canvas.width) - start - 4
    canvas.text(start, line, clipped(row.label, int(room / LETTER)))
    canvas.text(canvas.width, y + (16 if wide else words - 2), row.shown, "num", "end")
    canvas.line(scale(row.low), middle, scale(row.high), middle, f"interval {tone}")
    canvas.line(scale(row.bound), middle - 6, scale(row.bound), middle + 6, f"bound {tone}")
    canvas.mark(scale(row.mean), middle, DIAMOND, f"dot {tone}", 5)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    x: Level
    y: Level
    label: str  # where on the curve


@dataclass(frozen=True, slots=True)
class FrontierLine:
    name: str
    key: str  # the mark of its method, and "second", ... if others have the same
    points: tuple[CurvePoint, ...]
    is_reference: bool = False


def frontier(lines: Sequence[FrontierLine], width: float) -> Canvas:
    """Up and to the right is better: old answers kept against newcomers learned."""
    wide = width > NARROW
    height = 460.0 if wide else 400.0
    canvas = Canvas(width, height)
    points = [point for line in lines for point in line.points]
    # Ranges follow the means: with few pairs an interval may be wider than everything there is to see.
    x = Scale(*padded([point.x.mean for point in points], pad=0.08), 50, width - 12)
    y = Scale(*padded([point.y.mean for point in points], pad=0.1), height - 46, 24)
    x_axis(canvas, x, 24, height - 46, 6 if wide else 4)
    y_axis(canvas, y, 50, x.end, 6)
    canvas.text((x.start + x.end) / 2, height - 8, "A_TN: newcomers learned →", "muted", "middle")
    canvas.text(0, 12, "H_cur: old answers kept ↑", "muted")
    for line in sorted(lines, key=lambda line: not line.is_reference):
        _frontier_line(canvas, line, x, y)
    return canvas


def _frontier_line(canvas: Canvas, line: FrontierLine, x: Scale, y: Scale) -> None:
    places = [(x(point.x.mean), y(point.y.mean)) for point in line.points]
    if line.is_reference:
        canvas.path(places, "curve reference")
    for point, (at_x, at_y) in zip(line.points, places, strict=True):
        left, right = (x(x.held(value)) for value in point.x.ends)
        low, high = (y(y.held(value)) for value in point.y.ends)
        canvas.line(left, at_y, right, at_y, f"cross {line.key}")
        canvas.line(at_x, low, at_x, high, f"cross {line.key}")
    canvas.path(places, f"curve {line.key}")
    for at_x, at_y in places:
        canvas.method(at_x, at_y, line.key)


@dataclass(frozen=True, slots=True)
class FallLine:
    """The same facts under one method, at each update."""

    name: str
    key: str
    losses: tuple[Loss, ...]


def falls(lines: Sequence[FallLine], width: float) -> Canvas:
    """One line per method, from before any newcomer to after each update; upright parts are newcomers'."""
    wide = width > NARROW
    height, right = (300.0, width - 58) if wide else (270.0, width - 46)
    canvas = Canvas(width, height)
    high = max(level for line in lines for loss in line.losses for level in (loss.old, loss.cur))
    y = Scale(0.0, high * 1.1 or 1.0, height - 34, 24)
    x = Scale(0, len(lines[0].losses), 62, right)
    y_axis(canvas, y, 44, right + 8, 5)
    canvas.text(0, 12, "mean reciprocal rank of the same facts ↑", "muted")
    names = ["start", *(f"{'update ' if wide else 'u'}{loss.update}" for loss in lines[0].losses)]
    for place, name in enumerate(names):
        canvas.text(x(place), height - 12, name, "muted", "middle")
    for nth, line in enumerate(lines):
        _fall_line(canvas, line, x, y, 4.0 * nth)
    canvas.text(x(0) + 8, y(lines[0].losses[0].old) - 8, number(lines[0].losses[0].old, 3), "num strong")
    heights = _apart([y(line.losses[-1].cur) for line in lines])
    for line, at in zip(lines, heights, strict=True):
        canvas.text(right + 14, at + 4, number(line.losses[-1].cur, 3), f"num ink-{line.key}")
    return canvas


def _fall_line(canvas: Canvas, line: FallLine, x: Scale, y: Scale, aside: float) -> None:
    """Lines stand a little aside of each other, or one would hide what newcomers took under the others."""
    before = x(0), y(line.losses[0].old)
    canvas.method(*before, line.key, 3.5)
    for place, loss in enumerate(line.losses, start=1):
        at = x(place) + aside
        canvas.path([before, (at, y(loss.old))], f"curve {line.key}")
        canvas.line(at, y(loss.old), at, y(loss.cur), "taken")
        before = at, y(loss.cur)
        canvas.method(*before, line.key, 3.5)


def _apart(places: Sequence[float], line: float = 14.0) -> list[float]:
    """Where numbers of these heights stand, so that none is printed over another."""
    found = list(places)
    before = float("-inf")
    for index in sorted(range(len(found)), key=found.__getitem__):
        before = found[index] = max(found[index], before + line)
    return found
