"""What the report of a study says: its own effects, the paper beside them, and what is missing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tests.report.conftest import invented_rows
from typer.testing import CliRunner

from meor.cli import app
from meor.report.gather import page_of
from meor.report.html import render
from meor.report.page import Commands, Page, Prose, Table
from meor.report.study_data import read_study
from meor.run.validated import Candidate
from meor.study.effects import compare
from meor.study.paper import paper_tables
from meor.study.plan import Study
from meor.study.rows import Group, read_rows, write_rows
from meor.study.selection import Choice


@pytest.fixture(scope="module")
def page(study_folder: Path) -> Page:
    return page_of(study_folder)


def tables(page: Page, section: str) -> list[Table]:
    return [
        block
        for found in page.sections
        if found.id == section
        for block in found.blocks
        if isinstance(block, Table)
    ]


def test_the_sentence_states_the_main_effect_with_its_bound(page: Page, study_folder: Path) -> None:
    rows = read_rows(study_folder / "runs.parquet")
    found = compare(rows, rows[0].group, "balance", "meor", "replay")["H_cur"]
    assert f"+{found.mean:.4f}" in page.sentence
    assert f"+{found.lower:.4f}" in page.sentence
    assert "below Uncentered" in page.sentence


def test_each_rule_has_its_own_sentence_panel_and_card(tmp_path: Path) -> None:
    plain = [row for row in invented_rows() if row.multiple in (None, 1.0)]
    other = [
        replace(row, coefficient_rule="validated", H_cur=row.H_cur + 0.05, D_MCI=row.D_MCI - 0.05)
        for row in plain
        if row.coefficient_rule == "balance"
    ]
    write_rows(tmp_path / "runs.parquet", [*plain, *other])
    page = page_of(tmp_path)
    for rule, words in (("balance", "the balanced coefficient"), ("validated", "the validated coefficient")):
        found = compare([*plain, *other], plain[0].group, rule, "meor", "replay")["H_cur"]
        assert f"+{found.mean:.4f}" in page.sentence
        assert words in page.sentence
    first = page.cards.cards[0]
    assert first.spread.startswith("balance: ")
    assert [text.partition(":")[0] for text in first.besides] == ["validated"]


def test_many_settings_are_counted_and_not_averaged(tmp_path: Path) -> None:
    rows = [
        row
        for stream in ("FBInc-S", "FBInc-L")
        for row in invented_rows(stream)
        if row.method in ("replay", "meor") and row.multiple in (None, 1.0)
    ]
    write_rows(tmp_path / "runs.parquet", rows)
    page = page_of(tmp_path)
    assert page.sentence.startswith("Of 2 settings, MEOR against replay clearly raises H_cur in 2 and lowers")
    assert "H_old in 2 of 2" in page.sentence
    assert not page.cards.cards
    assert '<dl class="cards">' not in render(page)


def test_every_effect_of_the_table_is_that_of_the_rows(page: Page, study_folder: Path) -> None:
    rows = read_rows(study_folder / "runs.parquet")
    full = next(table for table in tables(page, "effects") if table.caption.startswith("Every paired effect"))
    found = compare(rows, rows[0].group, "balance", "meor", "uor")
    shown = {row[1].text: row for row in full.rows if row[0].text == "UOR"}
    assert shown["ΔH_cur"][2].sort == found["H_cur"].mean
    assert shown["D_MCI reduction"][3].sort == found["D_MCI"].lower
    assert "not adjusted" in full.note


def test_the_paper_stands_in_columns_of_its_own_digit_for_digit(page: Page) -> None:
    beside = tables(page, "paper")
    absolute = next(table for table in beside if "Table 2" in table.caption)
    printed = paper_tables()["absolute"]
    for row in absolute.rows:
        name = row[0].text.lower()
        assert [cell.text for cell in row[2::2]] == list(printed.rows[name])
    assert all(column.title.endswith(("ours", "paper")) for table in beside for column in table.columns[1:])
    calibration = next(row for row in absolute.rows if row[0].text == "Calibration")
    assert "--" in [cell.text for cell in calibration[2::2]]


def test_the_frontier_is_there_where_a_grid_is_and_only_there(page: Page, tmp_path: Path) -> None:
    assert "frontier" in [section.id for section in page.sections]
    plain = [row for row in invented_rows() if row.multiple in (None, 1.0)]
    write_rows(tmp_path / "runs.parquet", plain)
    assert "frontier" not in [section.id for section in page_of(tmp_path).sections]


def test_a_study_without_run_folders_says_what_it_cannot_show(tmp_path: Path) -> None:
    write_rows(tmp_path / "runs.parquet", [row for row in invented_rows() if row.multiple in (None, 1.0)])
    page = page_of(tmp_path)
    missing = [
        b for section in page.sections for b in section.blocks if isinstance(b, Prose) and b.kind == "missing"
    ]
    assert len(missing) >= 4
    assert tables(page, "effects")


def test_one_pair_is_not_compared(tmp_path: Path) -> None:
    write_rows(
        tmp_path / "runs.parquet",
        [row for row in invented_rows() if row.pair == 0 and row.multiple in (None, 1.0)],
    )
    page = page_of(tmp_path)
    assert "compared" in page.sentence
    assert not tables(page, "effects")


def test_many_settings_with_one_comparison_share_a_forest(tmp_path: Path) -> None:
    rows = [
        row
        for stream in ("FBInc-S", "FBInc-L", "WN-CKGE")
        for row in invented_rows(stream)
        if row.method in ("replay", "meor") and row.multiple in (None, 1.0)
    ]
    write_rows(tmp_path / "runs.parquet", rows)
    balance = {"active": 0, "records": 64}
    group = {"stream": "WN-CKGE", "backbone": "complex", "host": "replay", "preset": "practical"}
    kept = [{"group": group, "pair": 0, "method": "meor", "balance": balance}]
    (tmp_path / "balances.json").write_text(json.dumps(kept))
    page = page_of(tmp_path)
    text = render(page)
    assert text.count("against the others") == 1
    boundary = next(table for table in tables(page, "paper") if "balanced" in table.caption)
    assert [cell.text for cell in boundary.rows[0][3:]] == ["0 of 64", "0 of 64"]
    transfer = next(table for table in tables(page, "paper") if "Table 5" in table.caption)
    assert [row[2].text for row in transfer.rows] == ["0.0026", "0.0026"]


def test_a_sampled_study_says_so_under_its_tables_and_where_it_says_how_it_was_made(tmp_path: Path) -> None:
    write_rows(tmp_path / "runs.parquet", invented_rows())
    (tmp_path / "study.yaml").write_text(Study.load("frontier").to_yaml())
    page = page_of(tmp_path)
    shown = [*tables(page, "endpoints"), *tables(page, "effects"), *tables(page, "frontier")]
    assert len(shown) > 3
    assert all("at most 5,000 facts a snapshot" in table.note for table in shown)
    made = next(section for section in page.sections if section.id == "made")
    assert any(isinstance(block, Prose) and "evaluation.sample" in block.text for block in made.blocks)
    (tmp_path / "study.yaml").unlink()
    assert "seeded sample" not in render(page_of(tmp_path))


def test_the_validated_choice_shows_what_it_was_chosen_from_and_an_end_of_the_grid(tmp_path: Path) -> None:
    write_rows(tmp_path / "runs.parquet", invented_rows())
    group = Group("ENTITY", "complex", "replay", "practical")
    replay = Candidate(0.0, 0.13, 0.17)
    tried = (Candidate(1.0, 0.14, 0.18), Candidate(300.0, 0.15, 0.19))
    kept = [
        asdict(Choice(group, "meor", 300.0, replay, tried, (9,))),
        asdict(Choice(group, "uor", 1.0, replay, tried[:1], (9,))),  # its second run failed
        asdict(Choice(group, "mmr", 0.0, replay, tried, (9,))),
    ]
    (tmp_path / "selection.json").write_text(json.dumps(kept))
    shown = next(table for table in tables(page_of(tmp_path), "made") if "validated" in table.caption)
    meor, uor, mmr = shown.rows
    assert [column.title for column in shown.columns[2:]] == ["replay", "×1", "×300", "taken"]
    assert [(cell.text, cell.below, cell.tone) for cell in meor[2:5]] == [
        ("0.1300", "0.1700", ""),
        ("0.1400", "0.1800", ""),
        ("0.1500", "0.1900", "good"),
    ]
    assert [row[-1].text for row in shown.rows[:2]] == ["×300", "×1"]
    assert uor[4].text == "--"
    assert "not used" in mmr[-1].text
    assert "MEOR: the largest multiple on offer" in shown.note


def test_failed_cells_are_named(page: Page) -> None:
    assert "world/pair-7/uor" in page.state


def test_the_command_is_what_was_typed_without_places(tmp_path: Path) -> None:
    write_rows(tmp_path / "runs.parquet", [row for row in invented_rows() if row.multiple in (None, 1.0)])
    typed = "meor study primary --pairs 8 --data-dir /home/someone/data --out /srv/x --set dim=64"
    (tmp_path / "command.txt").write_text(typed + "\n")
    commands = [
        b for section in page_of(tmp_path).sections for b in section.blocks if isinstance(b, Commands)
    ]
    assert commands[0].lines[0][0] == "meor study primary --pairs 8 --set dim=64"


def test_read_study_prefers_meor_and_orders_methods_as_the_paper_does(study_folder: Path) -> None:
    data = read_study(study_folder)
    assert data.head == "meor"
    assert [level.method for level in data.settings[0].levels][:3] == ["replay", "calibration", "mmr"]
    assert [setting.rule for setting in data.settings] == ["balance", "validated"]


def test_the_command_line_writes_the_file_and_names_it(run_folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "page.html"
    done = CliRunner().invoke(app, ["report", str(run_folder), "--out", str(target)])
    assert done.exit_code == 0, done.output
    assert str(target) in done.output
    assert target.stat().st_size > 50_000
    refused = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert refused.exit_code == 2
