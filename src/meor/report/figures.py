"""The figures of a study and of a run's losses. Each is drawn twice: for a wide page and for a phone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meor.escape import clipped
from meor.report.page import Figure
from meor.report.svg import DIGIT, LETTER, NARROW, WIDE, Canvas, Scale, padded, x_axis, y_axis
from meor.report.words import bounds, effect, number, signed
from meor.study.effects import Level

ROW = 24
WORDS_LINE = 14.0


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

    @property
    def shown(self) -> str:
        return f"{effect(self.mean)}  {bounds(self.low, self.high)}"


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
    return min(max(labels * LETTER + 22, 110.0), width * 0.4), numbers * DIGIT + 6


def _words_above(rows: Sequence[ForestRow], width: float) -> float:
    """On a phone label and numbers stand above the interval: on one line, or on two if they are long."""
    fit = all(len(row.label) * LETTER + len(row.shown) * DIGIT + 10 < width for row in rows)
    return WORDS_LINE if fit else 2 * WORDS_LINE


def _forest_row(canvas: Canvas, scale: Scale, row: ForestRow, y: float, words: float) -> None:
    wide = canvas.width > NARROW
    middle = y + (12 if wide else words + 11)
    tone = row.tone
    room = (scale.start if wide else canvas.width) - 12
    canvas.text(8 if wide else 4, y + (16 if wide else 13), clipped(row.label, int(room / LETTER)))
    canvas.text(canvas.width, y + (16 if wide else words - 1), row.shown, "num", "end")
    canvas.line(scale(row.low), middle, scale(row.high), middle, f"interval {tone}")
    canvas.line(scale(row.bound), middle - 6, scale(row.bound), middle + 6, f"bound {tone}")
    canvas.mark(scale(row.mean), middle, 3, f"dot {tone}", 5)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    x: Level
    y: Level
    label: str  # the multiple


@dataclass(frozen=True, slots=True)
class FrontierLine:
    name: str
    tone: int  # number of the method's colour and shape
    points: tuple[CurvePoint, ...]


def frontier(lines: Sequence[FrontierLine], width: float) -> Canvas:
    """Up and to the right is better: old facts kept against newcomers learned."""
    wide = width > NARROW
    height = 440.0 if wide else 390.0
    canvas = Canvas(width, height)
    points = [point for line in lines for point in line.points]
    # Ranges follow the means: with few pairs an interval may be wider than everything there is to see.
    x = Scale(*padded([point.x.mean for point in points], pad=0.14), 50, width - 10)
    y = Scale(*padded([point.y.mean for point in points], pad=0.14), height - 46, 24)
    x_axis(canvas, x, 24, height - 46, 6 if wide else 4)
    y_axis(canvas, y, 50, x.end, 6)
    canvas.text((x.start + x.end) / 2, height - 8, "A_TN: newcomers learned →", "muted", "middle")
    canvas.text(0, 12, "H_cur: old facts kept ↑", "muted")
    for line in lines:
        _frontier_line(canvas, line, x, y, labelled=line is lines[-1])
    return canvas


def _frontier_line(canvas: Canvas, line: FrontierLine, x: Scale, y: Scale, *, labelled: bool) -> None:
    tone = f"m{line.tone}"
    places = [(x(point.x.mean), y(point.y.mean)) for point in line.points]
    for point, (at_x, at_y) in zip(line.points, places, strict=True):
        left, right = (x(x.held(value)) for value in point.x.ends)
        low, high = (y(y.held(value)) for value in point.y.ends)
        canvas.line(left, at_y, right, at_y, f"cross {tone}")
        canvas.line(at_x, low, at_x, high, f"cross {tone}")
    canvas.path(places, f"curve {tone}")
    for point, (at_x, at_y) in zip(line.points, places, strict=True):
        canvas.mark(at_x, at_y, line.tone, f"mark {tone}")
        if labelled and point.label:
            canvas.text(at_x + 7, at_y - 6, point.label, f"tiny strong ink-{tone}")


@dataclass(frozen=True, slots=True)
class Loss:
    """Old facts at one update: in the old universe, and with the newcomers in it."""

    update: int
    old: float
    cur: float


@dataclass(frozen=True, slots=True)
class LossPanel:
    title: str
    losses: tuple[Loss, ...]


def loss_panels(panels: Sequence[LossPanel], width: float) -> Canvas:
    """For each update a pair of levels; the gap between them is what newcomers took."""
    wide = width > NARROW
    columns = (3 if len(panels) == 3 else min(len(panels), 2)) if wide else 1
    panel_height = 230.0
    rows = -(-len(panels) // columns)
    canvas = Canvas(width, panel_height * rows)
    high = max((v for panel in panels for loss in panel.losses for v in (loss.old, loss.cur)), default=1.0)
    gap = 26.0
    panel_width = (width - gap * (columns - 1)) / columns
    for index, panel in enumerate(panels):
        left = (index % columns) * (panel_width + gap)
        top = (index // columns) * panel_height
        _loss_panel(canvas, panel, (left, top), (panel_width, panel_height), high)
    return canvas


def _loss_panel(
    canvas: Canvas, panel: LossPanel, corner: tuple[float, float], size: tuple[float, float], high: float
) -> None:
    left, top = corner
    width, height = size
    y = Scale(0.0, high * 1.12 or 1.0, top + height - 34, top + 26)
    canvas.text(left, top + 14, panel.title, "strong")
    y_axis(canvas, y, left + 40, left + width, 4)
    slot = (width - 48) / max(len(panel.losses), 1)
    bar = min(slot * 0.52, 64)
    for index, loss in enumerate(panel.losses):
        middle = left + 44 + slot * (index + 0.5)
        canvas.rect(middle - bar / 2, y(loss.cur), bar, y(0) - y(loss.cur), "fill-old soft", 2)
        canvas.rect(middle - bar / 2, y(loss.old), bar, y(loss.cur) - y(loss.old), "fill-new")
        canvas.line(middle - bar / 2 - 4, y(loss.old), middle + bar / 2 + 4, y(loss.old), "level-old")
        lost = signed(loss.cur - loss.old, 3 if slot > 50 else 2)
        canvas.text(middle, y(loss.old) - 6, lost, "tiny ink-new", "middle")
        canvas.text(
            middle,
            top + height - 16,
            f"update {loss.update}" if slot > 58 else f"u{loss.update}",
            "muted",
            "middle",
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One drop or rise of the same facts' mean reciprocal rank."""

    label: str
    start: float
    end: float
    cause: str  # "old", "new" or "" for a level


def waterfall(steps: Sequence[Change], width: float) -> Canvas:
    """The same facts through all updates, each change with its cause; read from top to bottom."""
    wide = width > NARROW
    row = 30.0
    label_width = 210.0 if wide else 8.0
    row = row if wide else 44.0
    canvas = Canvas(width, row * len(steps) + 34)
    high = max((max(step.start, step.end) for step in steps), default=1.0)
    x = Scale(0.0, high * 1.04 or 1.0, label_width, width - 74)
    x_axis(canvas, x, 2, row * len(steps), 5 if wide else 3)
    for index, step in enumerate(steps):
        top = row * index
        bar = top + (6 if wide else 20)
        canvas.text(0, top + (20 if wide else 14), clipped(step.label, 34), "" if step.cause else "strong")
        low, high_end = sorted((step.start, step.end))
        tone = {"old": "fill-mid", "new": "fill-new", "": "fill-old"}[step.cause]
        canvas.rect(x(low), bar, max(x(high_end) - x(low), 1.2), 18, tone, 2)
        if index + 1 < len(steps):
            canvas.line(x(step.end), bar + 18, x(step.end), bar + row, "link")
        shown = number(step.end, 3) if not step.cause else signed(step.end - step.start, 3)
        ink = {"old": "ink-mid", "new": "ink-new", "": "strong"}[step.cause]
        canvas.text(x(high_end) + 7, bar + 14, shown, f"num {ink}")
    return canvas
