"""The explorer's pages: every label escaped, nothing from another host, both universes side by side."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.serve.conftest import Asking, facts_of

from meor.serve.app import make_app
from meor.store.admit import Request, admit

HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\u202e"


@pytest.fixture
def grown(store: Path, tmp_path: Path) -> Asking:
    """The ring after an update in which e32 has a hostile name."""
    lines = ["\t".join(HOSTILE if label == "e32" else label for label in fact) for fact in facts_of(2)]
    (tmp_path / "batch.tsv").write_text("".join(f"{line}\n" for line in lines))
    admit(store, Request(tmp_path / "batch.tsv", reason=HOSTILE))
    return Asking(make_app(store))


def page(asking: Asking, path: str, status: int = 200, **params: str) -> str:
    found = asking.get(path, **params)
    assert found.status_code == status, found.text
    text = str(found.text)
    assert "<script>alert" not in text
    assert "http://" not in text
    assert "https://" not in text
    visible = re.sub(r'(?:value|href)="[^"]*"', "", text)
    assert "\x1b" not in visible
    assert "\u202e" not in visible
    assert text.count("<h1>") == 1
    return text


def test_search_query_explain_history(grown: Asking) -> None:
    start = page(grown, "/")
    assert "8 entities came" in start
    assert start.count('href="/entity?') == 8  # whoever knows no label yet can begin with the newest
    assert "e31" in page(grown, "/", q="E31")
    assert "None." in page(grown, "/", q="zzz")
    entity = page(grown, "/entity", label=HOSTILE)
    assert "&lt;script&gt;" in entity
    assert "The facts that placed it" in entity
    assert "Admitted by version" in entity
    answers = page(grown, "/answers", anchor="e0", relation="r0")
    old, now = answers.split('id="current"')
    assert 'class="new">new' in now
    assert 'class="newcomer"' not in old
    link = re.search(r'href="(/why[^"]*)"', now)
    assert link is not None
    why = page(grown, link[1].replace("&amp;", "&"))
    assert "Newcomers ahead of it" in why
    assert "admitted" in page(grown, "/history") + "flagged"
    assert "Rules of the gate" in page(grown, "/verdict/2")


def test_what_cannot_be_shown_is_a_page_too(grown: Asking) -> None:
    assert "no entity" in page(grown, "/entity", 404, label="nobody <b>")
    assert "no relation" in page(grown, "/answers", 404, anchor="e0", relation=HOSTILE)
    assert "has no verdict" in page(grown, "/verdict/1", 404)
    assert "has no verdict" in page(grown, "/verdict/99", 404)
    assert grown.get("/static/../app.py").status_code == 404


def test_files_of_the_pages(grown: Asking) -> None:
    assert grown.get("/static/style.css").headers["content-type"].startswith("text/css")
    script = grown.get("/static/explorer.js").text
    assert len(script) < 2000
    assert "innerHTML" not in script
