"""Figures as files: whole, closed to the outside, with every colour written in."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from meor.cli import app
from meor.report.figures import ForestGroup, ForestRow, figure, forest
from meor.report.html import drawing_style, page_of, standalone, write_figures
from meor.report.page import Figure

HOSTILE = '"><script>alert(1)</script>&'
CLASS = re.compile(r'class="(.*?)"')
SVG = "{http://www.w3.org/2000/svg}"
OF_A_STUDY = {
    "forest",
    "forest-2",
    "frontier",
    "forest-3",
    "forest-4",
    "same-facts",
    "growth",
    "comparison",
    "matching",
}


@pytest.fixture(scope="module")
def written(study_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    paths = write_figures(page_of(study_folder), tmp_path_factory.mktemp("out") / "figures")
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def hostile() -> Figure:
    group = ForestGroup(HOSTILE, (ForestRow(HOSTILE, 0.01, 0.0, 0.02, 0.005),), 0.005)
    legend = (("fill-good", HOSTILE), ("mark m3", "x" * 200))
    return figure("forest", HOSTILE, HOSTILE, HOSTILE, lambda width: forest([group], width), legend)


def test_every_figure_of_a_study_is_a_file(written: dict[str, str]) -> None:
    assert set(written) == OF_A_STUDY


def test_a_figure_is_well_formed_sized_white_and_named(written: dict[str, str]) -> None:
    for text in (*written.values(), standalone(hostile())):
        root = ElementTree.fromstring(text)
        assert root.tag == f"{SVG}svg"
        assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
        assert "sans-serif" in root.get("font-family", "")
        ground = root.find(f"{SVG}rect")
        assert ground is not None
        assert (ground.get("fill"), ground.get("width")) == ("#ffffff", root.get("width"))
        assert all(root.find(f"{SVG}{name}") is not None for name in ("title", "desc", "style"))
        assert root.find(f".//{SVG}script") is None


def test_a_figure_refers_to_nothing_outside_and_leaves_no_variable(written: dict[str, str]) -> None:
    for name, text in written.items():
        assert not re.search(r"var\(|url\(|@import|href|src=", text), name
        assert re.findall(r"https?://[^\"\s]+", text) == ["http://www.w3.org/2000/svg"], name


def test_every_class_a_figure_uses_has_a_rule(written: dict[str, str]) -> None:
    known = set(re.findall(r"\.([a-z][\w-]*)", drawing_style()))
    # Names that only tell kinds apart, and take their look from another class beside them.
    used = {
        word
        for text in written.values()
        for each in re.findall(r'class="([^"]*)"', text)
        for word in each.split()
    }
    assert used - known <= {"faint", "soft"}


def test_the_same_study_gives_the_same_bytes(
    study_folder: Path, written: dict[str, str], tmp_path: Path
) -> None:
    again = write_figures(page_of(study_folder), tmp_path)
    assert {path.stem: path.read_text(encoding="utf-8") for path in again} == written


def test_legend_and_title_stay_inside_the_figure() -> None:
    long = figure(
        "forest",
        "a title of many words " * 12,
        "alt",
        "caption",
        lambda width: forest([ForestGroup("g", ())], width),
        tuple(("fill-good", f"an entry of some length {number}") for number in range(9)),
    )
    root = ElementTree.fromstring(standalone(long))
    width = float(root.get("width", "0"))
    places = {
        (float(text.get("x", "0")), float(text.get("y", "0")))
        for text in root.iter(f"{SVG}text")
        if "an entry" in (text.text or "")
    }
    assert len(places) == 9
    assert all(x < width - 100 for x, _ in places)
    assert len({y for _, y in places}) > 1


def test_the_command_writes_figures_beside_the_page_of_a_study(
    study_folder: Path, run_folder: Path, tmp_path: Path
) -> None:
    runner = CliRunner()
    out = tmp_path / "page.html"
    assert runner.invoke(app, ["report", str(run_folder), "--out", str(out)]).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    told = runner.invoke(
        app, ["report", str(study_folder), "--out", str(out), "--figures", str(tmp_path / "f")]
    )
    assert told.exit_code == 0, told.output
    assert f"{len(OF_A_STUDY)} figures in" in told.output
    assert {path.stem for path in (tmp_path / "f").iterdir()} == OF_A_STUDY
