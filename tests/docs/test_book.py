"""docs/ is one book: it is built without a warning, and its reference holds whatever the code has."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import meor
from meor.cli import VERBS, load
from meor.methods.equations import smooth_pressure

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason=f"{package} is missing: pip install 'meor[docs]'")
    out = tmp_path_factory.mktemp("book")
    words = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", DOCS, out]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def text_of(page: Path) -> str:
    """What a reader sees of a page."""
    body = re.search(r"<article.*</article>", page.read_text(encoding="utf-8"), re.S)
    assert body is not None
    return html.unescape(re.sub(r"<[^>]+>", "", body[0]))


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
    for word, each in (below or {}).items():
        yield from commands(f"{name} {word}", each)


def test_the_book_has_every_page_command_option_and_public_name(book: Path) -> None:
    for page in DOCS.glob("*.md"):
        assert (book / f"{page.stem}.html").is_file(), page.name
    shown = text_of(book / "commands.html")
    for verb in VERBS:
        for name, command in commands(f"meor {verb}", load(verb)):
            section = shown[shown.index(f"{name}¶") :]
            for option in (word for each in command.params for word in each.opts if word.startswith("--")):
                assert option in section, (name, option)
    named = (book / "python.html").read_text(encoding="utf-8")
    for name in meor.__all__:
        assert name == "__version__" or f'id="meor.{name}"' in named, name


def test_links_to_the_repository_are_paths_in_the_book(book: Path) -> None:
    assert "results/admission-gate/README.md" in text_of(book / "production.html")
    assert 'href="../results' not in (book / "production.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["universes.svg", "excess.svg"])
def test_a_drawing_can_be_read_in_light_and_dark_and_aloud(name: str) -> None:
    drawing = (DOCS / name).read_text()
    assert "prefers-color-scheme: dark" in drawing
    assert '<rect class="panel"' in drawing  # its own ground: legible on whatever page it stands
    assert re.search(r"<title>.+</title>\s*<desc>.+</desc>", drawing)
    assert not re.search(r"(?:href|src|url)=?[\"(]", drawing)


def test_the_numbers_of_the_drawing_follow_from_the_positions_of_its_circles() -> None:
    drawing = (DOCS / "excess.svg").read_text()
    places = [float(each) for each in re.findall(r'<circle [^>]*cx="([\d.]+)"', drawing)]
    answer = float(re.search(r'<path class="same" d="M([\d.]+) 76V', drawing)[1])  # type: ignore[index]
    gaps = ((torch.tensor(places, dtype=torch.float64) - answer) / 105).reshape(3, 4)  # a unit is 105 wide
    loud, reference, calm = smooth_pressure(gaps, 5.0).tolist()
    excess = loud - reference
    assert calm < reference
    for value in (loud, reference, calm, excess, excess**2):
        assert f"{value:.2f}" in drawing
