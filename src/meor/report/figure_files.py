"""Figures as files of their own: title, legend and drawing in one SVG that needs nothing beside it.

The page's drawings take their colours from its style sheet; here the light ones are written in, so that a
figure looks the same in a browser, an editor and a paper.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from meor.escape import markup, visible
from meor.report.page import Figure, Page
from meor.report.svg import LETTER, Canvas, px, swatch
from meor.storage.disk import Disk, commit_file

FIGURES = "figures"

MARGIN, TITLE_LINE, LEGEND_LINE = 24.0, 22.0, 20.0
TITLE_LETTERS = 84
SWATCH, GAP = 22.0, 18.0
WIDE_LETTER = 1.15 * LETTER  # whoever opens the file may have a wider font than the page asks for
FONT = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', Arial, sans-serif"


def write_figures(page: Page, folder: Path) -> list[Path]:
    """Every figure of a page, under its own name; a second one of a kind is numbered."""
    folder.mkdir(parents=True, exist_ok=True)
    seen: Counter[str] = Counter()
    written = []
    for figure in _figures(page):
        seen[figure.name] += 1
        number = seen[figure.name]
        path = folder / f"{figure.name}{'' if number == 1 else f'-{number}'}.svg"
        commit_file(Disk(), path, standalone(figure).encode())
        written.append(path)
    return written


def standalone(figure: Figure) -> str:
    """The whole file."""
    canvas = _composed(figure)
    size = px(canvas.width), px(canvas.height)
    head = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" '
        'role="img" aria-label="{2}" font-family="{3}">\n<title>{4}</title>\n<desc>{5}</desc>\n'
    ).format(*size, *(markup(text) for text in (figure.alt, FONT, figure.title, figure.caption)))
    style = Markup("<style>\n{}</style>\n").format(Markup(drawing_style()))  # noqa: S704 a file of ours
    return str(head + style + Markup("\n").join(canvas.parts) + Markup("\n</svg>\n"))


def drawing_style() -> str:
    """The page's rules for drawings, with the light scheme's colours in place of its variables."""
    sheet = files("meor.report").joinpath("templates", "style.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", sheet[: sheet.index("@media")]))
    start = sheet.index("/* drawings */")
    rules = sheet[start : sheet.index("@media", start)]
    resolved = re.sub(r"var\(--([\w-]+)\)", lambda found: colours[found[1]], rules)
    # Programs that do not know paint-order would draw the page's halo over the letters.
    return resolved + "svg text { stroke: none; }\nsvg .title { font-size: 16px; }\n"


def _figures(page: Page) -> Iterator[Figure]:
    for section in page.sections:
        yield from (block for block in section.blocks if isinstance(block, Figure))


def _composed(figure: Figure) -> Canvas:
    """White ground, the title, the legend, and the drawing below them."""
    drawing = figure.wide
    lines = textwrap.wrap(visible(figure.title), TITLE_LETTERS)
    legend = _legend_places(figure, drawing.width)
    legend_top = MARGIN + TITLE_LINE * len(lines) + 4
    rows = max((row for row, _ in legend), default=-1) + 1
    top = legend_top + LEGEND_LINE * rows + 10
    canvas = Canvas(drawing.width + 2 * MARGIN, top + drawing.height + MARGIN)
    canvas.add("rect", width=canvas.width, height=canvas.height, fill="#ffffff")
    for at, line in enumerate(lines):
        canvas.text(MARGIN, MARGIN + 12 + TITLE_LINE * at, line, "strong title")
    for (name, words), (row, x) in zip(figure.legend, legend, strict=True):
        y = legend_top + LEGEND_LINE * row
        swatch(canvas, name, MARGIN + x, y)
        canvas.text(MARGIN + x + SWATCH, y + 10, words, "muted")
    canvas.add("g", Markup("").join(drawing.parts), transform=f"translate({px(MARGIN)} {px(top)})")
    return canvas


def _legend_places(figure: Figure, width: float) -> list[tuple[int, float]]:
    """Row and left end of each entry: beside each other as long as they fit."""
    places: list[tuple[int, float]] = []
    row, x = 0, 0.0
    for _, words in figure.legend:
        needed = SWATCH + WIDE_LETTER * len(words)
        if x and x + needed > width:
            row, x = row + 1, 0.0
        places.append((row, x))
        x += needed + GAP
    return places
