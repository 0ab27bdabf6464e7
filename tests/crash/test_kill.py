"""C1, C5: kill -9 at random moments; two writers on one folder."""

from __future__ import annotations

import multiprocessing
import random
import subprocess
import sys
import time
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from tests.tiny_run import SETTINGS, begin_or_go_on, each_step, results, tiny_config, tiny_stream

from meor.errors import RunError
from meor.run.folder import RunFolder
from meor.run.session import resume, start
from meor.run.view import RunView
from meor.stream.writer import write_stream


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Children of a server that has our modules loaded: a kill costs a moment instead of an import."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["meor.run.session"])
    return context


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream") / "ring"
    write_stream(tiny_stream(), folder)
    return folder


def wait_until_it_works(child: BaseProcess, run: Path) -> None:
    """Until the child has written to the log: from there on every moment is one of training or committing."""
    log = run / "log.jsonl"
    before = log.stat().st_size if log.exists() else 0
    while child.is_alive() and not (log.exists() and log.stat().st_size > before):
        time.sleep(0.002)


def seconds_of_a_run(run: Path, ring: Path, processes: ForkServerContext) -> tuple[float, float]:
    """How long a run takes from its process's start, and from the first line of its log."""
    began = time.monotonic()
    child = processes.Process(target=begin_or_go_on, args=(run, ring, run.with_name(f"cache-{run.name}")))
    child.start()
    wait_until_it_works(child, run)
    working = time.monotonic()
    child.join()
    return time.monotonic() - began, time.monotonic() - working


def kill_until(wanted: int, folder: Path, ring: Path, processes: ForkServerContext) -> tuple[int, int]:
    """Kill runs at random moments until `wanted` kills are done; (kills, finished runs)."""
    chance = random.Random(1)
    begin_or_go_on(folder / "whole", ring, folder / "cache-whole")
    expected = results(folder / "whole")
    # Twice: the first may compile kernels, and kills spread over that time would mostly come too late.
    timed = [seconds_of_a_run(folder / f"timed-{index}", ring, processes) for index in range(2)]
    longest, work = (min(each) for each in zip(*timed, strict=True))
    kills = runs = 0
    while kills < wanted:
        run, cache = folder / f"run-{runs}", folder / f"cache-{runs}"
        finished = False
        while not finished:
            child = processes.Process(target=begin_or_go_on, args=(run, ring, cache))
            child.start()
            if chance.random() < 0.7:  # most of a short run is its start: see to it that the rest is hit too
                wait_until_it_works(child, run)
                child.join(chance.uniform(0.0, work))
            else:
                child.join(chance.uniform(0.0, longest))
            if child.is_alive() and kills < wanted:
                child.kill()
                kills += 1
            child.join()
            finished = child.exitcode == 0
            assert child.exitcode in (0, -9), "a resumed run must not fail"
        assert results(run) == expected, f"run {runs} after {kills} kills"
        assert RunView.open(run).complete
        runs += 1
    return kills, runs


def test_c1_after_20_kills_every_run_ends_with_the_same_bytes(
    tmp_path: Path, ring: Path, processes: ForkServerContext
) -> None:
    kills, _ = kill_until(20, tmp_path, ring, processes)
    assert kills == 20


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_c1_after_500_kills_every_run_ends_with_the_same_bytes(
    tmp_path: Path, ring: Path, processes: ForkServerContext
) -> None:
    kills, runs = kill_until(500, tmp_path, ring, processes)
    assert kills == 500
    print(f"{kills} kills over {runs} runs, 0 mismatches")


def test_c1_the_command_itself_survives_a_kill(tmp_path: Path, ring: Path) -> None:
    begin_or_go_on(tmp_path / "whole", ring, tmp_path / "cache-whole")
    meor = [sys.executable, "-c", "from meor.cli import main; main()"]
    shared = ["--cache", str(tmp_path / "cache"), "--checkpoint-seconds", "0", "--threads", "1", "--quiet"]
    sets = [part for text in (*SETTINGS, "refine.passes=2") for part in ("--set", text)]
    run = tmp_path / "run"
    child = subprocess.Popen([*meor, "run", "--stream", str(ring), "--out", str(run), *sets, *shared])
    while child.poll() is None and not (run / "steps" / "LATEST").exists():
        time.sleep(0.01)
    child.kill()
    child.wait()
    done = subprocess.run([*meor, "resume", str(run), *shared], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert results(run) == results(tmp_path / "whole")
    assert any(event["event"] == "resumed" for event in RunView.open(run).events())


def test_c5_the_second_writer_is_refused_at_once_and_the_first_is_unharmed(tmp_path: Path) -> None:
    stream = tiny_stream()
    run, resources = tmp_path / "run", each_step(tmp_path / "cache")
    start(tiny_config(), run, stream=stream, resources=resources)
    before = results(run)
    first = RunFolder.take(run)
    try:
        for _ in range(100):
            with pytest.raises(RunError, match="another process"):
                resume(run, stream=stream, resources=resources)
            with pytest.raises(RunError, match="another process"):
                start(tiny_config(), run, stream=stream, resources=resources, force=True)
    finally:
        first.release()
    assert results(run) == before


def hold(run: Path, held: object, done: object) -> None:
    folder = RunFolder.take(run)
    held.set()  # type: ignore[attr-defined]
    done.wait()  # type: ignore[attr-defined]
    folder.release()


def test_c5_a_writer_in_another_process_is_noticed_and_its_death_frees_the_folder(
    tmp_path: Path, processes: ForkServerContext
) -> None:
    stream = tiny_stream()
    run, resources = tmp_path / "run", each_step(tmp_path / "cache")
    start(tiny_config(), run, stream=stream, resources=resources)
    held, done = processes.Event(), processes.Event()
    writer = processes.Process(target=hold, args=(run, held, done))
    writer.start()
    held.wait()
    with pytest.raises(RunError, match="another process"):
        resume(run, stream=stream, resources=resources)
    writer.kill()
    writer.join()
    resume(run, stream=stream, resources=resources)
