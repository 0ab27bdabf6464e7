"""Two drawings from a real record: how admission crowds a query, and what MEOR compares. And matching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meor.escape import clipped
from meor.report.svg import DIAMOND, NARROW, Canvas, Scale, x_axis
from meor.report.words import count, number, share

SHOWN_AHEAD = 24
"""Entities drawn ahead of an answer; beyond, they are counted."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """One query at one update: who stands before its answer."""

    update: int
    n_old: int
    n_cur: int
    ahead_old: int
    ahead_new: int


def growth(crowds: Sequence[Crowd], base: int, answer: str, width: float) -> Canvas:
    """Left: the candidate universe of each snapshot. Right: the places before the answer."""
    wide = width > NARROW
    row = 62.0 if wide else 92.0
    canvas = Canvas(width, row * (len(crowds) + 1) + 8)
    most = max(crowd.n_cur for crowd in crowds)
    area_end = 236.0 if wide else width
    area = Scale(0, most, 0, area_end - 10)
    canvas.text(0, 14, "snapshot 0", "strong")
    canvas.rect(0, 22, area(base), 14, "fill-old", 2)
    canvas.text(0, 50, f"{count(base)} candidates", "tiny muted")
    if wide:
        canvas.text(area_end + 16, 14, f"places before the answer “{clipped(answer, 42)}”", "muted")
        canvas.text(area_end + 16, 33, "newcomers are shown in orange", "tiny ink-new")
    for index, crowd in enumerate(crowds, start=1):
        top = row * index
        canvas.line(0, top, width, top, "grid")
        canvas.text(0, top + 18, f"update {crowd.update}", "strong")
        canvas.rect(0, top + 25, area(crowd.n_old), 14, "fill-old", 2)
        canvas.rect(area(crowd.n_old), top + 25, area(crowd.n_cur) - area(crowd.n_old), 14, "fill-new", 2)
        admitted = crowd.n_cur - crowd.n_old
        added = f"{count(crowd.n_old)}{f' + {count(admitted)}' if admitted else ', no'} newcomers"
        canvas.text(0, top + 53, added, "tiny muted")
        _places(canvas, crowd, (area_end + 16, top + 22) if wide else (0.0, top + 62))
    return canvas


def _places(canvas: Canvas, crowd: Crowd, at: tuple[float, float]) -> None:
    x, y = at
    wide = canvas.width > NARROW
    step = 13.0 if wide else 11.0
    room = min(SHOWN_AHEAD, int((canvas.width - x - 40) / step) - 1)
    shown = [("fill-old", crowd.ahead_old), ("fill-new", crowd.ahead_new)]
    total = crowd.ahead_old + crowd.ahead_new
    squeeze = min(1.0, room / total) if total else 1.0
    drawn = 0
    for tone, ahead in shown:
        squares = round(ahead * squeeze) or int(ahead > 0)
        for _ in range(squares):
            canvas.rect(x + drawn * step, y, step - 3, step - 3, tone, 2)
            drawn += 1
    canvas.mark(x + drawn * step + 5, y + 5, DIAMOND, "answer", 6)
    rank = f"rank {count(1 + crowd.ahead_old)} → {count(1 + total)}"
    if not crowd.ahead_new:
        rank = f"rank {count(1 + total)}, nobody new before it"
    scaled = "" if squeeze == 1.0 else " (not to scale)"
    if wide:
        canvas.text(x, y + 29, rank + scaled, "tiny muted")
    else:
        canvas.text(canvas.width, y - 44, rank, "tiny muted", "end")


@dataclass(frozen=True, slots=True)
class Strip:
    """Normalised gaps of one set of candidates; the answer is at 0."""

    name: str
    gaps: tuple[float, ...]  # sorted, largest first
    pressure: float
    tone: str  # "new" or "old"


@dataclass(frozen=True, slots=True)
class ExcessDrawing:
    strips: tuple[Strip, ...]  # newcomers first, then one per draw
    reference: float  # mean pressure of the draws
    tau: float
    answer: str
    measure: str = "U"  # U for the smooth aggregate, V for the maximum

    @property
    def excess(self) -> float:
        return max(self.strips[0].pressure - self.reference, 0.0)


def comparison(drawing: ExcessDrawing, width: float) -> Canvas:
    """Answer, newcomers and matched old entities on one axis, in units of tau."""
    wide = width > NARROW
    left, right = (150.0, width - 96) if wide else (6.0, width - 6)
    row = 58.0 if wide else 76.0
    head = 46.0
    canvas = Canvas(width, head + row * (len(drawing.strips) + 1) + 30)
    top_gap = max([gap for strip in drawing.strips for gap in strip.gaps] + [1.0])
    x = Scale(-max(1.2, 0.6 * top_gap), top_gap * 1.06 + 0.05, left, right)
    bottom = head + row * (len(drawing.strips) + 1)
    _gap_axis(canvas, x, head, bottom)
    _tau_bracket(canvas, x, drawing.tau)
    tallest = max(_bins(strip, x)[1] for strip in drawing.strips)
    for index, strip in enumerate(drawing.strips):
        _strip(canvas, strip, x, head + row * index, row, tallest, drawing.measure)
    _excess(canvas, drawing, x, head + row * len(drawing.strips), row)
    canvas.line(x(0), head - 8, x(0), bottom, "answer-line")
    canvas.mark(x(0), head - 12, DIAMOND, "answer", 6)
    anchor = "start" if x(0) < width / 2 else "end"
    canvas.text(
        x(0) + (10 if anchor == "start" else -10), head - 9, clipped(drawing.answer, 30), "strong", anchor
    )
    return canvas


def _gap_axis(canvas: Canvas, x: Scale, top: float, bottom: float) -> None:
    x_axis(canvas, x, top, bottom, 6 if canvas.width > NARROW else 4, below=15)
    canvas.text(x.end, bottom + 28, "score above the answer, in τ →", "tiny muted", "end")


def _tau_bracket(canvas: Canvas, x: Scale, tau: float) -> None:
    start, end = x(0), x(1)
    canvas.line(start, 9, end, 9, "bracket")
    canvas.line(start, 5, start, 13, "bracket")
    canvas.line(end, 5, end, 13, "bracket")
    beyond = end + 110 > canvas.width
    at, anchor = (start - 8, "end") if beyond else (end + 6, "start")
    canvas.text(at, 13, f"τ = {number(tau, 3)} in score", "tiny muted", anchor)


BIN = 4.0
"""Pixels of a bin of candidates below the answer."""


def _bins(strip: Strip, x: Scale) -> tuple[dict[int, int], int]:
    """How many candidates fall into each bin of the axis; those off the left edge are left out."""
    found: dict[int, int] = {}
    for gap in strip.gaps:
        if gap >= x.low:
            at = int((x(gap) - x.start) // BIN)
            found[at] = found.get(at, 0) + 1
    return found, max(found.values(), default=1)


def _strip(
    canvas: Canvas, strip: Strip, x: Scale, top: float, row: float, tallest: int, measure: str
) -> None:
    wide = canvas.width > NARROW
    base = top + row - 10
    room = 34.0
    for at, size in sorted(_bins(strip, x)[0].items()):
        left = x.start + at * BIN
        above = left + BIN > x(0)
        height = max(2.5, room * (size / tallest) ** 0.5)
        canvas.rect(
            left, base - height, BIN - 1, height, f"fill-{strip.tone}" + ("" if above else " faint"), 1
        )
    canvas.line(x.start, base, x.end, base, "base")
    ahead = sum(gap > 0 for gap in strip.gaps)
    told = f"{count(ahead)} of {count(len(strip.gaps))} ahead"
    canvas.text(0, top + (base - top - 20 if wide else 14), strip.name, f"strong ink-{strip.tone}")
    if wide:
        canvas.text(0, base - 4, told, "tiny muted")
    else:
        canvas.text(canvas.width, top + 14, told, "tiny muted", "end")
    _pressure(canvas, x(strip.pressure), base, strip.tone)
    if wide:
        canvas.text(
            canvas.width, base - 4, f"{measure} = {number(strip.pressure, 3)}", f"num ink-{strip.tone}", "end"
        )


def _pressure(canvas: Canvas, x: float, y: float, tone: str) -> None:
    canvas.path([(x, y + 1), (x - 5, y + 9), (x + 5, y + 9)], f"fill-{tone}", closed=True)


def _excess(canvas: Canvas, drawing: ExcessDrawing, x: Scale, top: float, row: float) -> None:
    wide = canvas.width > NARROW
    new, old = drawing.strips[0].pressure, drawing.reference
    base = top + row - 22
    canvas.text(0, base - 2 if wide else top + 14, "excess", "strong")
    told = f"{number(new, 3)} − {number(old, 3)} = {number(drawing.excess, 3)}"
    if new <= old:
        told = f"{number(new, 3)} ≤ {number(old, 3)}: no penalty"
    start, end = sorted((x(old), x(new)))
    canvas.rect(start, base - 8, max(end - start, 1.5), 12, "fill-new" if new > old else "fill-old faint", 2)
    _pressure(canvas, x(old), base + 6, "old")
    _pressure(canvas, x(new), base + 6, "new")
    canvas.text(canvas.width, top + 14 if not wide else base + 2, told, "num", "end")


@dataclass(frozen=True, slots=True)
class Levels:
    """Shares of newcomers that found their reference at each of the three keys."""

    update: int
    shares: tuple[float, float, float]
    occurrences: int


def matching(levels: Sequence[Levels], width: float) -> Canvas:
    wide = width > NARROW
    row = 34.0 if wide else 44.0
    left = 84.0 if wide else 0.0
    canvas = Canvas(width, row * len(levels) + 6)
    x = Scale(0.0, 1.0, left, width)
    for index, each in enumerate(levels):
        top = row * index + (4 if wide else 18)
        canvas.text(0, top + 15 if wide else top - 4, f"update {each.update}", "strong")
        start = 0.0
        for level, part in enumerate(each.shares):
            canvas.rect(x(start), top, x(start + part) - x(start), 20, f"level{level}")
            if part > (0.09 if wide else 0.16):
                canvas.text(x(start) + 6, top + 14.5, share(part), f"tiny on-level{level}")
            start += part
    return canvas
