"""What readers say of a run that is in progress or was stopped, and of one with nothing to rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock
from tests.quiet_streams import GROWS, quiet_stream
from tests.run.test_state import cut
from tests.tiny_run import SETTINGS, each_step, tiny_config
from typer.testing import CliRunner

from meor.cli import app
from meor.run.layout import LOCK
from meor.run.session import start
from meor.stream.files import write_stream
from meor.stream.snapshot import build_stream
from meor.typing import SPLITS, Split

SETS = [part for text in SETTINGS for part in ("--set", text)]


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def run(ring: Path) -> Path:
    start(tiny_config(stream=ring), Path("run"), resources=each_step(ring.parent / "cache"))
    return Path("run")


def test_an_audit_of_a_run_in_progress_says_so_and_calls_nothing_damaged(run: Path) -> None:
    cut(run, 2)  # update 2 lies there, about to be listed
    with FileLock(run / LOCK):
        code, out, err = call("audit", "run")
    assert code == 0, err
    assert "run is in progress: update 1 of 2 is there" in err
    assert "damaged" not in err
    assert "resume" not in err
    assert "update 2" not in out


def test_an_audit_of_an_interrupted_run_says_unfinished_and_what_is_there(run: Path) -> None:
    cut(run, 2)
    code, _, err = call("audit", "run")
    assert code == 0, err
    assert "run is unfinished: update 1 of 2 is there. Go on with `meor resume run`." in err
    assert "ranks, as far as it is, follow from its stored models" in " ".join(err.split())


def test_an_audit_before_the_first_update_says_what_is_there(run: Path) -> None:
    cut(run, 1)
    code, _, err = call("audit", "run")
    assert code == 2
    assert "run is unfinished: the base is there, and no update. Go on with `meor resume run`." in err


def test_an_audit_of_a_finished_run_does_not_speak_of_its_state(run: Path) -> None:
    code, _, err = call("audit", "run")
    assert code == 0
    assert "unfinished" not in err
    assert "in progress" not in err


def test_a_listed_model_that_changed_is_still_called_damaged(run: Path) -> None:
    path = run / "update-1" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    code, _, err = call("audit", "run")
    assert code == 2
    assert "damaged" in err


def test_the_page_of_an_unfinished_run_says_how_far_it_is(run: Path) -> None:
    cut(run, 2)
    assert call("report", "run")[0] == 0
    text = (run / "report.html").read_text()
    assert "This run is unfinished: update 1 is there. Its endpoints are not known yet." in text
    assert "while 1 update admits newcomers" in text


def test_a_stream_without_test_facts_is_said_to_have_none(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MEOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    whole = quiet_stream((GROWS, GROWS))
    label, of = whole.entities.label, whole.relations.label
    snapshots = [
        {
            split: [(label(h), of(r), label(t)) for h, r, t in snapshot.facts([split]).tolist()]
            for split in SPLITS
            if split is not Split.TEST
        }
        for snapshot in whole.snapshots
    ]
    write_stream(build_stream("bare", snapshots), tmp_path / "bare")
    code, _, err = call("run", "--stream", "bare", "--out", "run", *SETS)
    assert code == 0, err
    assert call("report", "run")[0] == 0
    text = Path("run/report.html").read_text()
    assert "The stream has no test facts: there is nothing to rank, so no endpoint exists." in text
    assert "not known yet" not in text
