"""A run that is not finished says so: in progress, or stopped on its way, and how far it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from filelock import FileLock
from tests.tiny_run import each_step, tiny_config, tiny_stream

from meor.run.layout import LOCK, MANIFEST, is_being_written, state_of, unfinished
from meor.run.session import start


@pytest.fixture
def run(tmp_path: Path) -> Path:
    start(tiny_config(), tmp_path / "run", stream=tiny_stream(), resources=each_step(tmp_path / "cache"))
    return tmp_path / "run"


def cut(run: Path, updates: int) -> None:
    """The manifest as it was when so many models, the base among them, were committed."""
    path = run / MANIFEST
    manifest = json.loads(path.read_text())
    kept = {
        name: digest
        for name, digest in manifest["sha256"].items()
        if not name.startswith("update-") or int(name[7]) < updates
    }
    kept.pop("endpoints.json", None)
    kept.pop("log.jsonl", None)
    path.write_text(json.dumps({**manifest, "sha256": kept, "complete": False}))


def test_a_finished_run_has_nothing_to_say(run: Path) -> None:
    assert unfinished(run) == ""
    assert state_of(run) == ""
    assert not (run / LOCK).exists(), "asking leaves no trace"


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (0, "no base is there yet"),
        (1, "the base is there, and no update of 2"),
        (2, "update 1 of 2 is there"),
        (3, "updates 1 to 2 of 2 are there"),
    ],
)
def test_a_stopped_run_is_unfinished_and_says_how_far_it_is(run: Path, models: int, words: str) -> None:
    cut(run, models)
    assert unfinished(run, 2) == f"{run} is unfinished: {words}. Go on with `meor resume {run}`."


def test_a_run_that_a_process_writes_is_in_progress_and_nobody_is_sent_to_resume_it(run: Path) -> None:
    cut(run, 2)
    with FileLock(run / LOCK):
        assert is_being_written(run)
        assert unfinished(run, 2) == f"{run} is in progress: update 1 of 2 is there."
    assert not is_being_written(run)
    assert "is unfinished" in unfinished(run)


def test_asking_does_not_take_the_lock_from_a_writer(run: Path) -> None:
    cut(run, 2)
    (run / LOCK).touch()
    assert not is_being_written(run)
    with FileLock(run / LOCK, timeout=0):
        pass
