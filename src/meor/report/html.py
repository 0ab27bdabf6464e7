"""From a folder to its report: one self-contained HTML file, and each figure as an SVG file of its own.

No network, no paths, the same bytes for the same results. A figure alone stands on white, with its title and
legend inside, so that it looks the same in a browser, an editor and a paper.
"""

from __future__ import annotations

import base64
import hashlib
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from meor import __version__
from meor.errors import InputError
from meor.escape import markup, visible
from meor.report.page import Figure, Page
from meor.report.run_page import run_page
from meor.report.study_page import study_page
from meor.report.svg import LETTER, Canvas, legend_mark, px, swatch
from meor.report.verdict_page import read_verdict, verdict_page
from meor.report.words import shown, symbols
from meor.run.layout import MANIFEST, is_run
from meor.run.view import RunView
from meor.storage.disk import Disk, commit_file
from meor.store.layout import VERDICT
from meor.study.rows import RUNS
from meor.study.table import ABSENT, Column, Entry, Value

REPORT = "report.html"
FIGURES = "figures"

MARGIN, TITLE_LINE, LEGEND_LINE = 24.0, 22.0, 20.0
TITLE_LETTERS = 84
SWATCH, GAP = 22.0, 18.0
WIDE_LETTER = 1.15 * LETTER  # whoever opens the file may have a wider font than the page asks for
FONT = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', Arial, sans-serif"


def page_of(
    folder: Path,
    *,
    runs: Path | None = None,
    data_dir: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Page:
    """The report of a run folder, or of a study's folder."""
    if is_run(folder):
        return run_page(RunView.open(folder), data_dir=data_dir, say=say)
    if (folder / RUNS).is_file():
        return study_page(folder, runs=runs, data_dir=data_dir, say=say)
    if (folder / VERDICT).is_file():
        return verdict_page(read_verdict(folder / VERDICT))
    raise InputError(
        f"holds neither a run ({MANIFEST}) nor a study ({RUNS}) nor a verdict ({VERDICT})",
        remedy="Name a folder that `meor run` or `meor study` made, or one of a store's verdicts",
        path=folder,
    )


def render(page: Page) -> str:
    """The whole file. Labels are someone's data: everything is escaped, and scripts are pinned by hash."""
    environment = Environment(
        loader=PackageLoader("meor.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["symbols"] = symbols
    environment.globals |= {"legend_mark": legend_mark, "cell_of": cell_of}
    style, script = _asset("style.css"), _asset("sort.js")
    return environment.get_template("report.html").render(
        page=page,
        style=Markup(style),  # noqa: S704 a file of ours
        script=Markup(script),  # noqa: S704 a file of ours
        style_hash=_csp_hash(style),
        script_hash=_csp_hash(script),
        version=__version__,
    )


class HtmlCell(NamedTuple):
    text: str
    sort: float | None = None
    tone: str = ""
    below: str = ""
    key: str = ""


def cell_of(value: Value, column: Column) -> HtmlCell:
    """A value of a table as it is shown, and the number that it is sorted by."""
    if isinstance(value, str):
        return HtmlCell(value)
    entry = value if isinstance(value, Entry) else Entry(value)
    if entry.text is not None:
        return HtmlCell(entry.text, entry.value, entry.tone, entry.below, entry.key)
    if entry.value is None:
        return HtmlCell(ABSENT, None, "muted", entry.below)
    return HtmlCell(shown(entry.value, column) + entry.mark, entry.value, entry.tone, entry.below)


def write(page: Page, path: Path) -> int:
    """Write the file at once, so that a reader sees all of it or none; its size in bytes."""
    content = render(page).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    commit_file(Disk(), path, content)
    return len(content)


def _finalized(value: object) -> object:
    """Every expression of a template becomes markup here: jinja's own escaping would leave control
    characters as they are."""
    return markup(value) if isinstance(value, str) else value


def _asset(name: str) -> str:
    return files("meor.report").joinpath("templates", name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def write_figures(page: Page, folder: Path) -> list[Path]:
    """Every figure of a page, under its own name; a second one of a kind is numbered."""
    folder.mkdir(parents=True, exist_ok=True)
    seen: Counter[str] = Counter()
    written = []
    for figure in figures_of(page):
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
    sheet = _asset("style.css")
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", sheet[: sheet.index("@media")]))
    start = sheet.index("/* drawings */")
    rules = sheet[start : sheet.index("@media", start)]
    resolved = re.sub(r"var\(--([\w-]+)\)", lambda found: colours[found[1]], rules)
    # Programs that do not know paint-order would draw the page's halo over the letters.
    return resolved + "svg text { stroke: none; }\nsvg .title { font-size: 16px; }\n"


def figures_of(page: Page) -> Iterator[Figure]:
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
