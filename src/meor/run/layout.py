"""What a run folder holds: its names, its manifest, its vocabulary; and how far a run is."""

from __future__ import annotations

import fcntl
import platform
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from meor.errors import RunError
from meor.storage.disk import TEMPORARY
from meor.storage.json_file import read_json
from meor.storage.parquet import column, table_bytes, table_of
from meor.stream.snapshot import Stream

CONFIG, LOG, VOCABULARY = "config.yaml", "log.jsonl", "vocabulary.parquet"
MODEL, RANKS, RECORDS = "model.safetensors", "ranks.parquet", "records.parquet"
CALIBRATION = "calibration.parquet"
ENDPOINTS, MANIFEST, STEPS, LOCK = "endpoints.json", "manifest.json", "steps", ".lock"
KEPT = "host."
"""Names in a model file that are no rows: what a host keeps for the next update."""

FORMAT = 1
UPDATE = re.compile(r"update-(0|[1-9]\d{0,8})")
_REMEDY = "Put it back as it was, or start the run again with `meor run --force`."
_OURS = {CONFIG, LOG, VOCABULARY, ENDPOINTS, MANIFEST, STEPS, LOCK}


def update_name(update: int) -> str:
    return f"update-{update}"


def is_run(path: Path) -> bool:
    """A manifest makes a folder a run: it is written last when a run is begun."""
    return (path / MANIFEST).is_file()


def is_ours(name: str) -> bool:
    plain = name.removesuffix(TEMPORARY)
    return plain in _OURS or UPDATE.fullmatch(plain) is not None


@cache
def versions() -> Mapping[str, str]:
    """The software that results may depend on."""
    names = ("meor", "torch", "numpy", "numba", "pyarrow", "safetensors")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def read_manifest(path: Path) -> dict[str, Any]:
    manifest = read_json(path / MANIFEST)
    wanted = {"format", "complete", "config_hash", "stream_hash", "sha256", "threads", "versions"}
    if not isinstance(manifest, dict) or not wanted <= set(manifest) or manifest["format"] != FORMAT:
        raise RunError(f"{path / MANIFEST} is not a run's manifest of format {FORMAT}. {_REMEDY}")
    listed = manifest["sha256"]
    if not isinstance(listed, dict) or not all(_is_listed_name(name) for name in listed):
        raise RunError(f"{path / MANIFEST} lists files that no run folder holds. {_REMEDY}")
    if not {CONFIG, VOCABULARY} <= set(listed):
        raise RunError(f"{path / MANIFEST} does not list {CONFIG} and {VOCABULARY}. {_REMEDY}")
    return manifest


def remedy_for(path: Path, name: str) -> str:
    """What helps where a file of the run in `path` is missing or not as its manifest says."""
    if name == CONFIG:
        return (
            "A run's settings cannot be made again: put the file back as it was, or start the run again with "
            f"`meor run --out {path} --force` and its settings."
        )
    if name == LOG:
        return f"A log cannot be made again: `meor resume {path}` keeps it as it is now."
    return f"`meor resume {path}` makes it again."


def vocabulary_bytes(stream: Stream) -> bytes:
    """id, label, kind, admitted_at: entities, then relations, each numbered from 0."""
    kinds = (("entity", stream.entities), ("relation", stream.relations))
    counts = [len(labels) for _, labels in kinds]
    table = {
        "id": column(np.concatenate([np.arange(count) for count in counts])),
        "label": column([label for _, labels in kinds for label in labels]),
        "kind": column([kind for (kind, _), count in zip(kinds, counts, strict=True) for _ in range(count)]),
        "admitted_at": column(
            np.concatenate([np.array(labels.admitted_at, np.int64) for _, labels in kinds])
        ),
    }
    return table_bytes(table_of(table), store_schema=True)


def _is_listed_name(name: str) -> bool:
    folder, slash, file = name.rpartition("/")
    if not slash:
        return name in {CONFIG, LOG, VOCABULARY, ENDPOINTS}
    return (
        UPDATE.fullmatch(folder) is not None
        and re.fullmatch(r"[a-z_]+\.(parquet|safetensors)", file) is not None
    )


def is_being_written(run: Path) -> bool:
    """Does a process hold the lock of the folder? Nothing is written, and nobody waits."""
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
