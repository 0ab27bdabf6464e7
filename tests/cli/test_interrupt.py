"""Ctrl-C at any moment: one line that says how to go on, and no traceback."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.tiny_run import SETTINGS, each_step, results, tiny_config
from typer.testing import CliRunner

from meor.cli import app
from meor.errors import Interrupted, RunError, is_interrupt
from meor.methods import DEFAULT
from meor.run.layout import is_run
from meor.run.session import start
from meor.run.view import RunView
from meor.study import cell
from meor.study.cells import alone_cells
from meor.training import host

# Whatever a shell starts in the background ignores SIGINT, and so would its children.
MEOR = """import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from meor.cli import main
main()"""
SETS = [part for text in SETTINGS for part in ("--set", text)]


def from_a_kernel() -> SystemError:
    """What CPython makes of Ctrl-C inside a compiled function that returns all the same."""
    error = SystemError("<built-in function kernel> returned a result with an exception set")
    error.__cause__ = KeyboardInterrupt()
    return error


def raise_at_the_third_loss(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    asked = 0
    loss = host.link_loss

    def interrupted(*arguments: object, **named: object) -> object:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise error
        return loss(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(host, "link_loss", interrupted)


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stderr


def test_what_is_an_interrupt() -> None:
    assert is_interrupt(KeyboardInterrupt())
    assert is_interrupt(from_a_kernel())
    assert not is_interrupt(SystemError("a defect"))
    assert not is_interrupt(ValueError("a defect"))
    explained = RunError("the disk is full.")
    explained.__context__ = KeyboardInterrupt()
    assert not is_interrupt(explained), "a sentence that was met while stopping is told"
    one, other = ValueError(), ValueError()
    one.__cause__, other.__cause__ = other, one
    assert not is_interrupt(one), "a circle of causes ends"


@pytest.mark.parametrize("made", [KeyboardInterrupt, from_a_kernel])
def test_an_interrupted_run_ends_with_how_to_go_on_and_can(ring: Path, monkeypatch, made) -> None:
    with monkeypatch.context() as patched:
        raise_at_the_third_loss(patched, made())
        code, err = call("run", "--stream", "ring", "--out", "a run", *SETS)
    assert code == 130
    assert err.endswith("meor: interrupted; go on with: meor resume 'a run'\n")
    assert "Traceback" not in err
    with monkeypatch.context() as patched:
        raise_at_the_third_loss(patched, made())
        code, err = call("resume", "a run")
    assert code == 130
    assert err.endswith("meor: interrupted; go on with: meor resume 'a run'\n")
    assert call("resume", "a run")[0] == 0


def test_a_run_that_could_not_begin_does_not_speak_of_going_on(ring: Path, monkeypatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("meor.run.session.check", interrupted)
        assert call("run", "--stream", "ring", "--out", "run", *SETS) == (130, "meor: interrupted\n")
    with monkeypatch.context() as patched:
        patched.setattr("meor.run.folder._begun", interrupted)
        assert call("run", "--stream", "ring", "--out", "run", *SETS) == (130, "meor: interrupted\n")
    assert call("run", "--stream", "ring", "--out", "run", *SETS, "--quiet")[0] == 0
    with monkeypatch.context() as patched:  # an earlier run lies there: it is not the one that was stopped
        patched.setattr("meor.run.session.check", interrupted)
        code, err = call("run", "--stream", "ring", "--out", "run", *SETS, "--force")
    assert (code, err) == (130, "meor: interrupted\n")


def test_an_interrupt_in_a_trial_names_the_run_and_not_the_trial(ring: Path, monkeypatch) -> None:
    def in_a_trial(*_: object) -> None:
        raise Interrupted("go on with: meor resume trial") from KeyboardInterrupt()

    monkeypatch.setattr("meor.run.runner.Runner._base", in_a_trial)
    _, err = call("run", "--stream", "ring", "--out", "run", *SETS)
    assert err.endswith("go on with: meor resume run\n")


def test_a_kernel_that_was_interrupted_is_no_failure_of_a_study_cell(tmp_path: Path, monkeypatch) -> None:
    from tests.study.tiny_study import tiny_plan

    def interrupted(_: object) -> None:
        raise from_a_kernel()

    plan = tiny_plan(tmp_path)
    task = cell.Task(plan, alone_cells(plan)[0], tmp_path)
    monkeypatch.setattr(cell, "finished", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cell.run_cell(task)


def test_sigint_at_any_moment_of_a_real_run(ring: Path, tmp_path: Path) -> None:
    """A process of its own, stopped again and again, and then brought to the bytes of a whole run."""
    whole = tiny_config(f"method={DEFAULT}", stream=ring)
    start(whole, tmp_path / "whole", resources=each_step(tmp_path / "other"))
    meor = [sys.executable, "-c", MEOR]
    begin = [*meor, "run", "--stream", "ring", "--out", "run", "--checkpoint-seconds", "0", *SETS]
    go_on = [*meor, "resume", "run", "--checkpoint-seconds", "0"]
    moment = random.Random(5)
    stopped = 0
    for _ in range(6):
        had_begun = is_run(tmp_path / "run")
        code, err = _stopped(go_on if had_begun else begin, tmp_path, moment.uniform(0.0, 0.4))
        if code == 0:
            break
        assert code == 130, err
        assert "Traceback" not in err
        said = err.rstrip().endswith("go on with: meor resume run")
        begun = is_run(tmp_path / "run")
        if begun and RunView.open(tmp_path / "run").complete:
            break  # stopped while it printed its result: there is nothing to go on with
        assert said is begun, err
        stopped += 1
    assert stopped
    subprocess.run(
        go_on if is_run(tmp_path / "run") else begin, cwd=tmp_path, check=True, capture_output=True
    )
    assert results(tmp_path / "run") == results(tmp_path / "whole")


def test_a_thread_that_never_ends_does_not_keep_an_interrupted_command() -> None:
    code = """
import sys, threading
from meor import cli

def interrupted(verb):
    raise KeyboardInterrupt

threading.Thread(target=threading.Event().wait).start()
cli.PATIENCE, cli.load, sys.argv = 0.2, interrupted, ["meor", "run"]
cli.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 130
    assert done.stderr == "meor: interrupted\n"


def _stopped(command: list[str], folder: Path, after: float) -> tuple[int, str]:
    """Exit code and stderr of a process that gets SIGINT so long after it holds the run's lock."""
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    log = folder / "run" / "log.jsonl"
    size = log.stat().st_size if log.exists() else 0
    while process.poll() is None and (log.stat().st_size if log.exists() else 0) == size:
        time.sleep(0.005)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    return process.returncode, err
