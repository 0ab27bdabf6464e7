"""What only a browser can say: no console error, nothing wider than a phone, tables that sort."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.browser import evaluate, load, needs_chromium
from tests.report.conftest import invented_rows
from tests.study.study_rows import write_rows

from meor.report.html import page_of, write

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def reports(
    tmp_path_factory: pytest.TempPathFactory, run_folder: Path, study_folder: Path
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    for name, source in {"run": run_folder, "study": study_folder}.items():
        write(page_of(source), folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in ("run", "study")}


@pytest.mark.parametrize("name", ["run", "study"])
def test_a_report_loads_without_a_console_message(
    reports: dict[str, Path], name: str, tmp_path: Path
) -> None:
    dom, console = load(reports[name], tmp_path / "profile")
    assert console == []
    assert "How this was made" in dom


def test_a_report_fits_a_phone_and_asks_for_nothing(reports: dict[str, Path], tmp_path: Path) -> None:
    found = evaluate(
        reports["study"],
        tmp_path,
        "return {page: document.documentElement.scrollWidth, window: innerWidth,"
        " asked: performance.getEntriesByType('resource').map(e => e.name),"
        " narrow: getComputedStyle(document.querySelector('.narrow')).display,"
        " wide: getComputedStyle(document.querySelector('.wide')).display}",
        width=500,  # the narrowest window Chromium opens without a device to emulate
    )
    assert found["page"] <= found["window"]
    assert found["asked"] == []
    assert (found["narrow"], found["wide"]) == ("block", "none")


def test_the_dark_scheme_changes_the_paper(reports: dict[str, Path], tmp_path: Path) -> None:
    script = "return getComputedStyle(document.body).backgroundColor"
    colours = {
        scheme: evaluate(reports["run"], tmp_path / scheme, script, scheme=scheme)
        for scheme in ("light", "dark")
    }
    assert colours["light"] != colours["dark"]


def test_a_table_sorts_by_its_header_button_and_says_so(reports: dict[str, Path], tmp_path: Path) -> None:
    found = evaluate(
        reports["study"],
        tmp_path,
        """
        const table = document.querySelector('table.data');
        const head = table.tHead.rows[0].cells[1], button = head.querySelector('button');
        const values = () => [...table.tBodies[0].rows].map(row => Number(row.cells[1].dataset.sort));
        button.focus(); const focused = document.activeElement === button;
        button.click(); const down = values(), said = head.getAttribute('aria-sort');
        button.click(); return {focused, down, said, up: values()};
        """,
    )
    assert found["focused"]
    assert found["said"] == "descending"
    assert found["down"] == sorted(found["down"], reverse=True)
    assert found["up"] == sorted(found["down"])


@pytest.fixture(scope="module")
def effects_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study without run folders: tables and effects only."""
    folder = tmp_path_factory.mktemp("effects")
    write_rows(folder / "runs.parquet", invented_rows())
    write(page_of(folder), folder / "report.html")
    return folder / "report.html"


def test_what_is_missing_sorts_last_both_ways(effects_page: Path, tmp_path: Path) -> None:
    found = evaluate(
        effects_page,
        tmp_path,
        """
        const table = document.querySelector('table.data');
        const heads = [...table.tHead.rows[0].cells];
        const column = heads.findIndex(head => head.textContent.startsWith('AQN'));
        const last = () => [...table.tBodies[0].rows].at(-1).cells[column].textContent;
        const button = heads[column].querySelector('button');
        button.click(); const down = last(); button.click(); return [down, last()];
        """,
    )
    assert found == ["--", "--"]


def test_open_tables_and_their_captions_fit_the_column_of_a_wide_page(
    effects_page: Path, tmp_path: Path
) -> None:
    found = evaluate(
        effects_page,
        tmp_path,
        """
        return [...document.querySelectorAll('.scroll')].filter(frame => !frame.closest('details')).map(
          frame => ({name: frame.getAttribute('aria-label'), table: frame.scrollWidth,
            frame: frame.clientWidth, caption: frame.querySelector('caption span').offsetWidth}));
        """,
    )
    assert len(found) == 6  # under each of two rules: endpoints, against the host alone, among each other
    assert [each["name"] for each in found if each["table"] > each["frame"]] == []
    assert [each["name"] for each in found if each["caption"] > each["frame"]] == []
