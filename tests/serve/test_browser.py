"""Bar 6: the explorer in headless Chromium, by links alone: nothing is logged, and axe finds nothing."""

from __future__ import annotations

import html
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report.browser import CHROMIUM, FLAGS, SCHEMES, evaluate, needs_chromium
from tests.report.test_accessibility import REPORTED, axe
from tests.serve.conftest import Asking, facts_of
from tests.serve.server import Server

from meor.serve.app import make_app
from meor.store.admit import Request, admit

pytestmark = [needs_chromium, pytest.mark.long]
__all__ = ["axe"]  # a fixture
PAGES = ("/", "/?q=e3", "/entity?label=e33", "/answers?anchor=e0&relation=r0", "/history", "/verdict/2")


@pytest.fixture
def grown(store: Path, tmp_path: Path) -> Path:
    (tmp_path / "batch.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts_of(2)))
    admit(store, Request(tmp_path / "batch.tsv"))
    return store


@pytest.fixture
def server(grown: Path) -> Iterator[Server]:
    found = Server(grown)
    yield found
    found.stop()


def browse(address: str, profile: Path, *, width: int = 1280, scheme: str = "light") -> str:
    """The DOM of a page; nothing may be logged."""
    done = subprocess.run(
        [
            str(CHROMIUM),
            *FLAGS,
            f"--user-data-dir={profile}",
            f"--window-size={width},1400",
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            "--dump-dom",
            address,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


def link(dom: str, path: str) -> str:
    found = re.search(rf'href="({path}\?[^"]*)"', dom)
    assert found is not None, dom
    return html.unescape(found[1])


def test_from_a_search_to_a_displacer_by_links_alone(server: Server, tmp_path: Path) -> None:
    def visit(path: str) -> str:
        return browse(server.address + path, tmp_path / "chromium")

    entity = visit(link(visit("/?q=e0"), "/entity"))
    assert 'action="/answers"' in entity
    answers = visit("/answers?anchor=e0&relation=r0&side=tail")
    assert answers.count("<table>") == 2
    why = visit(link(answers.split('id="current"')[1], "/why"))
    assert "Its rank as entities were admitted" in why
    history = visit("/history")
    found = re.search(r'href="(/verdict/\d+)"', history)
    assert found is not None
    assert "Rules of the gate" in visit(found[1])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_axe_finds_nothing(axe: str, grown: Path, tmp_path: Path, scheme: str, width: int) -> None:
    asking = Asking(make_app(grown))
    style = asking.get("/static/style.css").text
    script = axe.replace("</script", r"<\/script") + REPORTED
    why = link(asking.get("/answers?anchor=e0&relation=r0").text, "/why")
    for number, path in enumerate((*PAGES, why)):
        text = asking.get(path).text
        text = text.replace('<link rel="stylesheet" href="/static/style.css">', f"<style>{style}</style>")
        page = tmp_path / f"{number}.html"
        page.write_text(re.sub(r"<script src=[^>]*></script>", "", text))
        assert evaluate(page, tmp_path / "probe", script, scheme=scheme, width=width) == [], path
