"""A study that takes a moment: the ring of `tests.tiny_run`, every method, two pairs."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.tiny_run import SETTINGS, tiny_stream

from meor.stream.files import write_stream
from meor.study.plan import Study

METHODS = ("none", "calibration", "mmr", "uor", "shuffled", "uncentered", "meor")

TIMED = {"log.jsonl", "manifest.json", ".lock", "command.txt", "seconds.json"}


def tiny_plan(folder: Path, **changes: object) -> Study:
    """The ring is written below `folder`, once."""
    ring = folder / "ring"
    if not ring.exists():
        write_stream(tiny_stream(), ring)
    given = {
        "study": "tiny",
        "stream": str(ring),
        "methods": list(METHODS),
        "pairs": 2,
        "sets": list(SETTINGS),
        "tables": ["absolute", "effects", "ablation", "transfer"],
        **changes,
    }
    return Study.resolve(given)


def hashes(folder: Path) -> dict[str, str]:
    """sha256 of every file that says what was found; logs hold times, manifests the hash of logs."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in {"log.jsonl", "manifest.json", ".lock", "command.txt", "seconds.json"}
    }
