"""Where cells are executed: this process, local processes (joblib), or many machines (Dask).

An executor takes independent tasks and yields their outcomes as they come. What it is changes no byte of
any result: every draw is addressed, and cells share nothing but finished runs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Protocol

from meor.errors import ConfigError, StudyError
from meor.heap import c_library, give_memory_back
from meor.storage.parquet import byte_budget
from meor.study.cell import run_cell
from meor.study.task import Outcome, Task

ATTEMPTS = 3
"""How often a cell whose process was killed is tried before it counts as failed."""

CONNECT_SECONDS = 10
_LOOKS = 1.0  # seconds between two looks at the parent
_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG


class Executor(Protocol):
    workers: int

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Every task's outcome, in any order."""


class Serial:
    """One after the other, in this process."""

    workers = 1

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        return map(make_cell, tasks)


class Processes:
    """Local processes with one thread each: two single-thread runs beat one run on two threads."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        left = list(tasks)
        for _ in range(ATTEMPTS):
            try:
                for outcome in self._once(left):
                    left = [task for task in left if task.cell != outcome.cell]
                    yield outcome
                return
            except TerminatedWorkerError:
                continue  # killed from outside or out of memory: the cells it had go on where they stopped
        for task in left:
            yield Outcome(task.cell, None, "its process was killed each time; is there enough memory?", 0.0)

    def _once(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        from joblib import Parallel, delayed, parallel_config

        threading.excepthook = _without_lokys_race
        # loky replaces a worker that holds much more than after its first cell: harmless, and no news
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
        with parallel_config(backend="loky", inner_max_num_threads=1):
            found = Parallel(
                n_jobs=min(self.workers, max(len(tasks), 1)),
                batch_size=1,
                pre_dispatch="all",
                return_as="generator_unordered",
            )(delayed(make_cell)(task, os.getpid()) for task in tasks)
        try:
            yield from found
        except (KeyboardInterrupt, GeneratorExit):
            _kill_workers()  # they would finish their runs unseen; the same command goes on with them
            raise


def _without_lokys_race(told: threading.ExceptHookArgs) -> None:
    """loky's thread may be handing out a cell while an interruption takes all cells from it: no news."""
    raced = told.thread is not None and told.thread.name == "ExecutorManagerThread"
    if not (raced and told.exc_type is KeyError):
        threading.__excepthook__(told)


def _kill_workers() -> None:
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=False, kill_workers=True)


class Dask:
    """Workers of a Dask scheduler. They need the study's folder and the data under the same paths."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise ConfigError(
                "Dask is not installed", remedy="Install it with `pip install meor[dask]`"
            ) from None
        try:
            self.client: Any = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise StudyError(
                f"No Dask scheduler answers at {address} ({error}). Start one with `dask scheduler`."
            ) from None
        self.workers = max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        from distributed import as_completed

        # pure=False: a cell is its files, not its arguments. Dask moves a dead worker's cells elsewhere.
        pending = {
            self.client.submit(make_cell, task, pure=False, retries=ATTEMPTS - 1): task for task in tasks
        }
        for future in as_completed(list(pending), loop=self.client.loop):  # type: ignore[no-untyped-call]
            task = pending[future]
            if future.status == "finished":
                yield future.result()
            else:
                reason = future.exception() if future.status == "error" else future.status
                yield Outcome(task.cell, None, f"its worker gave up: {reason}", 0.0)
            with suppress(Exception):
                future.release()

    def close(self) -> None:
        self.client.close()


def make_cell(task: Task, study: int | None = None) -> Outcome:
    """Make one cell within its byte budget, and keep no freed memory; `study` is the process that must
    outlive this one."""
    if study is not None and study != os.getpid():
        end_with(study)
    try:
        with byte_budget(task.means.memory):
            return run_cell(task)
    finally:
        give_memory_back()


@cache
def end_with(study: int) -> None:
    """A study that is killed cannot stop its workers, which would go on for hours: they look themselves."""
    threading.Thread(target=_watch, args=(study,), name="watches the study", daemon=True).start()
    prctl: Any = getattr(c_library(), "prctl", None) if sys.platform == "linux" else None
    if prctl is not None:
        # At once, and inside a kernel too, during which no other thread of Python runs.
        prctl(_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL, 0, 0, 0)


def _watch(study: int) -> None:
    while os.getppid() == study:
        time.sleep(_LOOKS)
    os.kill(os.getpid(), signal.SIGKILL)  # what is on disk is whole at every moment


def executor_of(text: str | None, workers: int | None) -> Serial | Processes | Dask:
    """`None` for local processes, as many as cores unless told; `serial`; or `dask://HOST:PORT`."""
    if text is None or text == "processes":
        count = workers or len(os.sched_getaffinity(0))
        return Serial() if count == 1 else Processes(count)
    if text == "serial":
        return Serial()
    scheme, divider, place = text.partition("://")
    if scheme != "dask" or not divider or not place:
        raise ConfigError(
            f"there is no executor {text}", remedy="Choose processes, serial or dask://HOST:PORT"
        )
    return Dask(f"tcp://{place}")
