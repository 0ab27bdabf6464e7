"""The file itself: one, closed to the network, escaped, the same bytes twice, readable in both schemes."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from meor.report.html import page_of, render, write
from meor.report.page import Card, Page, Prose, Said, Section
from meor.study.table import Column, Entry, Table

HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"
STYLE = files("meor.report").joinpath("templates", "style.css").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def texts(run_folder: Path, penalized_folder: Path, study_folder: Path) -> dict[str, str]:
    folders = {"run": run_folder, "penalized": penalized_folder, "study": study_folder}
    return {name: render(page_of(folder)) for name, folder in folders.items()}


@pytest.mark.parametrize("name", ["run", "penalized", "study"])
def test_a_report_is_one_file_that_asks_for_nothing(texts: dict[str, str], name: str) -> None:
    text = texts[name]
    assert len(text.encode()) < 3_000_000
    assert not re.search(r'(?:src|href)="(?!#|data:)', text)
    assert "url(" not in text
    assert "default-src 'none'" in text


@pytest.mark.parametrize("name", ["run", "penalized", "study"])
def test_a_report_names_no_place_of_the_machine(texts: dict[str, str], name: str, run_folder: Path) -> None:
    assert str(run_folder.parent) not in texts[name]
    assert str(Path.home()) + "/" not in texts[name]


@pytest.mark.parametrize("name", ["run", "penalized", "study"])
def test_a_report_is_outlined_and_every_table_has_caption_and_scopes(
    texts: dict[str, str], name: str
) -> None:
    text = texts[name]
    assert text.count("<h1>") == 1
    assert text.count("<table") == text.count("<caption") > 3
    assert all('scope="col"' in head for head in re.findall(r"<thead>.*?</thead>", text, re.S))
    assert text.count('role="img"') == text.count("<figcaption>") * 2
    assert 'role="img" aria-label=""' not in text


def test_the_same_results_make_the_same_bytes(
    texts: dict[str, str], run_folder: Path, tmp_path: Path
) -> None:
    write(page_of(run_folder), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == texts["run"]
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_labels_cannot_become_markup() -> None:
    table = Table(
        HOSTILE,
        (Column(HOSTILE, hint=HOSTILE),),
        ((Entry(1.0, HOSTILE, HOSTILE, text=HOSTILE),),),
        (HOSTILE,),
    )
    section = Section("s", HOSTILE, (Prose(HOSTILE), table))
    text = render(
        Page(
            HOSTILE,
            HOSTILE,
            (Said(HOSTILE, HOSTILE),),
            (Card(HOSTILE, HOSTILE, HOSTILE),),
            (section,),
            HOSTILE,
        )
    )
    assert "<script>alert" not in text
    assert "<img" not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_ink_has_contrast_on_paper_and_on_cards(scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[0 if scheme == "light" else 1]))
    for ground in ("paper", "card"):
        for ink in (
            "ink",
            "muted",
            "old",
            "new",
            "good",
            "bad",
            "accent",
            *(f"m{i}" for i in range(9)),
        ):
            assert _contrast(colours[ink], colours[ground]) >= 4.5, (scheme, ink, ground)
    assert (
        _contrast(colours["card"], colours["old"]) >= 4.5
    )  # words on the darkest bar of the matching figure
    assert _contrast(colours["ink"], colours["old-soft"]) >= 4.5


def _contrast(first: str, second: str) -> float:
    """WCAG 2: relative luminance, lighter over darker."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)
