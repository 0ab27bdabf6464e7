from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.study.tiny_study import METHODS, tiny_plan
from typer.testing import CliRunner

from meor.cli import app
from meor.study.rows import read_rows


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["study", *arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """A study file, an executor and places."""
    (tmp_path / "tiny.yaml").write_text(tiny_plan(tmp_path).to_yaml())
    places = ["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    return [str(tmp_path / "tiny.yaml"), *places, "--executor", "serial"]


def test_a_study_file_makes_rows_tables_effects_and_says_so(given: list[str], tmp_path: Path) -> None:
    code, shown, progress = run(*given)
    assert code == 0, progress
    out = tmp_path / "out"
    assert len(read_rows(out / "runs.parquet")) == 2 * len(METHODS)
    assert (out / "effects.csv").is_file()
    assert (out / "command.txt").is_file()
    assert {path.suffix for path in (out / "tables").iterdir()} == {".txt", ".md", ".tex", ".csv"}
    assert "Endpoints: " in shown
    assert "pair-0/none" in progress
    code, _, progress = run(*given, "--pairs", "3", "--quiet")
    assert (code, progress) == (0, "")
    assert len(read_rows(out / "runs.parquet")) == 3 * len(METHODS)


def test_two_studies_may_share_their_runs(given: list[str], tmp_path: Path) -> None:
    runs = ["--runs", str(tmp_path / "runs"), "--method", "none"]
    code, shown, _ = run(*given, *runs, "--holm", "--table", "absolute")
    assert code == 0
    assert f"meor report {tmp_path / 'out'} --runs {tmp_path / 'runs'} makes a page" in shown
    assert "has none of the tables effects, ablation, transfer" in shown
    (tmp_path / "other.yaml").write_text(Path(given[0]).read_text().replace("study: tiny", "study: other"))
    code, _, progress = run(
        str(tmp_path / "other.yaml"), *given[1:], *runs, "--out", str(tmp_path / "second")
    )
    assert code == 0
    assert progress.count("was there") == 2
    assert {row.study for row in read_rows(tmp_path / "second" / "runs.parquet")} == {"other"}


def test_a_failed_run_is_named_and_the_exit_code_says_so(given: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "out" / "runs" / "ring-replay-complex-practical" / "pair-0"
    folder.mkdir(parents=True)
    (folder / "none").write_text("in the way")
    code, _, progress = run(*given, "--method", "none")
    assert code == 2
    assert "FAILED ring-replay-complex-practical/pair-0/none" in progress
    assert "The others are done. The same command" in progress
    (folder.parent / "pair-1").mkdir(exist_ok=True)
    code, shown, progress = run(*given, "--method", "none", "--pairs", "1")
    assert code == 2
    assert "the first is ring-replay-complex-practical/pair-0/none: " in progress
    assert "The others are done" not in progress
    assert ". ." not in progress
    assert shown == ""  # no table, and no page of nothing


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing"], "there is no study nothing"),
        (["primary", "--set", "dmi=3"], "nearest setting is dim"),
        (["primary", "--rule", "best"], "balance, validated"),
        (["primary", "--executor", "cluster"], "no executor"),
        (["primary", "--stream", "NOPE"], "no stream, file or folder named 'NOPE'"),
        (["primary", "--data-dir", "/nowhere"], "ENTITY is not in /nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: list[str], told: str) -> None:
    code, _, error = run(*arguments)
    assert code == 2
    assert told in error
    assert len(error.strip().splitlines()) == 1


def test_a_study_that_is_asked_to_end_takes_its_workers_with_it(tmp_path):
    command = [sys.executable, "-c", "from meor.cli import main; main()", "study", "primary"]
    command += [
        "--stream",
        "world",
        "--pairs",
        "4",
        "--workers",
        "2",
        "--rule",
        "balance",
        "--set",
        "dim=200",
    ]
    study = subprocess.Popen(
        [*command, "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "out").glob("runs/*/pair-*/none/log.jsonl")):
        assert study.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    study.terminate()
    assert study.wait(60) == 130
    told = study.stderr.read()
    assert "interrupted" in told
    assert "The same command goes on where it stopped." in told
    assert "Traceback" not in told
    for _ in range(100):
        if not _alive_in_session(study.pid):
            return
        time.sleep(0.1)
    raise AssertionError(f"still there: {_alive_in_session(study.pid)}")


def _alive_in_session(leader):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z" and int(stat.parent.name) != leader:
                found.append(int(stat.parent.name))
    return found
