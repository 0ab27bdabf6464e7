"""From a page to one self-contained HTML file: no network, no paths, the same bytes for the same results."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from meor import __version__
from meor.escape import markup
from meor.report.page import Page
from meor.report.svg import legend_mark
from meor.report.words import symbols
from meor.storage.disk import Disk, commit_file

REPORT = "report.html"


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
    environment.globals["legend_mark"] = legend_mark
    style, script = _asset("style.css"), _asset("sort.js")
    return environment.get_template("report.html").render(
        page=page,
        style=Markup(style),  # noqa: S704 a file of ours
        script=Markup(script),  # noqa: S704 a file of ours
        style_hash=_csp_hash(style),
        script_hash=_csp_hash(script),
        version=__version__,
    )


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
