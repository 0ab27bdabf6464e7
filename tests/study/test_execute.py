from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.study.tiny_study import hashes, tiny_plan

from meor.errors import ConfigError, StudyError
from meor.study.conduct import conduct
from meor.study.execute import Dask, Processes, Serial, executor_of
from meor.study.task import Means, Outcome, Task


def test_executors_are_named_and_others_refused() -> None:
    assert isinstance(executor_of("serial", None), Serial)
    assert isinstance(executor_of(None, 1), Serial)
    assert isinstance(executor_of(None, 2), Processes)
    assert executor_of(None, 3).workers == 3
    assert executor_of(None, None).workers == len(os.sched_getaffinity(0))
    for wrong in ("ray", "dask", "dask://", "slurm://x"):
        with pytest.raises(ConfigError, match="no executor"):
            executor_of(wrong, None)


def test_a_worker_that_does_not_see_the_study_says_so(tmp_path: Path) -> None:
    plan = tiny_plan(tmp_path)
    task = Task(plan, next(iter(_alone(plan))), tmp_path / "elsewhere")
    (outcome,) = Serial().outcomes([task])
    assert outcome.failure is not None
    assert "not visible" in outcome.failure


def _alone(plan):  # type: ignore[no-untyped-def]
    from meor.study.cells import alone_cells

    return alone_cells(plan)


def _die_once(task: Task, study: int) -> Outcome:
    mark = task.runs / "died"
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(task.cell, None, "reached", 0.0)


def _die(task: Task, study: int) -> Outcome:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


@pytest.mark.parametrize(
    ("cell", "told"),
    [(_die_once, "reached"), pytest.param(_die, "killed each time", marks=pytest.mark.long)],
)
def test_a_killed_process_costs_no_other_cell(tmp_path: Path, monkeypatch, cell, told) -> None:  # type: ignore[no-untyped-def]
    from meor.study import execute

    monkeypatch.setattr(execute, "make_cell", cell)
    plan = tiny_plan(tmp_path, pairs=3)
    tasks = [Task(plan, each, tmp_path) for each in _alone(plan)]
    found = list(Processes(2).outcomes(tasks))
    assert sorted(outcome.cell for outcome in found) == sorted(task.cell for task in tasks)
    assert all(told in (outcome.failure or "") for outcome in found)


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A real scheduler with two workers on loopback, each a process of its own."""
    address = folder / "scheduler.json"
    started: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *arguments, "--scheduler-file", str(address)]
        log = (folder / f"{arguments[0]}-{len(started)}.log").open("wb")
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "20s",
        }
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        started.append(process)
        return process

    try:
        begin("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        worker = ("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        workers = [begin(*worker), begin(*worker)]
        deadline = time.monotonic() + 60
        while not (
            address.is_file() and address.read_text().endswith("}")
        ):  # it is there before it is written
            if time.monotonic() > deadline:
                raise TimeoutError(f"no scheduler came up; see {folder}")
            time.sleep(0.05)
        import json

        yield json.loads(address.read_text())["address"].removeprefix("tcp://"), workers
    finally:
        for process in started:
            process.kill()
            process.wait()


class KillsOne(Dask):
    """Kills a worker as soon as the first cell has come back, with others under way."""

    def __init__(self, address: str, victim: subprocess.Popen[bytes]) -> None:
        super().__init__(address)
        self.victim = victim

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        for outcome in super().outcomes(tasks):
            if self.victim.poll() is None:
                self.victim.send_signal(signal.SIGKILL)
                self.victim.wait()
            yield outcome


def test_dask_gives_the_bytes_of_the_local_run_with_a_worker_killed_in_the_middle(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    plan = tiny_plan(tmp_path, pairs=3)
    local = conduct(plan, tmp_path / "local", means=Means(cache=tmp_path / "cache"))
    with cluster(tmp_path) as (address, workers):
        executor = KillsOne(f"tcp://{address}", workers[0])
        try:
            executor.client.wait_for_workers(2, timeout=60)
            means = Means(cache=tmp_path / "dask cache", checkpoint_seconds=0.0)
            found = conduct(plan, tmp_path / "dask", executor=executor, means=means)
        finally:
            executor.close()
        assert workers[0].returncode == -signal.SIGKILL
    assert found.failures == {}
    assert found.rows == local.rows
    assert hashes(tmp_path / "dask") == hashes(tmp_path / "local")


def test_a_scheduler_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("meor.study.execute.CONNECT_SECONDS", 1)
    with pytest.raises(StudyError, match="No Dask scheduler"):
        executor_of("dask://127.0.0.1:9", None)
