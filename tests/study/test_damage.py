"""What is changed on disk after a study is noticed: said and made again by `study`, refused by `report`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.study.study_rows import study_rows, write_rows
from tests.study.tiny_study import hashes, tiny_plan
from typer.testing import CliRunner

from meor.cli import app
from meor.errors import MeorError, StudyError
from meor.report.study_data import read_study
from meor.storage.disk import Disk
from meor.study import results as results_module
from meor.study.cell import finished, run_cell
from meor.study.cells import alone_cells, method_cells
from meor.study.conduct import SECONDS, Findings, conduct
from meor.study.plan import Study
from meor.study.results import MANIFEST, Results
from meor.study.row_file import read_row, require_intact, write_row
from meor.study.rows import read_rows
from meor.study.task import Means, Observer, Outcome, Task

FLIPS = 300


class Told(Observer):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.made: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def cell(self, outcome: Outcome) -> None:
        if not outcome.reused:
            self.made.append(outcome.cell.name)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


def plan_of(place: Path) -> Study:
    return tiny_plan(place, methods=["none", "meor"], pairs=2, tables=["absolute", "effects"])


@pytest.fixture(scope="module")
def whole(place: Path) -> Path:
    conduct(plan_of(place), place / "whole", means=Means(cache=place / "cache"))
    return place / "whole"


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "out")
    return tmp_path / "out"


def again(place: Path, out: Path, **means: object) -> tuple[Findings, Told]:
    told = Told()
    made = conduct(plan_of(place), out, means=Means(cache=place / "cache", **means), observer=told)  # type: ignore[arg-type]
    return made, told


def flips(data: bytes, seed: int, times: int = FLIPS) -> list[bytes]:
    found = []
    for position in np.random.default_rng(seed).integers(8 * len(data), size=times):
        damaged = bytearray(data)
        damaged[position // 8] ^= 1 << (int(position) % 8)
        found.append(bytes(damaged))
    return found


def pair(out: Path) -> Path:
    return out / "runs" / "ring-replay-complex-practical" / "pair-0"


# Every bit


def test_every_flipped_bit_of_the_rows_of_a_study_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    write_rows(path, study_rows(4))
    for damaged in flips(path.read_bytes(), 1):
        path.write_bytes(damaged)
        with pytest.raises(StudyError, match=r"runs\.parquet does not have the sha256 .* makes it again"):
            read_rows(path)


def test_every_flipped_bit_of_a_row_file_is_noticed(out: Path) -> None:
    path = pair(out) / "meor.json"
    for damaged in flips(path.read_bytes(), 2):
        path.write_bytes(damaged)
        with pytest.raises(MeorError, match=r"meor\.json"):
            read_row(path)


def test_every_flipped_bit_of_the_manifest_is_noticed_or_changes_nothing_that_is_read(out: Path) -> None:
    path = out / MANIFEST
    rows = read_rows(out / "runs.parquet")
    for damaged in flips(path.read_bytes(), 3, 200):
        path.write_bytes(damaged)
        with pytest.raises(MeorError):
            read_study(out)
    path.unlink()
    with pytest.raises(StudyError, match=r"has no study-manifest\.json"):
        read_study(out)
    assert rows


def test_every_flipped_bit_of_a_finished_cells_ranks_is_said_when_the_study_goes_on(
    place: Path, out: Path
) -> None:
    path = pair(out) / "none" / "update-1" / "ranks.parquet"
    task = Task(plan_of(place), alone_cells(plan_of(place))[0], out / "runs", Means(cache=place / "cache"))
    good = path.read_bytes()
    assert run_cell(task).reused
    for damaged in flips(good, 4, 200):
        path.write_bytes(damaged)
        with pytest.raises(MeorError, match=r"ranks\.parquet does not have the sha256"):
            results_of(task)
    outcome = run_cell(task)
    assert not outcome.reused
    assert "ranks.parquet" in outcome.remarks[0]
    assert path.read_bytes() == good


def results_of(task: Task) -> None:
    row = finished(task)
    assert row is not None
    require_intact(task.runs, row, task.cell.split)


# The study makes it again


def changed(path: Path) -> None:
    """Another A_TN, in valid JSON."""
    content = json.loads(path.read_text())
    content["row"]["A_TN"] += 0.125
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def without_settings(path: Path) -> None:
    content = json.loads(path.read_text())
    del content["settings"]
    path.write_text(json.dumps(content))


def extra_key(path: Path) -> None:
    content = json.loads(path.read_text())
    content["row"]["more"] = 1
    path.write_text(json.dumps(content))


def earlier_format(path: Path) -> None:
    content = json.loads(path.read_text())
    del content["sha256"]
    path.write_text(json.dumps({**content, "format": 1}))


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def nothing(path: Path) -> None:
    path.write_bytes(b"")


def a_list(path: Path) -> None:
    path.write_text("[1, 2]")


@pytest.mark.parametrize(
    "damage", [changed, without_settings, extra_key, earlier_format, half, nothing, a_list]
)
def test_a_damaged_row_is_said_its_cell_made_again_and_the_report_refuses_until_then(
    place: Path, whole: Path, out: Path, damage: Callable[[Path], None]
) -> None:
    path = pair(out) / "meor.json"
    damage(path)
    with pytest.raises(StudyError, match=r"meor\.json .*`meor study"):
        read_study(out)
    found, told = again(place, out)
    assert found.failures == {}
    assert told.made == ["ring-replay-complex-practical/pair-0/meor"]
    assert len(told.said) == 1
    assert "pair-0/meor is made again" in told.said[0]
    assert hashes(out) == hashes(whole)
    assert read_study(out).rows == found.rows


@pytest.mark.parametrize(
    "name",
    ["config.yaml", "manifest.json", "endpoints.json", "vocabulary.parquet", "update-2/records.parquet"],
)
def test_a_damaged_file_of_a_finished_cell_is_said_and_made_again(
    place: Path, whole: Path, out: Path, name: str
) -> None:
    path = pair(out) / "meor" / name
    path.write_bytes(path.read_bytes()[:-3] + b"x!\n")
    found, told = again(place, out)
    assert found.failures == {}
    assert told.made == ["ring-replay-complex-practical/pair-0/meor"]
    assert any(Path(name).name in said for said in told.said)
    assert hashes(out) == hashes(whole)


def test_a_row_that_its_run_does_not_confirm_is_made_again(place: Path, whole: Path, out: Path) -> None:
    path = pair(out) / "meor.json"
    row, settings = read_row(path)
    write_row(path, replace(row, A_TN=0.125 + (row.A_TN or 0.0)), settings)
    _, told = again(place, out)
    assert told.made == ["ring-replay-complex-practical/pair-0/meor"]
    assert "says A_TN" in told.said[0]
    assert hashes(out) == hashes(whole)


def test_a_damaged_balance_is_said_and_made_again(place: Path, whole: Path, out: Path) -> None:
    path = pair(out) / "meor-test.balance.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "coefficient": 1.0}, indent=2, sort_keys=True) + "\n")
    _, told = again(place, out)
    assert told.made == []
    assert any("balance.json" in said for said in told.said)
    assert hashes(out) == hashes(whole)


def test_a_damaged_result_of_a_study_is_said_and_written_again(place: Path, whole: Path, out: Path) -> None:
    for name in ("runs.parquet", "balances.json", MANIFEST):
        (out / name).write_bytes((out / name).read_bytes()[:-2])
        _, told = again(place, out)
        assert told.made == []
        assert any(name in said for said in told.said)
        assert hashes(out) == hashes(whole)


def test_a_row_of_other_settings_is_still_refused_and_not_made_again(place: Path, out: Path) -> None:
    other = plan_of(place).model_copy(update={"settings": {"refine": {"learning_rate": 0.5}}})
    cell = method_cells(other)[0]
    outcome = run_cell(Task(other, cell, out / "runs", Means(cache=place / "cache")))
    assert "other settings" in (outcome.failure or "")
    assert outcome.remarks == ()


# Files of the study


def test_what_the_command_wrote_is_listed_and_a_changed_table_is_refused_by_the_report(
    tmp_path: Path,
) -> None:
    (tmp_path / "tiny.yaml").write_text(
        tiny_plan(tmp_path, methods=["none"], pairs=1, tables=["absolute"]).to_yaml()
    )
    study = tmp_path / "out"
    arguments = ["study", str(tmp_path / "tiny.yaml"), "--out", str(study), "--executor", "serial"]
    arguments += ["--cache", str(tmp_path / "cache"), "--quiet"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    there = {
        path.relative_to(study).as_posix()
        for path in study.rglob("*")
        if path.is_file() and (study / "runs") not in path.parents
    }
    assert set(Results(study).files.sha256) == there - {MANIFEST, SECONDS}
    assert Results(study).problems() == []
    table = next((study / "tables").glob("*.md"))
    table.write_text(table.read_text().replace("0", "9"))
    done = CliRunner().invoke(app, ["report", str(study)])
    assert done.exit_code == 2
    assert table.name in "".join(done.stderr.split())
    assert "meor study" in done.stderr
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert CliRunner().invoke(app, ["report", str(study)]).exit_code == 0


def test_a_damaged_run_of_a_study_is_refused_by_the_report(place: Path, out: Path) -> None:
    for name in ("endpoints.json", "config.yaml"):
        path = pair(out) / "meor" / name
        good = path.read_bytes()
        path.write_bytes(good.replace(b"0", b"1", 1))
        done = CliRunner().invoke(app, ["report", str(out)])
        assert done.exit_code == 2, done.stdout
        assert "does not have the sha256" in " ".join(done.stderr.split())
        path.write_bytes(good)


class Killed(BaseException):
    pass


def test_killed_at_any_call_the_results_before_or_after_are_there_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {"runs.parquet": b"old rows", "balances.json": b"old", "failures.json": None}
    after = {"runs.parquet": b"new rows", "balances.json": None, "failures.json": b"new"}
    calls = 0

    class Mortal(Disk):
        def rename(self, source: Path, target: Path) -> None:
            nonlocal calls
            calls -= 1
            if calls < 0:
                raise Killed
            super().rename(source, target)

    for last in range(5):
        folder = tmp_path / str(last)
        folder.mkdir()
        Results(folder).replace(before)
        calls = last
        with monkeypatch.context() as patched:
            patched.setattr(results_module, "Disk", Mortal)
            try:
                Results(folder).replace(after)
            except Killed:
                assert last < 4
            else:
                assert last == 4
        found = Results(folder)
        assert found.problems() == []
        for name, old in before.items():
            assert found.read(name) in (old, after[name])
        Results(folder).replace(after)
        assert {name: Results(folder).read(name) for name in after} == after
        assert "before" not in json.loads((folder / MANIFEST).read_text())


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "tables/../../x", "", ".", ".lock", "a/b"])
def test_a_manifest_cannot_point_outside_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps({"format": 1, "sha256": {name: "0" * 64}}))
    with pytest.raises(StudyError, match="lists what no study writes"):
        Results(tmp_path).read("runs.parquet")


def test_the_committed_results_are_what_their_manifests_say() -> None:
    folders = [path.parent for path in (Path(__file__).parents[2] / "results").glob("*/runs.parquet")]
    assert folders
    for folder in folders:
        assert Results(folder).problems() == []
        assert read_rows(folder / "runs.parquet")
        there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
        unlisted = there - set(Results(folder).files.sha256) - {MANIFEST, SECONDS, "report.html", "README.md"}
        # Beside them may lie runs: of a study that goes on, or rows that one of its commands goes on from.
        assert all(name.startswith(("figures/", "runs/")) for name in unlisted), sorted(unlisted)
