"""Workers end with their study and give freed memory back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.study.tiny_study import tiny_plan

from meor.errors import MemoryBudgetError
from meor.study import execute as worker
from meor.study.cells import alone_cells
from meor.study.task import Means, Outcome, Task

PATIENCE = 120.0  # for something to begin on busy cores
SOON = 15.0  # for something to end

ORPHAN = """
import os, time
import meor.study.execute as worker
{without}
worker.end_with(os.getppid())
print(os.getpid(), flush=True)
time.sleep(600)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=False)"


def _until(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.1)
    return true()


def _status(pid: int) -> tuple[str, int]:
    """State and parent; Z where there is no such process, as for one that nobody has waited for."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return "Z", 0
    return state, int(parent)


def _gone(pid: int) -> bool:
    return _status(pid)[0] == "Z"


def _workers_of(study: int) -> list[int]:
    everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    mine = [pid for pid in everyone if _status(pid)[1] == study]
    return [
        pid for pid in mine if b"popen_loky" in _command(pid) and b"resource_tracker" not in _command(pid)
    ]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    "without",
    ["worker._watch = lambda study: None", "worker.c_library = lambda: None"],
    ids=["told", "looks"],
)
def test_a_worker_ends_with_its_study_by_either_means(without: str) -> None:
    study = subprocess.Popen(
        [sys.executable, "-c", PARENT, ORPHAN.format(without=without)], stdout=subprocess.PIPE, text=True
    )
    assert study.stdout is not None
    orphan = int(study.stdout.readline())
    assert not _gone(orphan)
    study.kill()
    study.wait()
    try:
        assert _until(lambda: _gone(orphan), SOON)
    finally:
        if not _gone(orphan):
            os.kill(orphan, signal.SIGKILL)
        study.stdout.close()


def test_a_study_that_is_killed_leaves_no_worker_behind(tmp_path: Path) -> None:
    tiny_plan(tmp_path)  # writes its stream
    out = tmp_path / "out"
    command = f"study primary --stream {tmp_path / 'ring'} --pairs 2 --workers 2 --out {out} --rule balance"
    endless = "--set base.epochs=10000000 --set base.patience=10000000 --set dim=4"
    study = subprocess.Popen(
        [sys.executable, "-c", "from meor.cli import main; main()", *command.split(), *endless.split()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    workers: list[int] = []
    try:
        assert _until(lambda: len(list(out.rglob("manifest.json"))) == 2, PATIENCE)  # both cells have begun
        workers = _workers_of(study.pid)
        assert len(workers) == 2
        study.kill()
        study.wait()
        assert _until(lambda: all(map(_gone, workers)), SOON)
    finally:
        study.kill()
        study.wait()
        for pid in workers:
            if not _gone(pid):
                os.kill(pid, signal.SIGKILL)


def test_freed_memory_goes_back_to_the_system_between_cells(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    kept: list[bytearray] = []

    def hungry(task: Task) -> Outcome:
        blocks = [bytearray(b"x") * (64 << 10) for _ in range(4000)]  # small enough to come from the heap
        kept.append(bytearray(64 << 10))  # on top of them, so that the heap cannot shrink by itself
        del blocks
        return Outcome(task.cell, None, "eaten", 0.0)

    monkeypatch.setattr(worker, "run_cell", hungry)
    plan = tiny_plan(tmp_path)
    worker.give_memory_back()
    before = _resident()
    assert worker.make_cell(Task(plan, alone_cells(plan)[0], tmp_path)).failure == "eaten"
    assert _resident() - before < 64 << 20  # of 250 MiB


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_cell_reads_within_the_memory_of_its_study(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    import pyarrow as pa
    import pyarrow.parquet as pq

    from meor.storage.parquet import read_table

    pq.write_table(pa.table({"label": ["x" * 100] * 1000}), tmp_path / "some.parquet")

    def reading(task: Task) -> Outcome:
        read_table(tmp_path / "some.parquet")
        return Outcome(task.cell, None, "read", 0.0)

    monkeypatch.setattr(worker, "run_cell", reading)
    plan = tiny_plan(tmp_path)
    with pytest.raises(MemoryBudgetError, match="--memory"):
        worker.make_cell(Task(plan, alone_cells(plan)[0], tmp_path, Means(memory=10_000)))
    assert worker.make_cell(Task(plan, alone_cells(plan)[0], tmp_path)).failure == "read"
