"""A cell as a process makes it: within its byte budget, gone when its study is, keeping no freed memory."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import cache
from typing import Any

from meor.evaluation.budget import c_library, give_memory_back
from meor.storage.parquet import byte_budget
from meor.study.cell import Outcome, Task, run_cell

_LOOKS = 1.0  # seconds between two looks at the parent
_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG


def make_cell(task: Task, study: int | None = None) -> Outcome:
    """Make one cell; `study` is the process that must outlive this one."""
    if study is not None and study != os.getpid():
        end_with(study)
    try:
        with byte_budget(task.memory):
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
