"""What the report of a study says: its own effects, the paper beside them, and what is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.report.conftest import invented_plan, invented_rows, put, told
from tests.study.study_rows import write_rows
from typer.testing import CliRunner

from meor.cli import app
from meor.evaluation.displacement import same_facts
from meor.methods import METHODS
from meor.methods.coefficient import Balance, Candidate
from meor.report.effect_words import verdict
from meor.report.evidence import ranks_of
from meor.report.html import cell_of, page_of, render
from meor.report.page import Commands, Figure, Page, Prose, Terms
from meor.report.study_data import read_study
from meor.run.view import RunView
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


def test_the_title_asks_and_the_lead_answers_with_the_main_effect_and_its_bound(
    page: Page, tmp_path: Path
) -> None:
    assert page.title.startswith("What keeps old answers on ENTITY")  # there are curves
    rows = plain_rows()
    plain = written(tmp_path, rows)
    assert plain.title == "Does MEOR keep old answers on ENTITY? 8\xa0pairs"
    lead = {said.question: said.answer for said in plain.lead}
    found = compare(rows, rows[0].group, "balance", "meor", "none")["H_cur"]
    assert f"+{found.mean:.4f}, one-sided 95 % lower bound +{found.lower:.4f}" in lead["What control changed"]
    best = compare(rows, rows[0].group, "balance", "uncentered", "none")["H_cur"]
    assert f"Uncentered gains most: +{best.mean:.4f}" in lead["What control changed"]
    assert lead["What it cost"].startswith("Nothing else falls: ")
    assert "answers that are newcomers (A_TN)" in lead["What it cost"]


def test_the_lead_follows_the_same_facts_where_run_folders_are_here(page: Page, study_folder: Path) -> None:
    runs = RunView.open(study_folder / "runs" / "world" / "pair-0" / "none")
    facts = same_facts(ranks_of(runs))
    lead = {said.question: said.answer for said in page.lead}
    assert f"from {facts[0].old:.3f} to {facts[-1].cur:.3f}" in lead["What was lost"]
    assert "took most" in lead["When"]
    assert lead["To whom"].startswith("The newcomer that cost most is ")


def test_abbreviations_are_spelled_out_where_they_first_stand(tmp_path: Path) -> None:
    text = re.sub(r"<[^>]+>", "", render(written(tmp_path, plain_rows())).split("<body>")[1])
    for label, words in (
        ("MEOR", "Matched Excess-Outranker Regularization"),
        ("MMR", "Matched Maximum Regularizer"),
        ("UOR", "Unmatched Old Regularizer"),
    ):
        first = re.search(rf"\b{label}\b", text)
        assert first is not None
        assert words in text[first.start() - len(words) - 3 : first.end() + len(words) + 3], label
    for symbol, words in (("Hcur", "old answers"), ("ATN", "newcomers"), ("AQN", "newcomers")):
        at = text.index(symbol)
        assert words in text[at - 120 : at], symbol


def test_no_digit_below_four_decimals_reaches_the_page(tmp_path: Path) -> None:
    rows = changed(plain_rows("none", "meor"), "A_QN", lambda pair: 0.00001 * (1 + pair % 2))
    page = written(tmp_path, rows)
    text = re.sub(
        r' (?:data-sort|d|[xy][12]?|cx|cy|r|width|height|viewBox|transform)="[^"]*"', "", render(page)
    )
    body = text.split("<body>")[1].split("<script>")[0]
    assert not re.findall(r"[^\d]0?\.0000\d*[1-9]", body)
    assert not re.findall(r"\de[-−]\d", body)
    (short,) = tables(page, "effects")
    at = [column.title for column in short.columns].index("ΔA_QN")
    assert (short.rows[0][at].text, short.rows[0][at].below) == ("0.0000", "≥ 0.0000 same")


def test_each_rule_has_its_own_sentence_and_card(tmp_path: Path) -> None:
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
        assert f"+{found.mean:.4f}" in told(page)
        assert words in told(page)
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
    assert "clearly raises old answers among all entities (H_cur) against the host alone in 2" in told(page)
    assert "old answers among old entities (H_old) in 2 of 2" in told(page)
    assert page.title == "Does MEOR keep old answers on FBInc-S and FBInc-L? 8\xa0pairs"
    assert not page.cards
    assert '<dl class="cards">' not in render(page)


def test_every_effect_of_a_table_is_that_of_the_rows(page: Page, study_folder: Path) -> None:
    rows = read_rows(study_folder / "runs.parquet")
    hosts, among, *_ = tables(page, "effects")
    for table, label, pair in ((hosts, "UOR", ("uor", "none")), (among, "UOR", ("meor", "uor"))):
        found = compare(rows, rows[0].group, "balance", *pair)
        shown = next(row for row in table.rows if row[0].text == label)
        titles = [column.title for column in table.columns]
        for name, title in (("H_cur", "ΔH_cur"), ("D_MCI", "D_MCI reduction")):
            cell = shown[titles.index(title)]
            assert cell.sort == found[name].mean
            assert f"{found[name].lower:.4f}".lstrip("-") in cell.below
        assert "not adjusted" in table.note
    assert [row[0].text for row in hosts.rows][-1] == "MEOR"


def test_the_paper_stands_below_ours_digit_for_digit(tmp_path: Path) -> None:
    rows = plain_rows()
    beside = tables(written(tmp_path, rows), "paper")
    absolute = next(table for table in beside if table.caption.startswith("Endpoints"))
    printed = paper_tables()["absolute"]
    ours = levels(rows, rows[0].group, "balance", "meor")
    assert ours is not None
    named = {each.label: name for name, each in METHODS.items()}
    stated = [row for row in absolute.rows if row[1].text == "paper"]
    assert len(stated) == len(printed.rows)
    for row in stated:
        cells = [cell.text for cell in row[2 : 2 + len(printed.columns)]]
        assert cells == list(printed.rows[named[row[0].text]])
    meor = next(row for row in absolute.rows if (row[0].text, row[1].text) == ("MEOR", "ours"))
    assert [cell.sort for cell in meor[2:6]] == [ours.levels[name].mean for name in printed.columns]
    effects = next(table for table in beside if "minus comparator" in table.caption)
    against = compare(rows, rows[0].group, "balance", "meor", "none")["H_cur"]
    mine, theirs = (row for row in effects.rows if row[0].text == "Host alone")
    assert (mine[2].sort, mine[3].sort) == (against.mean, against.lower)
    assert (theirs[2].text, theirs[3].text) == ("0.0057", "0.0052")


def test_the_frontier_is_there_where_curves_are_and_only_there(page: Page, tmp_path: Path) -> None:
    assert "frontier" in [section.id for section in page.sections]
    plain = [row for row in invented_rows() if row.multiple in (None, 1.0)]
    write_rows(tmp_path / "runs.parquet", plain)
    without = page_of(tmp_path)
    assert "frontier" not in [section.id for section in without.sections]
    lead = {said.question: said.answer for said in page.lead}
    asked, ahead, behind = lead["Does MEOR beat its controls?"].split(". ")
    assert asked.startswith("In part, by ")
    assert re.findall(r"(\w+) \+", ahead) == ["mmr", "uor", "shuffled"]
    assert behind.startswith("Behind uncentered −")
    assert "controls?" not in told(without)


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
    assert "no two methods share enough pairs" in told(page)
    assert not tables(page, "effects")
    text = render(page)
    assert text.count("fewer than the 2 pairs an effect needs") == 2  # of the host alone, and of MEOR
    assert "interval" not in tables(page, "endpoints")[0].caption


def test_many_settings_with_one_comparison_share_a_forest(tmp_path: Path) -> None:
    rows = [
        row
        for stream in ("FBInc-S", "FBInc-L", "WN-CKGE")
        for row in invented_rows(stream)
        if row.method in ("none", "meor") and row.multiple in (None, 1.0)
    ]
    write_rows(tmp_path / "runs.parquet", rows)
    balance = asdict(Balance(0.0, 1.0, 0.0, 64, 0, 1))
    group = {"stream": "WN-CKGE", "backbone": "complex", "host": "replay", "preset": "practical"}
    kept = [{"group": group, "pair": 0, "method": "meor", "balance": balance}]
    put(tmp_path, "balances.json", json.dumps(kept))
    page = page_of(tmp_path)
    forest = "<h3>MEOR minus the host alone: ComplEx, host replay, preset practical, rule balance"
    assert render(page).count(forest) == 1
    boundary = next(table for table in tables(page, "made") if "balanced" in table.caption)
    assert [[cell.text for cell in row[1:6]] for row in boundary.rows] == [
        ["ours", "MEOR", "1", "0", "64"],
        *(["paper", name, "--", "0", "64"] for name in ("MEOR", "MMR")),
    ]
    transfer = next(table for table in tables(page, "paper") if "host alone" in table.caption)
    stated = [(row[0].text, row[2].text) for row in transfer.rows if row[1].text == "paper"]
    assert stated == [
        ("FBInc-S replay-complex", "0.0026"),
        ("FBInc-L replay-complex", "0.0026"),
        ("FBInc-S lkge-transe-inverse", "0.0023"),
        ("FBInc-S incde-transe-inverse", "0.0029"),
        ("FBInc-L lkge-transe-inverse", "0.0026"),
        ("FBInc-L incde-transe-inverse", "0.0032"),
    ]
    (short,) = tables(page, "effects")
    assert [row[0].text for row in short.rows] == ["FBInc-S", "FBInc-L", "WN-CKGE"]
    assert short.caption.startswith("MEOR minus the host alone")
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
    for each in ("meor takes the largest multiple", "uor takes the largest multiple", "no multiple of mmr"):
        assert each in shown.note  # each the end of its own grid
        assert each in told(page_of(tmp_path))


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
    assert "A trade: queries about newcomers (A_QN) fall by 0.0118" in told(page)
    short = tables(page, "effects")[0]
    at = [column.title for column in short.columns].index("ΔA_QN")
    meor = next(row for row in short.rows if row[0].text == "MEOR")
    assert (meor[at].text[:7], meor[at].tone) == ("−0.0118", "bad")
    forest = next(block for section in page.sections for block in section.blocks if isinstance(block, Figure))
    assert "ΔA_QN, MEOR: −0.0118" in forest.alt
    assert "A trade" not in told(written(tmp_path, plain_rows()))


def test_a_loss_that_cannot_be_excluded_is_said(tmp_path: Path) -> None:
    rows = changed(plain_rows("none", "meor"), "A_TN", lambda pair: 0.02 if pair % 2 else -0.02)
    lead = told(written(tmp_path, rows))
    assert (
        "A loss of more than 0.005 cannot be excluded for answers that are newcomers (A_TN), bound −" in lead
    )
    assert "Nothing else falls" not in lead


def test_what_newcomers_cost_is_called_unchanged_unless_it_is_clear(tmp_path: Path) -> None:
    def unclear(pair: int) -> float:
        return 0.001 if pair % 2 else -0.0009

    rows = changed(plain_rows("none", "meor"), "H_old", lambda _: 0.0)
    rows = changed(rows, "H_cur", unclear)
    rows = [replace(row, D_MCI=row.H_old - row.H_cur) for row in rows]
    assert "What newcomers cost (D_MCI) is not clearly changed." in told(written(tmp_path, rows))


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
    lead = told(written(tmp_path, tied))
    assert "equals the host alone to the last digit in" in lead
    assert "no record of its penalty was active" in lead


def test_a_fall_needs_the_evidence_of_a_rise() -> None:
    values = (0.001, 0.002, 0.003, 0.0001)
    rise, fall = effect("H_cur", values), effect("H_cur", [-value for value in values])
    assert rise.improved
    assert rise.interval.low < 0  # the two-sided interval asks for more
    assert fall.worsened
    assert verdict("H_cur", rise) == ("better", "good")
    assert verdict("H_cur", fall) == ("worse", "bad")
    assert not rise.worsened


def test_pairs_that_chose_a_coefficient_are_not_counted_as_pairs_of_the_study(tmp_path: Path) -> None:
    rows = plain_rows("none", "meor")
    kept = [
        {
            "group": asdict(rows[0].group),
            "pair": pair,
            "method": "meor",
            "balance": asdict(Balance(0.1, 1.0, 1.0, 64, 3, 1)),
        }
        for pair in (0, 1, FIRST_SELECTION_SEED)
    ]
    put(tmp_path, "balances.json", json.dumps(kept))
    balanced = next(table for table in tables(written(tmp_path, rows), "made") if "balanced" in table.caption)
    assert [row[0].text.rpartition(" ")[2] for row in balanced.rows] == ["0", "1"]


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
