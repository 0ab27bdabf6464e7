"""A small canvas for drawings that take their colours from the page: light, dark and print alike.

Text is text, so it can be searched, zoomed and read aloud; every label is escaped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

from markupsafe import Markup

from meor.escape import markup
from meor.methods import CAP, METHODS
from meor.report.words import method_name, svg_symbols
from meor.study.table import Entry

WIDE, NARROW = 720, 350
LETTER = 6.6  # mean width of a letter at the figures' 12.5 px
DIGIT = 6.9  # and of a character in their numbers


def px(value: float) -> str:
    """Two places are below what a screen shows; the same bytes for the same figure."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@dataclass(slots=True)
class Canvas:
    width: float
    height: float
    parts: list[Markup] = field(default_factory=list)

    def add(self, name: str, content: str | Markup = "", **attributes: float | str) -> None:
        shown = "".join(
            f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"' for key, value in attributes.items()
        )
        inner = markup(content)
        closed = f"<{name}{shown}>{inner}</{name}>" if inner else f"<{name}{shown}/>"
        self.parts.append(Markup(closed))  # noqa: S704 attributes and content are escaped above

    def text(self, x: float, y: float, words: str, class_: str = "", anchor: str = "start") -> None:
        self.add("text", svg_symbols(words), x=x, y=y, class_=class_, text_anchor=anchor)

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)

    def rect(self, x: float, y: float, width: float, height: float, class_: str, radius: float = 0) -> None:
        size = {"width": max(width, 0), "height": max(height, 0)}
        self.add("rect", "", x=x, y=y, **size, **_radius(radius), class_=class_)

    def circle(self, x: float, y: float, radius: float, class_: str) -> None:
        self.add("circle", cx=x, cy=y, r=radius, class_=class_)

    def path(self, points: list[tuple[float, float]], class_: str, *, closed: bool = False) -> None:
        steps = " ".join(f"{'L' if at else 'M'}{px(x)} {px(y)}" for at, (x, y) in enumerate(points))
        self.add("path", d=steps + ("Z" if closed else ""), class_=class_)

    def mark(self, x: float, y: float, shape: int, class_: str, size: float = 4.5) -> None:
        if shape == 0:
            self.circle(x, y, size, class_)
            return
        self.path([(x + size * a, y + size * b) for a, b in _SHAPES[shape]], class_, closed=True)

    def method(self, x: float, y: float, key: str, size: float = 4.5) -> None:
        """The mark of a method: methods differ by shape as well as by colour."""
        self.mark(x, y, int(key.partition(" ")[0].removeprefix("m")), f"mark {key}", size)

    def drawn(self, alt: str) -> Markup:
        """The svg element. Its words for those who do not see it stand in aria-label."""
        head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            px(self.width), px(self.height), markup(alt)
        )
        return head + Markup("").join(self.parts) + Markup("</svg>")


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return self.start + (value - self.low) / span * (self.end - self.start)

    def held(self, value: float) -> float:
        """The value, or the end of the range it lies beyond."""
        return min(max(value, self.low), self.high)

    def ticks(self, about: int = 5) -> list[float]:
        """Round values inside the range."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        raw = span / max(about, 1)
        magnitude = 10.0 ** math.floor(math.log10(raw))
        step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [0.0 if n == 0 else n * step for n in range(first, last + 1)]


_UPRIGHT = ("bound neutral", "interval neutral", "margin")


def swatch(canvas: Canvas, name: str, x: float = 0.0, y: float = 0.0) -> None:
    """What a legend shows beside its words, 16 by 12: named by the class of what it explains."""
    if name == "answer":
        canvas.mark(x + 8, y + 6, DIAMOND, name, 4.8)
    elif name == "level-old":
        canvas.line(x, y + 6, x + 16, y + 6, name)
    elif name in _UPRIGHT:
        canvas.line(x + 8, y, x + 8, y + 12, name)
    elif name.startswith("curve "):
        canvas.path([(x, y + 6), (x + 16, y + 6)], name)
        if name.startswith("curve m"):
            canvas.method(x + 8, y + 6, name.removeprefix("curve "), 4)
    elif name.startswith("mark "):
        canvas.method(x + 8, y + 6, name.removeprefix("mark "), 5)
    else:
        canvas.rect(x, y, 16, 12, name, 2)


def legend_mark(name: str) -> Markup:
    """A swatch, alone."""
    canvas = Canvas(16, 12)
    swatch(canvas, name)
    return Markup("").join(canvas.parts)


def padded(values: list[float], *, include: tuple[float, ...] = (), pad: float = 0.06) -> tuple[float, float]:
    """A range that holds every value, with some air."""
    everything = [*values, *include] or [0.0, 1.0]
    low, high = min(everything), max(everything)
    air = (high - low) * pad or abs(high) * pad or 0.01
    return low - air, high + air


def tick_labels(ticks: list[float]) -> list[str]:
    """All with the same number of places."""
    gaps = [b - a for a, b in pairwise(ticks)]
    step = min(gaps) if gaps else 1.0
    places = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    if places and round(step, places) != step and abs(step * 10**places - round(step * 10**places)) > 1e-6:
        places += 1
    return [f"{tick:.{places}f}".replace("-", "−") for tick in ticks]


def x_axis(canvas: Canvas, scale: Scale, top: float, bottom: float, about: int, below: float = 16) -> None:
    ticks = scale.ticks(about)
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        canvas.line(scale(tick), top, scale(tick), bottom, "grid")
        canvas.text(scale(tick), bottom + below, label, "tiny muted", "middle")


def y_axis(canvas: Canvas, scale: Scale, left: float, right: float, about: int) -> None:
    ticks = scale.ticks(about)
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        canvas.line(left, scale(tick), right, scale(tick), "grid")
        canvas.text(left - 6, scale(tick) + 4, label, "tiny muted", "end")


def _polygon(corners: int, turn: float = 0.0, inner: float = 1.0) -> list[tuple[float, float]]:
    """Corners on a circle; every second one may lie nearer to its centre."""
    radius = (1.25, 1.25 * inner)
    angles = (turn + 2 * math.pi * k / corners for k in range(corners))
    return [(radius[k % 2] * math.sin(a), -radius[k % 2] * math.cos(a)) for k, a in enumerate(angles)]


_PLUS = [(0.35, 1.1), (0.35, 0.35), (1.1, 0.35)]
_SHAPES: list[list[tuple[float, float]]] = [
    [],  # a circle
    [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    [(0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
    [(0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
    [
        *((x, y) for x, y in _PLUS),
        *((x, -y) for x, y in reversed(_PLUS)),
        *((-x, -y) for x, y in _PLUS),
        *((-x, y) for x, y in reversed(_PLUS)),
    ],
    _polygon(10, inner=0.44),
    _polygon(4),
    _polygon(8, math.pi / 4, inner=0.4),
    _polygon(3, math.pi / 2),
    _polygon(6, math.pi / 6),
]
DIAMOND = 6
_CAPPED = len(_SHAPES) - 1


def method_key(method: str) -> str:
    """The class of a method's colour and shape, by its place in the registry.

    A method that is capped has those of the method without a cap, drawn hollow; the cap alone has its own.
    One that brings its coefficient looks like the one that does not.
    """
    if method == CAP:
        return f"m{_CAPPED}"
    plain = [each for each in METHODS.values() if not each.capped]
    known = METHODS.get(method)
    own = known and (known.kind, known.variant, known.build)
    place = next((at for at, e in enumerate(plain) if (e.kind, e.variant, e.build) == own), len(plain))
    return f"m{place % _CAPPED}" + (" capped" if known is not None and known.capped else "")


def method_entry(method: str) -> Entry:
    """A method in a table, with its mark."""
    return Entry(None, text=method_name(method), key=f"mark {method_key(method)}")


def _attribute(value: float | str) -> str:
    return str(markup(value)) if isinstance(value, str) else px(value)


def _radius(radius: float) -> dict[str, float]:
    return {"rx": radius} if radius else {}
