"""A stream that leaves an endpoint undefined: its study shows the cells that exist, marked everywhere."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.report.conftest import told
from tests.study.study_rows import METHODS, study_rows, write_rows

from meor.report.html import render
from meor.report.study_page import study_page
from meor.storage.parquet import table_bytes
from meor.study.coefficient import choose
from meor.study.effects import compare, levels
from meor.study.plan import Study
from meor.study.results import Results
from meor.study.rows import RUNS, Group, Row, read_rows
from meor.study.table import Table, as_latex, as_text
from meor.study.tables import EFFECTS_FILE, study_tables, write_effects


def titles(table: Table) -> list[str]:
    return [column.title for column in table.columns]


GROUP = Group("mine", "complex", "replay", "practical")
TABLES = ["absolute", "effects", "ablation", "transfer"]


def plan() -> Study:
    return Study.resolve(
        {"study": "primary", "stream": "mine", "methods": list(METHODS), "tables": TABLES, "pairs": 8}
    )


def whole() -> list[Row]:
    return [replace(each, stream="mine") for each in study_rows()]


@pytest.fixture
def rows() -> list[Row]:
    """The same runs on a stream whose A_TN has cells without a query."""
    return [
        replace(each, A_TN=None, A_TN_existing=each.A_TN, existing_cells="A_TN 4 of 6") for each in whole()
    ]


def test_levels_and_effects_are_those_of_the_cells_that_exist_and_marked(rows: list[Row]) -> None:
    complete = whole()
    mine, other = (levels(each, GROUP, "balance", "meor") for each in (rows, complete))
    assert mine is not None
    assert other is not None
    assert mine.levels["A_TN"] == replace(other.levels["A_TN"], partial=True)
    assert mine.levels["H_cur"] == other.levels["H_cur"]
    ours, theirs = (compare(each, GROUP, "balance", "meor", "none") for each in (rows, complete))
    assert ours["A_TN"] == replace(theirs["A_TN"], partial=True)
    assert not ours["H_cur"].partial


def test_every_table_marks_its_columns_and_counts_the_cells(rows: list[Row]) -> None:
    found = study_tables(plan(), rows)
    assert len(found) == len(TABLES)
    for table in found:
        marked = [name for name in titles(table) if "†" in name]
        assert marked == [name for name in titles(table) if "A_TN" in name]
        assert marked
        text = as_text(table)
        assert "† over the cells that exist (mine, replay-complex, practical: A_TN 4 of 6)" in text
        assert "†" not in as_latex(table)
    assert not any("†" in as_text(table) for table in study_tables(plan(), whole()))


def test_effects_csv_says_which_cells(rows: list[Row], tmp_path: Path) -> None:
    write_effects(tmp_path, plan(), rows)
    with (tmp_path / EFFECTS_FILE).open() as file:
        cells = {line["endpoint"]: line["cells"] for line in csv.DictReader(file)}
    assert cells["A_TN"] == "existing"
    assert cells["H_cur"] == "all"


def test_the_page_marks_levels_effects_and_the_verdict(rows: list[Row], tmp_path: Path) -> None:
    write_rows(tmp_path / RUNS, rows)
    page = study_page(tmp_path)
    assert "(A_TN†)" in told(page)
    shown = render(page)
    assert shown.count("†") > 5
    assert "A<sub>TN</sub> 4 of 6" in shown.replace("<i>", "").replace("</i>", "")
    write_rows(tmp_path / RUNS, whole())
    assert "†" not in render(study_page(tmp_path))


def test_rows_keep_the_null_and_the_partial_mean(rows: list[Row], tmp_path: Path) -> None:
    write_rows(tmp_path / RUNS, rows)
    assert read_rows(tmp_path / RUNS) == rows
    assert pq.read_table(tmp_path / RUNS)["A_TN"].null_count == len(rows)
    assert rows[0].is_partial("A_TN")
    assert rows[0].cells_of("A_TN") == "4 of 6"
    assert not rows[0].is_partial("A_QN")


def test_rows_of_an_earlier_study_are_read(tmp_path: Path) -> None:
    complete = whole()
    write_rows(tmp_path / RUNS, complete)
    table = pq.read_table(tmp_path / RUNS)
    earlier = [name for name in table.column_names if "existing" not in name]
    assert len(earlier) == len(table.column_names) - 6
    Results(tmp_path).replace({RUNS: table_bytes(table.select(earlier))})
    assert read_rows(tmp_path / RUNS) == complete


def test_the_validated_rule_judges_over_the_cells_that_exist(rows: list[Row]) -> None:
    chosen = [row for row in rows if row.method in ("none", "meor")]
    assert choose(chosen, GROUP, "meor").candidates[0].A_TN > 0
