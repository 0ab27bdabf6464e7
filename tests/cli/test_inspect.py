from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.tiny_run import SETTINGS, tiny_stream
from typer.testing import CliRunner

from meor.backbone import Model
from meor.cli import app
from meor.cli.inspect import picture
from meor.methods.comparison import Comparison
from meor.methods.penalty import penalty_records
from meor.run.records_file import comparison_of, records_bytes, records_table
from meor.run.view import RunView
from meor.stream.files import write_stream
from meor.typing import Side

SETS = [part for text in SETTINGS for part in ("--set", text)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("inspected")
    write_stream(tiny_stream(), here / "ring")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEOR_CACHE", str(here / "cache"))
        said = CliRunner().invoke(
            app, ["run", "--stream", str(here / "ring"), "--out", str(here / "a"), *SETS, "--quiet"]
        )
    assert said.exit_code == 0, said.stderr
    return here / "a"


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["inspect", *arguments])
    return result.exit_code, result.stdout, result.stderr


def pressure(gaps: list[float]) -> float:
    return math.log(sum(math.exp(5 * max(gap, 0)) for gap in gaps) / len(gaps)) / 5


def score(model: Model, record: dict, candidate: int) -> float:
    fact = [record["head"], record["relation"], record["tail"]]
    fact[0 if record["side"] == "head" else 2] = candidate
    return float(model.score_facts(np.array([fact])))


def test_every_number_of_a_record_follows_from_its_ids_and_the_stored_weights(run: Path) -> None:
    code, out, err = call(str(run), "--update", "1", "--records", "10", "--json", "--ids")
    assert code == 0, err
    records, model = json.loads(out), RunView.open(run).model(1)
    assert len({(r["head"], r["relation"], r["tail"], r["side"]) for r in records}) == len(records) > 0
    for record in records:
        assert record["newcomers"] == sorted(record["newcomers"])
        assert len(record["references"]) == 4
        assert all(len(row) == len(record["newcomers"]) for row in record["references"])
        assert len(record["match_level"]) == len(record["newcomers"])
        assert record["answer"] == record["head" if record["side"] == "head" else "tail"]
        answer = score(model, record, record["answer"])
        sample = [score(model, record, e) for e in record["scale_sample"]]
        assert record["iqr"] == pytest.approx(np.subtract(*np.quantile(sample, [0.75, 0.25])), rel=1e-9)
        assert record["tau"] == max(record["iqr"], 0.1 * record["mad"], 1e-8)

        def value(ids: list[int], of: dict = record, at: float = answer) -> float:
            return pressure([(score(model, of, e) - at) / of["tau"] for e in ids])

        assert record["u_new"] == pytest.approx(value(record["newcomers"]), rel=1e-8, abs=1e-12)
        old = [value(row) for row in record["references"]]
        assert record["u_old"] == pytest.approx(np.mean(old), rel=1e-8, abs=1e-12)
        assert record["excess"] == pytest.approx(max(record["u_new"] - record["u_old"], 0), abs=1e-15)
        assert record["active"] == (record["excess"] > 0)


def test_labels_stand_for_the_same_ids_and_more_records_add_to_fewer(run: Path) -> None:
    ids = json.loads(call(str(run), "--records", "5", "--json", "--ids")[1])
    named = json.loads(call(str(run), "--records", "3", "--json")[1])
    stream = RunView.open(run).stream()
    for number, label in zip(ids, named, strict=False):
        assert label["head"] == stream.entities.label(number["head"])
        assert label["relation"] == stream.relations.label(number["relation"])
        assert label["newcomers"] == [stream.entities.label(e) for e in number["newcomers"]]


def test_a_person_gets_a_table_and_a_picture(run: Path) -> None:
    code, out, _ = call(str(run), "--update", "1")
    assert code == 0
    for word in ("excess", "records active", "newcomers", "matched old", "answer", "tau"):
        assert word in out


@pytest.mark.parametrize("update", ["0", "99"])
def test_an_update_that_is_not_there_is_refused_with_those_that_are(run: Path, update: str) -> None:
    code, out, err = call(str(run), "--update", update)
    assert (code, out) == (2, "")
    assert "[1" in err


def test_no_run_is_a_clear_error(tmp_path: Path) -> None:
    code, _, err = call(str(tmp_path))
    assert code == 2
    assert "not a run folder" in err


def records_of(run: Path):
    view = RunView.open(run)
    stream = view.stream()
    comparison = comparison_of(view.config, stream, 1)
    return comparison, penalty_records(comparison, view.model(1)), view.model(1), stream


def test_records_parquet_holds_a_row_for_every_occurrence(run: Path, tmp_path: Path) -> None:
    comparison, records, _, _ = records_of(run)
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(records_bytes(records))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    table = pq.read_table(tmp_path / "a")
    assert table.num_rows == len(comparison.cohort)
    keys = ["head", "relation", "tail", "side", "n_newcomers"]
    assert table.column_names == [*keys, "iqr", "mad", "tau", "u_new", "u_old", "excess", "active"]
    rows = table.to_pylist()
    for x, row in enumerate(rows):
        assert (row["head"], row["relation"], row["tail"]) == tuple(comparison.cohort.fact[x])
        assert row["side"] == Side(comparison.cohort.side[x]).label
        if comparison.eligible[x]:
            assert row["u_new"] == records.new[x]
            assert row["tau"] == records.scale.tau[x]


def test_an_occurrence_that_is_not_eligible_has_nulls_and_is_not_active(run: Path) -> None:
    comparison, records, _, _ = records_of(run)
    nobody = np.zeros(len(comparison.cohort), dtype=bool)
    object.__setattr__(comparison, "eligible", nobody)
    rows = records_table(records).to_pylist()
    assert all(row["tau"] is None and row["u_new"] is None and row["active"] is False for row in rows)


def test_the_picture_fits_the_terminal_and_marks_the_answer(run: Path) -> None:
    comparison, records, model, _ = records_of(run)
    x = int(np.flatnonzero(comparison.eligible)[0])
    for width in (40, 80, 200):
        lines = picture(records, x, model, str, str, width).splitlines()
        axis = next(line for line in lines if "┴" in line)
        assert len(axis) <= max(width, 33)
        assert any("answer" in line for line in lines)


def test_an_update_without_eligible_records_says_so(run: Path, capsys: pytest.CaptureFixture) -> None:
    from meor.cli.inspect import _show

    _, _, model, stream = records_of(run)
    empty = Comparison.build(stream, 1, np.empty((0, 3), np.int64), run=0)
    _show(penalty_records(empty, model), np.empty(0, np.int64), stream, model, ids=False, title="t")
    assert "no record is eligible" in capsys.readouterr().out
