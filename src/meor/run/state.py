"""How far a run is: finished, in progress, or stopped on its way."""

from __future__ import annotations

import fcntl
from pathlib import Path

from meor.run.layout import LOCK, MODEL, is_run, read_manifest, update_name


def is_being_written(run: Path) -> bool:
    """Does a process hold the lock of the folder? Only asked: nothing is written or waited for."""
    try:
        with (run / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def unfinished(run: Path, last: int | None = None) -> str:
    """A sentence about a run that is not finished, with what is there and how to go on; else nothing."""
    state = state_of(run, last)
    if not state:
        return ""
    go_on = "" if is_being_written(run) else f" Go on with `meor resume {run}`."
    return f"{run} is {state}.{go_on}"


def state_of(run: Path, last: int | None = None) -> str:
    """In progress or unfinished, and how far; empty for a finished run. `last` is its last update."""
    if not is_run(run):
        return ""
    manifest = read_manifest(run)
    if manifest["complete"]:
        return ""
    there = 0
    while f"{update_name(there)}/{MODEL}" in manifest["sha256"]:
        there += 1
    state = "in progress" if is_being_written(run) else "unfinished"
    return f"{state}: {_how_far(there, last)}"


def _how_far(models: int, last: int | None) -> str:
    of = "" if last is None else f" of {last}"
    if models == 0:
        return "no base is there yet"
    if models == 1:
        return f"the base is there, and no update{of}"
    if models == 2:
        return f"update 1{of} is there"
    return f"updates 1 to {models - 1}{of} are there"
