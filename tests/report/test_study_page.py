"""What the report of a study says: its own effects, the paper beside them, and what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.report.conftest import invented_plan, invented_rows, put
from tests.study.study_rows import write_rows
from typer.testing import CliRunner

from meor.cli import app
from meor.methods import METHODS
from meor.methods.coefficient import Candidate
from meor.report.html import cell_of, page_of, render
from meor.report.page import Commands, Figure, Page, Prose, Terms
from meor.report.study_data import read_study
from meor.report.study_effects import verdict
from meor.study.coefficient import Choice
from meor.study.effects import compare, effect, levels
from meor.study.paper import paper_tables
from meor.study.plan import FIRST_SELECTION_SEED
from meor.study.results import Results
from meor.study.rows import Group, Row, read_rows
from meor.study.table import Table


@pytest.fixture(scope="module")
def page(study_folder: Path) -> Page:
    return page_of(study_folder)


def tables(page: Page, section: str) -> list[Any]:
    """The tables of a section as the page shows them."""
    return [
        SimpleNamespace(
            caption=table.title,
            columns=table.columns,
            note=" ".join(table.notes),
            rows=[[cell_of(*each) for each in zip(row, table.columns, strict=True)] for row in table.rows],
        )
        for found in page.sections
        if found.id == section
        for table in found.blocks
        if isinstance(table, Table)
    ]


def plain_rows(*methods: str) -> list[Row]:
    """One coefficient a method: no grid."""
    return [
        row
        for row in invented_rows()
        if row.multiple in (None, 1.0) and (not methods or row.method in methods)
    ]


def written(folder: Path, rows: list[Row]) -> Page:
    write_rows(folder / "runs.parquet", rows)
    return page_of(folder)


def changed(rows: list[Row], endpoint: str, by: Callable[[int], float]) -> list[Row]:
    """MEOR's endpoint as the host alone has it, plus what is given for the pair."""
    replay = {row.pair: getattr(row, endpoint) for row in rows if row.method == "none"}
    return [
        replace(row, **{endpoint: replay[row.pair] + by(row.pair)}) if row.method == "meor" else row
        for row in rows
    ]


def test_the_sentence_states_the_main_effect_with_its_bound(page: Page, study_folder: Path) -> None:
    rows = read_rows(study_folder / "runs.parquet")
    found = compare(rows, rows[0].group, "balance", "meor", "none")["H_cur"]
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
        found = compare([*plain, *other], plain[0].group, rule, "meor", "none")["H_cur"]
        assert f"+{found.mean:.4f}" in page.sentence
        assert words in page.sentence
    first = page.cards[0]
    assert first.spread.startswith("balance: ")
    assert [text.partition(":")[0] for text in first.besides] == ["validated"]


def test_many_settings_are_counted_and_not_averaged(tmp_path: Path) -> None:
    rows = [
        row
        for stream in ("FBInc-S", "FBInc-L")
        for row in invented_rows(stream)
        if row.method in ("none", "meor") and row.multiple in (None, 1.0)
    ]
    write_rows(tmp_path / "runs.parquet", rows)
    page = page_of(tmp_path)
    assert page.sentence.startswith(
        "Of 2 settings, MEOR against the host alone clearly raises H_cur in 2 and lowers"
    )
    assert "H_old in 2 of 2" in page.sentence
    assert not page.cards
    assert '<dl class="cards">' not in render(page)


def test_every_effect_of_the_table_is_that_of_the_rows(page: Page, study_folder: Path) -> None:
    rows = read_rows(study_folder / "runs.parquet")
    full = next(table for table in tables(page, "effects") if table.caption.startswith("Every paired effect"))
    found = compare(rows, rows[0].group, "balance", "meor", "uor")
    shown = {row[1].text: row for row in full.rows if row[0].text == "UOR"}
    assert shown["ΔH_cur"][2].sort == found["H_cur"].mean
    assert shown["D_MCI reduction"][3].sort == found["D_MCI"].lower
    assert "not adjusted" in full.note


def test_the_paper_stands_below_ours_digit_for_digit(tmp_path: Path) -> None:
    rows = plain_rows()
    beside = tables(written(tmp_path, rows), "paper")
    absolute = next(table for table in beside if "Table 2" in table.caption)
    printed = paper_tables()["absolute"]
    ours = levels(rows, rows[0].group, "balance", "meor")
    assert ours is not None
    for row in absolute.rows:
        below = [cell.below.removeprefix("paper ").replace("−", "-") for cell in row[1:]]
        method = next(name for name, each in METHODS.items() if each.brief == row[0].text)
        assert below == list(printed.rows[method])
    meor = next(row for row in absolute.rows if row[0].text == "MEOR")
    assert [cell.sort for cell in meor[1:]] == [ours.levels[name].mean for name in printed.columns]
    calibration = next(row for row in absolute.rows if row[0].text == "Calibration")
    assert "paper --" in [cell.below for cell in calibration]
    effects = next(table for table in beside if "Table 3" in table.caption)
    against = compare(rows, rows[0].group, "balance", "meor", "none")["H_cur"]
    mean, bound = (row for row in effects.rows if row[0].text == "Host alone")
    assert (mean[1].text, mean[2].sort, mean[2].below) == ("mean", against.mean, "paper 0.0057")
    assert (bound[1].text, bound[2].sort, bound[2].below) == ("lower bound", against.lower, "paper 0.0052")


def test_the_frontier_is_there_where_curves_are_and_only_there(page: Page, tmp_path: Path) -> None:
    assert "frontier" in [section.id for section in page.sections]
    plain = [row for row in invented_rows() if row.multiple in (None, 1.0)]
    write_rows(tmp_path / "runs.parquet", plain)
    without = page_of(tmp_path)
    assert "frontier" not in [section.id for section in without.sections]
    assert "At equal A_TN" in page.sentence
    assert "At equal A_TN" not in without.sentence


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
    text = render(page)
    assert text.count("an effect needs 2") == 1
    assert "interval" not in tables(page, "endpoints")[0].caption


def test_many_settings_with_one_comparison_share_a_forest(tmp_path: Path) -> None:
    rows = [
        row
        for stream in ("FBInc-S", "FBInc-L", "WN-CKGE")
        for row in invented_rows(stream)
        if row.method in ("none", "meor") and row.multiple in (None, 1.0)
    ]
    write_rows(tmp_path / "runs.parquet", rows)
    balance = {"active": 0, "records": 64}
    group = {"stream": "WN-CKGE", "backbone": "complex", "host": "replay", "preset": "practical"}
    kept = [{"group": group, "pair": 0, "method": "meor", "balance": balance}]
    put(tmp_path, "balances.json", json.dumps(kept))
    page = page_of(tmp_path)
    assert (
        render(page).count("MEOR against Host alone: ComplEx, host replay, preset practical, rule balance")
        == 1
    )
    boundary = next(table for table in tables(page, "paper") if "balanced" in table.caption)
    assert [cell.text for cell in boundary.rows[0][3:]] == ["0 of 64", "0 of 64"]
    transfer = next(table for table in tables(page, "paper") if "Table 5" in table.caption)
    assert [row[1].below for row in transfer.rows[:2]] == ["paper 0.0026", "paper 0.0026"]
    to_come = [(row[0].text, row[1].text, row[1].below) for row in transfer.rows[2:]]
    assert to_come == [
        ("FBInc-S, lkge-transe-inverse", "--", "paper 0.0023"),
        ("FBInc-S, incde-transe-inverse", "--", "paper 0.0029"),
        ("FBInc-L, lkge-transe-inverse", "--", "paper 0.0026"),
        ("FBInc-L, incde-transe-inverse", "--", "paper 0.0032"),
    ]
    short, full = tables(page, "effects")
    assert [row[0].text for row in short.rows] == ["FBInc-S", "FBInc-L", "WN-CKGE"]
    assert short.caption.startswith("MEOR minus Host alone")
    assert len(full.rows) == 3 * 5
    (absolute,) = tables(page, "endpoints")
    assert [(row[0].text, row[1].text) for row in absolute.rows[:3]] == [
        ("FBInc-S", "Host alone"),
        ("FBInc-S", "MEOR"),
        ("FBInc-L", "Host alone"),
    ]


def test_a_sampled_study_says_so_under_its_tables_and_where_it_says_how_it_was_made(tmp_path: Path) -> None:
    write_rows(tmp_path / "runs.parquet", invented_rows())
    plan = invented_plan(settings={"evaluation": {"sample": 5000}}, tables=["absolute", "frontier"])
    put(tmp_path, "study.yaml", plan.to_yaml())
    page = page_of(tmp_path)
    shown = [*tables(page, "endpoints"), *tables(page, "effects"), *tables(page, "frontier")]
    assert len(shown) > 3
    assert all("at most 5,000 facts per snapshot" in table.note for table in shown)
    made = next(section for section in page.sections if section.id == "made")
    assert any(isinstance(block, Prose) and "evaluation.sample" in block.text for block in made.blocks)
    Results(tmp_path).replace({"study.yaml": None})
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
    put(tmp_path, "selection.json", json.dumps(kept))
    shown = next(table for table in tables(page_of(tmp_path), "made") if "validated" in table.caption)
    meor, uor, mmr = shown.rows
    assert [column.title for column in shown.columns[2:]] == ["host alone", "×1", "×300", "taken"]
    assert [(cell.text, cell.below, cell.tone) for cell in meor[2:5]] == [
        ("0.1300", "0.1700", ""),
        ("0.1400", "0.1800", ""),
        ("0.1500", "0.1900", "good"),
    ]
    assert [row[-1].text for row in shown.rows[:2]] == ["×300", "×1"]
    assert uor[4].text == "--"
    assert "not used" in mmr[-1].text
    assert "MEOR, UOR: the largest multiple that was tried" in shown.note  # each the end of its own grid


def test_failed_cells_are_named(page: Page) -> None:
    assert "world/pair-7/uor" in page.state


def test_the_command_is_what_was_typed_without_places(tmp_path: Path) -> None:
    write_rows(tmp_path / "runs.parquet", [row for row in invented_rows() if row.multiple in (None, 1.0)])
    typed = "meor study primary --pairs 8 --data-dir /home/someone/data --out /srv/x --set dim=64"
    put(tmp_path, "command.txt", typed + "\n")
    commands = [
        b for section in page_of(tmp_path).sections for b in section.blocks if isinstance(b, Commands)
    ]
    assert commands[0].lines[0][0] == "meor study primary --pairs 8 --set dim=64"


@pytest.mark.parametrize(
    ("typed", "shown", "resumes"),
    [
        ("--set base_model=/x/y --stream my/folder", "--set base_model=y --stream my/folder", False),
        ("--stream /srv/mine/", "--stream mine", False),
        ("--out=results/a --runs /srv/runs", "--out results/a", True),
        ("--out /srv/a --set url=https://a.org/b", "--set url=https://a.org/b", False),
    ],
)
def test_only_places_of_this_machine_leave_the_command(
    tmp_path: Path, typed: str, shown: str, resumes: bool
) -> None:
    put(tmp_path, "command.txt", f"meor study primary {typed}")
    page = written(tmp_path, plain_rows("none", "meor"))
    made = next(section for section in page.sections if section.id == "made")
    command, words = next(block for block in made.blocks if isinstance(block, Commands)).lines[0]
    assert command == f"meor study primary {shown}"
    assert ("where it stopped" in words) is resumes


def test_a_clear_loss_of_facts_asked_about_newcomers_is_said_and_shown(tmp_path: Path) -> None:
    rows = changed(plain_rows(), "A_QN", lambda pair: -0.0116 - 0.0004 * (pair % 2))
    page = written(tmp_path, rows)
    assert "A_QN, queries about a newcomer, falls by 0.0118" in page.sentence
    short = next(table for table in tables(page, "effects") if " minus " in table.caption)
    at = [column.title for column in short.columns].index("ΔA_QN")
    replay = next(row for row in short.rows if row[0].text == "Host alone")
    assert (replay[at].text[:7], replay[at].tone) == ("−0.0118", "bad")
    forest = next(block for section in page.sections for block in section.blocks if isinstance(block, Figure))
    assert "ΔA_QN, against Host alone: −0.0118" in forest.alt
    assert "queries about a newcomer, falls" not in written(tmp_path, plain_rows()).sentence


def test_what_newcomers_cost_is_called_unchanged_unless_it_is_clear(tmp_path: Path) -> None:
    def unclear(pair: int) -> float:
        return 0.001 if pair % 2 else -0.0009

    rows = changed(plain_rows("none", "meor"), "H_old", lambda _: 0.0)
    rows = changed(rows, "H_cur", unclear)
    rows = [replace(row, D_MCI=row.H_old - row.H_cur) for row in rows]
    sentence = written(tmp_path, rows).sentence
    assert "what newcomers cost is not clearly changed" in sentence
    assert "newcomers cost 0" not in sentence


def test_an_exact_tie_is_said_to_be_one(tmp_path: Path) -> None:
    rows = plain_rows("none", "meor")
    replay = {row.pair: row for row in rows if row.method == "none"}
    same = ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")
    tied = [
        row
        if row.method == "none"
        else replace(row, active_share=0.0, **{name: getattr(replay[row.pair], name) for name in same})
        for row in rows
    ]
    sentence = written(tmp_path, tied).sentence
    assert "equals the host alone to the last digit in" in sentence
    assert "no record of its penalty was active" in sentence


def test_a_fall_needs_the_evidence_of_a_rise() -> None:
    values = (0.001, 0.002, 0.003, 0.0001)
    rise, fall = effect("H_cur", values), effect("H_cur", [-value for value in values])
    assert rise.improved
    assert rise.interval.low < 0  # the two-sided interval asks for more
    assert fall.worsened
    assert verdict("H_cur", fall).text == "worse"
    assert (verdict("H_cur", rise).tone, verdict("H_cur", fall).tone) == ("good", "bad")
    assert not rise.worsened


def test_pairs_that_chose_a_coefficient_are_not_counted_as_pairs_of_the_study(tmp_path: Path) -> None:
    rows = plain_rows("none", "meor")
    kept = [
        {
            "group": asdict(rows[0].group),
            "pair": pair,
            "method": "meor",
            "balance": {"active": 3, "records": 64},
        }
        for pair in (0, 1, FIRST_SELECTION_SEED)
    ]
    put(tmp_path, "balances.json", json.dumps(kept))
    balanced = next(
        table for table in tables(written(tmp_path, rows), "made") if "balance the" in table.caption
    )
    assert [cell.text for cell in balanced.rows[0][2:]] == ["2", "6 of 128"]


def test_every_table_of_effects_says_that_nothing_is_adjusted(tmp_path: Path) -> None:
    put(tmp_path, "study.yaml", invented_plan().to_yaml())
    page = written(tmp_path, invented_rows())
    shown = [*tables(page, "effects"), *tables(page, "frontier")]
    assert any("equal A_TN" in table.caption for table in shown)
    assert all("not adjusted" in table.note for table in shown)


def test_the_page_explains_what_occurs_in_it_and_nothing_else(tmp_path: Path) -> None:
    page = written(tmp_path, plain_rows("none", "meor", "uor"))
    endpoints = next(section for section in page.sections if section.id == "endpoints")
    terms = next(block for block in endpoints.blocks if isinstance(block, Terms))
    assert [term for term, _ in terms.lines] == [
        "Host alone",
        "UOR",
        "MEOR",
        "Rule balance",
        "Preset practical",
    ]
    assert all(words for _, words in terms.lines)
    assert "rule balance" in page.kicker
    paper = next(section for section in page.sections if section.id == "paper")
    assert any(isinstance(block, Prose) and "not comparable" in block.text for block in paper.blocks)


@pytest.mark.parametrize("methods", [("none", "mmr", "uor"), ("none", "calibration"), ("mmr",)])
def test_a_study_without_meor_has_a_report(tmp_path: Path, methods: tuple[str, ...]) -> None:
    page = written(tmp_path, plain_rows(*methods))
    assert "<h1>" in render(page)
    assert tables(page, "endpoints")


def test_read_study_prefers_meor_and_orders_methods_as_the_paper_does(study_folder: Path) -> None:
    data = read_study(study_folder)
    assert data.head == "meor"
    assert [level.method for level in data.settings[0].levels][:3] == ["none", "calibration", "mmr"]
    assert [setting.rule for setting in data.settings] == ["balance", "validated"]


def test_the_command_line_writes_the_file_and_names_it(run_folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "page.html"
    done = CliRunner().invoke(app, ["report", str(run_folder), "--out", str(target)])
    assert done.exit_code == 0, done.output
    assert str(target) in done.output
    assert target.stat().st_size > 50_000
    refused = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert refused.exit_code == 2
