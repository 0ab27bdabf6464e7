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
from tests.crash.commands import Kind, call, kinds, run_command, study_command
from tests.tiny_run import SETTINGS, begin_or_go_on, each_step, results, tiny_config, tiny_stream

from meor.errors import RunError
from meor.methods import DEFAULT
from meor.run.folder import RunFolder
from meor.run.session import resume, start
from meor.run.view import RunView
from meor.stream.files import write_stream


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Children of a server that has our modules loaded: a kill costs a moment instead of an import."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [f"meor.cli.{verb}" for verb in ("run", "resume", "study", "audit", "report")]
    )
    return context


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream") / "ring"
    write_stream(tiny_stream(), folder)
    return folder


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, ring: Path, processes: ForkServerContext) -> Work:
    folder = tmp_path_factory.mktemp("finished")
    for arguments in (run_command(folder, ring), study_command(folder, ring)):
        child = processes.Process(target=call, args=(arguments, folder / "told"))
        child.start()
        child.join()
        assert child.exitcode == 0, (folder / "told").read_text()
    return Work(kinds(ring, folder / "run", folder / "study"), processes)


class Work:
    """Commands, killed at random moments and given again until they end."""

    def __init__(self, known: dict[str, Kind], processes: ForkServerContext) -> None:
        self.kinds, self.processes = known, processes

    def kill(self, name: str, wanted: int, folder: Path) -> int:
        """`wanted` kills of one kind; how many times the work was finished."""
        kind, chance = self.kinds[name], random.Random(f"kill {name}")
        # Twice: the first may compile kernels, and kills spread over that time would mostly come too late.
        timed = [self._seconds(kind, folder / f"whole-{index}") for index in range(2)]
        longest, working = (min(each) for each in zip(*timed, strict=True))
        expected = kind.made(folder / "whole-0")
        assert kind.made(folder / "whole-1") == expected != {}
        kills = finished = 0
        while kills < wanted:
            at = folder / f"at-{finished}"
            at.mkdir()
            ended = False
            while not ended:
                before, child = kind.sign(at), self._begin(kind, at)
                if chance.random() < 0.7:  # most of a short command is its start: the rest is to be hit too
                    _wait_for_a_sign(kind, child, at, before)
                    child.join(chance.uniform(0.0, working))
                else:
                    child.join(chance.uniform(0.0, longest))
                if child.is_alive() and kills < wanted:
                    child.kill()
                    kills += 1
                child.join()
                ended = child.exitcode == 0
                assert child.exitcode in (0, -9), at.with_suffix(".told").read_text()
                if not (ended or kind.may_be_partly_there):
                    assert kind.made(at).items() <= expected.items(), "half a file under its final name"
            assert kind.made(at) == expected, f"{name} {finished} after {kills} kills"
            finished += 1
        return finished

    def finish(self, name: str, at: Path) -> None:
        """The command once, undisturbed."""
        child = self._begin(self.kinds[name], at)
        child.join()
        assert child.exitcode == 0, at.with_suffix(".told").read_text()

    def _begin(self, kind: Kind, at: Path) -> BaseProcess:
        child = self.processes.Process(target=call, args=(kind.command(at), at.with_suffix(".told")))
        child.start()
        return child

    def _seconds(self, kind: Kind, at: Path) -> tuple[float, float]:
        """How long it takes from its process's start, and from the first thing it writes."""
        at.mkdir()
        began, before = time.monotonic(), kind.sign(at)
        child = self._begin(kind, at)
        _wait_for_a_sign(kind, child, at, before)
        working = time.monotonic()
        child.join()
        assert child.exitcode == 0, at.with_suffix(".told").read_text()
        return time.monotonic() - began, time.monotonic() - working


def _wait_for_a_sign(kind: Kind, child: BaseProcess, at: Path, before: object) -> None:
    """Until the command has written: from there on every moment is one of working or committing."""
    while child.is_alive() and kind.sign(at) == before:
        time.sleep(0.002)


@pytest.mark.parametrize("kind", ["meor", "validated"])
def test_c1_the_penalty_acts_in_what_is_killed(tmp_path: Path, work: Work, kind: str) -> None:
    (tmp_path / "at").mkdir()
    work.finish(kind, tmp_path / "at")
    told = [
        event for event in RunView.open(tmp_path / "at" / "run").events() if event["event"] == "coefficient"
    ]
    assert told[0]["rule"] == "balance"
    assert told[0]["coefficient"] > 0
    assert told[-1]["rule"] == ("balance" if kind == "meor" else "validated")


# 20 kills in `make test`, 500 in `make test-long`.
FEW = {"none": 3, "meor": 3, "calibration": 3, "validated": 3, "study": 3, "audit": 2, "report": 3}
MANY = {"none": 80, "meor": 100, "calibration": 80, "validated": 60, "study": 60, "audit": 60, "report": 60}


@pytest.mark.parametrize(("kind", "kills"), FEW.items())
def test_c1_after_some_of_20_kills_every_command_ends_with_the_same_bytes(
    tmp_path: Path, work: Work, kind: str, kills: int
) -> None:
    assert sum(FEW.values()) == 20
    assert work.kill(kind, kills, tmp_path) >= 1


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("kind", "kills"), MANY.items())
def test_c1_after_some_of_500_kills_every_command_ends_with_the_same_bytes(
    tmp_path: Path, work: Work, kind: str, kills: int
) -> None:
    assert sum(MANY.values()) == 500
    finished = work.kill(kind, kills, tmp_path)
    print(f"{kind}: {kills} kills over {finished} finished, 0 mismatches")


def test_c1_the_command_itself_survives_a_kill(tmp_path: Path, ring: Path) -> None:
    begin_or_go_on(tmp_path / "whole", ring, tmp_path / "cache-whole", (f"method={DEFAULT}",))
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
