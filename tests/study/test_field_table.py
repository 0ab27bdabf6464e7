"""A study that ranks as the field ranks: the figures of its rows, and the table that says what they mean."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.study.study_rows import row
from tests.study.tiny_study import tiny_plan

from meor.evaluation.endpoints import measure
from meor.evaluation.forgetting import published as field_figures
from meor.evaluation.protocols import set_ranks, weighted_mean
from meor.evaluation.rank import FilterPrefix, Rules
from meor.report.html import render
from meor.report.study_page import study_page
from meor.run.view import RunView
from meor.study import cell as cell_module
from meor.study.conduct import Findings, conduct
from meor.study.field_table import field_table, overstatements
from meor.study.paper import published
from meor.study.plan import Study
from meor.study.row_file import read_row
from meor.study.rows import PROTOCOL_COLUMNS, Row, read_rows
from meor.study.tables import study_tables
from meor.study.task import Means, Observer, Outcome
from meor.typing import Split

HOSTS = ("fine-tune variant=released", "incde variant=released", "ewc", "replay")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("field")


def plan_of(place: Path, **changes: object) -> Study:
    given: dict[str, object] = {
        "host": list(HOSTS),
        "methods": ["none", "calibration", "meor"],
        "pairs": 1,
        "controlled_pairs": {"fine-tune variant=released": 0, "incde variant=released": 0},
        "tables": ["field"],
        **changes,
    }
    return tiny_plan(place, **given)


@pytest.fixture(scope="module")
def whole(place: Path) -> tuple[Path, Findings]:
    out = place / "whole"
    return out, conduct(plan_of(place), out, means=Means(cache=place / "cache"))


def test_every_row_holds_what_its_models_give_under_each_protocol(whole: tuple[Path, Findings]) -> None:
    out, found = whole
    assert found.failures == {}
    ranked = [each for each in found.rows if each.method != "calibration"]
    assert len(ranked) == 6
    for each in ranked:
        view = RunView.open(out / "runs" / each.run)
        stream = view.stream()
        told = field_figures(stream, view.model, [2])
        current = [rank for part in view.ranks(2)[Split.TEST] for rank in part.cur]
        for column, metric in (("MRR", "mrr"), ("H1", "hits@1"), ("H10", "hits@10")):
            assert getattr(each, f"{column}_A") == told["A"][metric]
            assert getattr(each, f"{column}_B") == told["B"][metric]
            assert getattr(each, f"{column}_current") == measure(np.array(current), metric)
        assert read_row(out / "runs" / f"{each.run}.json")[0] == each
    assert read_rows(out / "runs.parquet") == list(found.rows)


def test_released_code_that_reads_test_facts_twice_does_not_filter_validation_facts(
    whole: tuple[Path, Findings],
) -> None:
    out, found = whole
    by_host = {each.host: each for each in found.rows if each.method == "none"}
    mine = by_host["fine-tune variant=released"]
    view = RunView.open(out / "runs" / mine.run)
    rules = Rules(filter_prefix=FilterPrefix.INTRODUCED, filter_splits=(Split.TRAIN, Split.TEST))
    sets = set_ranks(view.stream(), view.model(2), 2, rules=rules)
    assert mine.MRR_released == weighted_mean(sets, full=False)
    assert mine.MRR_A is not None
    assert mine.MRR_released is not None
    assert mine.MRR_released < mine.MRR_A
    assert {by_host[host].MRR_released for host in HOSTS[1:]} == {None}


def test_scores_that_are_transformed_after_training_have_no_such_figure(whole: tuple[Path, Findings]) -> None:
    for each in whole[1].rows:
        if each.method == "calibration":
            assert {getattr(each, name) for name in PROTOCOL_COLUMNS} == {None}


def refuse(*_: object) -> dict[str, float]:
    raise AssertionError("ranked again")


class Made(Observer):
    def __init__(self) -> None:
        self.made: list[str] = []

    def cell(self, outcome: Outcome) -> None:
        if not outcome.reused:
            self.made.append(outcome.cell.name)


def test_what_is_ranked_is_not_ranked_again(
    whole: tuple[Path, Findings], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, found = whole
    monkeypatch.setattr(cell_module, "protocol_columns", refuse)
    again = conduct(plan_of(place), out, means=Means(cache=place / "cache"))
    assert again.rows == found.rows
    assert again.failures == {}


def test_rows_of_a_study_without_the_table_get_their_figures_and_nothing_is_trained(
    whole: tuple[Path, Findings], place: Path
) -> None:
    means = Means(cache=place / "cache", runs=place / "shared-runs")
    plain = conduct(plan_of(place, tables=["absolute"]), place / "plain", means=means)
    assert {each.MRR_A for each in plain.rows} == {None}
    logs = {path: path.read_bytes() for path in sorted((place / "shared-runs").rglob("log.jsonl"))}
    later = conduct(plan_of(place), place / "later", means=means)
    assert later.rows == whole[1].rows
    assert {path: path.read_bytes() for path in logs} == logs


def test_a_run_without_weights_is_made_again_for_its_figures(
    place: Path, whole: tuple[Path, Findings]
) -> None:
    means = Means(cache=place / "cache", runs=place / "light-runs", keep_weights=False)
    conduct(plan_of(place, tables=["absolute"]), place / "light", means=means)
    later = conduct(plan_of(place), place / "heavier", means=means)
    assert later.failures == {}
    assert later.rows == whole[1].rows


def test_a_figure_that_was_changed_is_noticed(place: Path, whole: tuple[Path, Findings]) -> None:
    out, found = whole
    row_file = out / "runs" / f"{found.rows[0].run}.json"
    before = row_file.read_text()
    content = json.loads(before)
    content["row"]["MRR_A"] = 0.99
    row_file.write_text(json.dumps(content))
    seen = Made()
    again = conduct(plan_of(place), out, means=Means(cache=place / "cache"), observer=seen)
    assert seen.made == [found.rows[0].run]
    assert again.rows == found.rows


def test_the_report_shows_the_table_and_says_what_the_protocols_overstate(
    whole: tuple[Path, Findings],
) -> None:
    page = study_page(whole[0])
    sections = {section.id: section for section in page.sections}
    shown = render(page)
    assert "field" in sections
    found = overstatements(whole[1].plan, whole[1].rows, whole[1].plan.stream[0], "practical")
    said = [each.answer for each in page.lead if each.question == "What the field's protocols overstate"]
    assert found
    assert said == [each.sentence() for each in found]
    assert "fine-tune variant=released" in shown


def figures(host: str, a: float, b: float, now: float, **changes: object) -> Row:
    made = row(host=host, backbone="transe-inverse", MRR_A=a, MRR_B=b, MRR_current=now)
    return replace(made, run=f"{host}", **changes)  # type: ignore[arg-type]


ENTITY = Study.resolve(
    {
        "study": "field",
        "stream": "ENTITY",
        "host": ["lkge variant=released", "lkge", "incde variant=released"],
        "methods": ["none"],
        "tables": ["field"],
    }
)
ROWS = [
    figures("lkge variant=released", 0.3, 0.18, 0.2, MRR_released=0.27, H1_A=0.2, H10_A=0.5),
    figures("lkge", 0.24, 0.19, 0.2),
    figures("incde variant=released", 0.25, 0.2, 0.25, H1_A=0.1, H10_A=0.4),
]


def test_what_a_protocol_overstates_is_said_in_words() -> None:
    a, b = (each.sentence() for each in overstatements(ENTITY, ROWS, "ENTITY", "practical"))
    assert a == (
        "Protocol A overstates the MRR among all current entities by 0.0467 (23.3%) on average over 3 hosts "
        "without control, from +0.0% under incde variant=released to +50.0% under lkge variant=released."
    )
    assert b.startswith("Protocol B understates the MRR among all current entities by 0.0267 (11.7%)")
    assert "from -20.0% under incde variant=released to -5.0% under lkge." in b
    one = overstatements(ENTITY, ROWS[:1], "ENTITY", "practical")[0]
    assert one.sentence() == ("Protocol A overstates the MRR among all current entities by 0.1000 (50.0%).")
    assert overstatements(ENTITY, [replace(ROWS[0], MRR_A=None, MRR_B=None)], "ENTITY", "practical") == []


def test_published_figures_stand_below_the_host_and_beside_what_compares_with_them() -> None:
    table = field_table(ENTITY, ROWS, "ENTITY", "practical", "balance")
    titles = [column.title for column in table.columns]
    at = titles.index("MRR, as published")
    lines = [(line[0], line[1], line[at]) for line in table.rows]
    assert lines[:5] == [
        ("lkge variant=released, transe-inverse", "ours", 0.27),
        ("lkge, transe-inverse", "ours", None),
        ("lkge", "published", "0.234"),
        ("incde variant=released, transe-inverse", "ours", 0.25),  # its filter is whole
        ("incde", "published", "0.253"),
    ]
    others = {line[0] for line in table.rows[5:]}
    assert {"PNN", "SI", "ewc", "IncDE without distillation"} <= others
    assert all(len(line) == len(titles) for line in table.rows)
    assert table.rows[0][titles.index("A - current")] == pytest.approx(0.1)
    assert any("Protocol A overstates" in note for note in table.notes)
    assert [made.name for made in study_tables(ENTITY, ROWS)] == ["field-ENTITY-practical-balance"]


def test_another_stream_has_no_published_figure() -> None:
    other = Study.resolve({**ENTITY.model_dump(mode="json"), "stream": "FBInc-S"})
    rows = [replace(each, stream="FBInc-S") for each in ROWS]
    table = field_table(other, rows, "FBInc-S", "practical", "balance")
    assert {line[1] for line in table.rows} == {"ours"}


def test_published_figures_are_numbers_with_their_source() -> None:
    for name, (*numbers, source) in published().rows.items():
        mrr, first, tenth = map(float, numbers)
        assert 0 < first < mrr < tenth < 1, name
        assert source.startswith("IncDE, Table")
    assert set(published().rows) >= {"fine-tune", "ewc", "emr", "lkge", "incde"}
