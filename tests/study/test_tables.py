from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from tests.study.study_rows import METHODS, row, study_rows

from meor.errors import StudyError
from meor.methods.coefficient import Balance
from meor.study.coefficient import KeptBalance
from meor.study.effects import compare
from meor.study.plan import Study
from meor.study.rows import Group
from meor.study.table import Column, Kind, Table, as_csv, as_latex, as_markdown, as_text, write_tables
from meor.study.tables import study_tables, write_effects


def titles(table: Table) -> list[str]:
    return [column.title for column in table.columns]


GROUP = Group("ENTITY", "complex", "replay", "practical")


def plan(**changes: object) -> Study:
    return Study.resolve(
        {"study": "primary", "stream": "ENTITY", "methods": list(METHODS), "tables": ["absolute"], **changes}
    )


def one(made: Study, rows, **options):  # type: ignore[no-untyped-def]
    (table,) = study_tables(made, rows, **options)
    return table


def test_ours_and_the_papers_stand_in_rows_of_their_own() -> None:
    table = one(plan(), study_rows())
    by = {(cells[0], cells[1]): cells for cells in table.rows}
    assert by["MEOR", "paper"][2:7] == ("0.0887", "0.1201", "0.0314", "0.1715", None)
    assert by["Persistent calibration", "paper"][3] == "--"
    assert isinstance(by["MEOR", "ours"][2], float)
    assert ("Shuffled", "ours") in by
    assert ("Shuffled", "paper") not in by


def test_tables_of_sampled_ranks_say_so_and_those_of_records_do_not() -> None:
    names = ["absolute", "effects", "ablation", "transfer"]
    sampled = plan(tables=names, sets=["evaluation.sample=5000"])
    for made, expected in ((plan(tables=names), False), (sampled, True)):
        for table in study_tables(made, study_rows()):
            assert ("at most 5,000 facts per snapshot" in as_text(table)) is expected, table.name


def test_the_papers_rows_stay_away_from_other_streams_and_backbones() -> None:
    for change in ({"stream": "WN-CKGE"}, {"backbone": "transe"}):
        rows = [replace(each, **change) for each in study_rows()]
        table = one(plan(**change), rows)
        assert {cells[1] for cells in table.rows} == {"ours"}


def test_effects_hold_means_bounds_and_verdicts() -> None:
    rows = study_rows()
    table = one(plan(tables=["effects"]), rows, holm=True)
    line = next(cells for cells in table.rows if cells[:2] == ("Host alone", "ours"))
    at = dict(zip(titles(table), line, strict=True))
    found = compare(rows, GROUP, "balance", "meor", "none")
    assert at["ΔH_cur mean"] == found["H_cur"].mean
    assert at["D_MCI reduction LB"] == found["D_MCI"].lower
    assert at["W/T/L"] == found["H_cur"].wtl
    assert at["H_old preserved"] == "yes"
    assert at["Holm p"] >= found["H_cur"].p_value
    printed = next(cells for cells in table.rows if cells[:2] == ("UOR", "paper"))
    assert dict(zip(titles(table), printed, strict=True))["W/T/L"] == "7/0/1"
    assert "not adjusted" in table.notes[0]


def test_an_effect_on_query_newcomers_is_shown_and_the_paper_has_none() -> None:
    lower = [replace(each, A_QN=0.04) if each.method == "meor" else each for each in study_rows()]
    table = one(plan(tables=["effects"]), lower)
    replay = [
        dict(zip(titles(table), cells, strict=True)) for cells in table.rows if cells[0] == "Host alone"
    ]
    assert [each["ΔA_QN mean"] for each in replay] == [pytest.approx(-0.01), None]
    assert [each["W/T/L"] for each in replay][1] == "8/0/0"


@pytest.mark.parametrize("name", ["effects", "ablation", "transfer"])
def test_holm_adjusts_over_the_rows_of_each_table_and_says_so(name: str) -> None:
    rows = study_rows()
    more = [replace(each, backbone="transe", pair_hash="t") for each in rows]
    made = plan(tables=[name], backbone=["complex", "transe"] if name == "transfer" else "complex")
    table = study_tables(made, rows + more, holm=True)[0]
    family = [cells for cells in table.rows if cells[1] == "ours"]
    assert titles(table)[-1] == "Holm p"
    assert all(cells[-1] is None for cells in table.rows if cells[1] == "paper")
    comparators = {"effects": METHODS[:-1], "ablation": METHODS[2:-1], "transfer": ("none", "none")}[name]
    assert len(family) == len(comparators)
    raw = [compare(rows, GROUP, "balance", "meor", each)["H_cur"].p_value for each in comparators]
    assert min(cells[-1] for cells in family) == pytest.approx(min(raw) * len(raw))  # type: ignore[type-var]
    assert "our rows of this table" in as_text(table)
    assert "Holm" not in as_text(study_tables(made, rows)[0])


def test_adjusted_p_values_of_a_group_and_rule_stand_in_the_effects_file(tmp_path: Path) -> None:
    rows = study_rows()
    for holm in (True, False):
        write_effects(tmp_path, plan(), rows, holm=holm)
        lines = list(csv.DictReader((tmp_path / "effects.csv").open(encoding="utf-8")))
        told = [line for line in lines if line["holm_p"]]
        assert {line["endpoint"] for line in told} == ({"H_cur"} if holm else set())
        assert len(told) == (6 if holm else 0)


def test_the_effects_file_has_every_method_against_the_host_alone(tmp_path: Path) -> None:
    rows = study_rows()
    write_effects(tmp_path, plan(), rows)
    lines = csv.DictReader((tmp_path / "effects.csv").open(encoding="utf-8"))
    means = {
        line["method"]: float(line["mean"])
        for line in lines
        if line["comparator"] == "none" and line["endpoint"] == "H_cur"
    }
    assert set(means) == set(METHODS) - {"none"}
    assert means["uor"] == compare(rows, GROUP, "balance", "uor", "none")["H_cur"].mean


def test_a_study_without_meor_is_about_its_first_penalty() -> None:
    made = plan(methods=["none", "uor", "mmr"], tables=["effects", "ablation", "transfer"])
    effects, transfer = study_tables(made, study_rows())
    assert effects.title.startswith("MMR minus comparator")
    assert [cells[:2] for cells in effects.rows] == [("Host alone", "ours"), ("UOR", "ours")]
    assert transfer.title.startswith("MMR minus the host alone")
    assert study_tables(plan(methods=["none"], tables=["effects"]), study_rows()) == []


def test_an_error_in_a_pair_is_not_taken_for_a_lack_of_pairs() -> None:
    broken = [replace(each, pair_hash="other") if each.method == "meor" else each for each in study_rows()]
    with pytest.raises(StudyError, match="no pair"):
        study_tables(plan(tables=["effects"]), broken)


def test_a_table_without_a_row_of_ours_is_not_made() -> None:
    names = ["absolute", "effects", "ablation", "transfer", "boundary", "frontier"]
    assert study_tables(plan(stream=["ENTITY", "WN-CKGE", "FBInc-S"], tables=names), []) == []


def test_the_ablation_names_what_each_comparison_isolates() -> None:
    table = one(plan(tables=["ablation"]), study_rows())
    named = [cells[0] for cells in table.rows if cells[1] == "ours"]
    assert named == [
        "Smooth tail aggregation",
        "Structural matching",
        "Query-specific assignment",
        "Old-reference centering",
    ]
    assert next(c for c in table.rows if c[1] == "paper")[3] == "0.0051"


def test_transfer_is_a_row_a_group_with_its_interval() -> None:
    rows = [replace(each, stream="FBInc-S", backbone="transe") for each in study_rows()]
    made = plan(stream="FBInc-S", backbone=["transe", "distmult"], tables=["transfer"])
    table = one(made, rows)
    assert [cells[:2] for cells in table.rows] == [
        ("FBInc-S replay-transe", "ours"),
        ("FBInc-S replay-transe", "paper"),
        ("FBInc-S replay-distmult", "paper"),
        ("FBInc-S lkge-transe-inverse", "ours"),
        ("FBInc-S lkge-transe-inverse", "paper"),
        ("FBInc-S incde-transe-inverse", "ours"),
        ("FBInc-S incde-transe-inverse", "paper"),
    ]
    assert set(table.rows[3][2:]) == {None}  # hosts that are not there yet
    assert table.rows[4][2:5] == ("0.0023", "0.0011", "0.0035")
    assert table.rows[1][2:5] == ("0.0020", "0.0009", "0.0031")
    assert len({len(cells) for cells in table.rows} | {len(table.columns)}) == 1


def test_tables_say_where_nothing_was_controlled() -> None:
    rows = [
        replace(each, coefficient=0.0) if (each.method, each.pair) == ("meor", 0) else each
        for each in study_rows()
    ]
    pairs = len({each.pair for each in rows})
    for table in study_tables(plan(tables=["absolute", "effects", "ablation"]), rows):
        told = f"MEOR in {GROUP} (balance): nothing was controlled in 1 of {pairs} pairs"
        assert sum(note.startswith(told) for note in table.notes) == 1, table.name
        assert not any("controlled" in note for note in one(plan(tables=["absolute"]), study_rows()).notes)


def test_the_boundary_counts_active_records_pair_by_pair() -> None:
    kept = KeptBalance(replace(GROUP, stream="WN-CKGE"), 0, "meor", Balance(0.0, 1.0, 0.0, 1024, 3, 2))
    table = one(plan(stream="WN-CKGE", tables=["boundary"]), [], balances=[kept])
    assert table.rows[0][1:6] == ("ours", "MEOR", 2, 3, 1024)
    assert table.rows[1][1:6] == ("paper", "MEOR", None, "0", "64")


def test_the_frontier_has_points_and_verdicts_at_equal_acquisition() -> None:
    rows = []
    for pair in range(2):
        rows.append(row("none", pair))
        for method, cur in (("meor", 0.22), ("mmr", 0.21)):
            for at, acquired in ((1.0, 0.09), (3.0, 0.08)):
                rows.append(
                    row(method, pair, curve=method, at=at, A_TN=acquired, H_cur=cur, D_MCI=0.25 - cur)
                )
    curves = {method: {"method": method, "values": [1, 3]} for method in ("mmr", "meor")}
    made = plan(methods=["none"], curves=curves, tables=["frontier"])
    asked, ahead, points = study_tables(made, rows)
    assert [cells[2] for cells in points.rows] == ["host alone", "multiple 1", "multiple 3"] * 2
    assert [cells[:4] for cells in ahead.rows] == [("mmr", "ours", "meor", "behind")]
    assert [cells[2:5] for cells in asked.rows] == [("meor", "mmr", "ahead")]
    for table in (asked, points, ahead):
        assert "not adjusted" in " ".join(table.notes)


@pytest.mark.parametrize("tables", ["absolute", "effects", "ablation"])
def test_every_format_has_every_row(tables: str, tmp_path: Path) -> None:
    table = one(plan(tables=[tables]), study_rows())
    text, markdown, latex = as_text(table), as_markdown(table), as_latex(table)
    for _, source, *_ in table.rows:
        assert source in ("ours", "paper")
    assert sum(" ours " in line or " paper " in line for line in text.splitlines()) >= len(table.rows)
    assert markdown.count("\n| ") == len(table.rows) + 2 - 0
    assert latex.count(r"\\") == len(table.rows) + 1
    assert latex.count("_") == latex.count(r"\_")
    read = list(csv.reader(io.StringIO(as_csv(table))))
    assert len(read) == len(table.rows) + 1
    assert float(read[1][2 if tables != "ablation" else 3]) == table.rows[0][2 if tables != "ablation" else 3]
    write_tables(tmp_path, [table])
    assert {path.suffix for path in (tmp_path / "tables").iterdir()} == {".txt", ".md", ".tex", ".csv"}


@pytest.mark.parametrize(
    ("value", "shown", "probability"),
    [
        (0.0, "0.0000", "0.0000"),
        (0.00123, "0.0012", "0.0012"),
        (0.00002, "0.0000", "<0.0001"),
        (3.7e-6, "0.0000", "<0.0001"),
        (-0.0000234, "0.0000", "0.0000"),
        (-0.00502, "-0.0050", "-0.0050"),
    ],
)
def test_no_digit_below_four_decimals_is_printed(value: float, shown: str, probability: str) -> None:
    kinds: tuple[Kind, ...] = ("text", "text", "level", "effect", "bound", "probability")
    columns = tuple(Column(kind, kind) for kind in kinds)
    table = Table("Title", columns, (("a", "ours", value, value, value, value),))
    cells = as_text(table).splitlines()[4].split()
    assert cells[2:] == [shown, shown, shown, probability]
    assert repr(value) in as_csv(table)


def test_a_coefficient_keeps_its_digits_in_csv_and_three_in_print() -> None:
    weight = 0.00013133524752966972
    rows = [replace(each, coefficient=weight) if each.method == "meor" else each for each in study_rows()]
    table = one(plan(), rows)
    assert repr(weight) in as_csv(table)
    assert " 0.000131 " in as_text(table)


def test_words_stand_left_and_latex_gets_no_backtick() -> None:
    table = one(plan(tables=["ablation"]), study_rows())
    assert r"\begin{tabular}{@{}lllr" in as_latex(table)
    assert "| --- | --- | --- | ---: |" in as_markdown(table)
    assert "`" not in as_latex(table)


def test_means_alone_have_no_note_about_bounds() -> None:
    notes = " ".join(one(plan(), study_rows()).notes)
    assert "LB" not in notes
    assert "W/T/L" not in notes
    assert "means over pairs" in notes


def test_rounding_invents_no_sign_and_what_is_missing_is_a_dash() -> None:
    rows = [replace(each, A_QN=None, H_old=0.25, H_cur=0.25 + 1e-9, D_MCI=-1e-9) for each in study_rows(2)]
    table = one(plan(), rows)
    line = next(
        line for line in as_text(table).splitlines() if line.startswith("Host alone") and "ours" in line
    )
    assert "-0.0000" not in line
    assert "--" in line
    assert float(next(csv.reader(io.StringIO(as_csv(table).splitlines()[1])))[4]) == -1e-9
