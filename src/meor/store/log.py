"""`admissions.jsonl`: each line names the sha256 of its own content and of the line before.

So a changed, lost or inserted line is noticed. The last line says which version should answer; `CURRENT`
follows it, and a writer that finds it behind brings it up.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from meor.errors import StoreError
from meor.storage.disk import Disk, explained

Entry = dict[str, Any]


def line_of(content: Entry, before: str) -> tuple[bytes, str]:
    """The bytes of a line, and its sha256."""
    told = {**content, "before": before}
    sha256 = hashlib.sha256(_text(told).encode()).hexdigest()
    return (_text({**told, "sha256": sha256}) + "\n").encode(), sha256


def _text(content: Entry) -> str:
    return json.dumps(content, sort_keys=True, allow_nan=False)


def read_log(path: Path) -> list[Entry]:
    """Every whole line, oldest first. Half a line at the end was being written, and does not count yet."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}). Put it back as it was.") from None
    found: list[Entry] = []
    before = ""
    for number, raw in enumerate(data.split(b"\n")[:-1], 1):
        entry = _checked(raw, before, path, number)
        before = entry["sha256"]
        found.append(entry)
    return found


def _checked(raw: bytes, before: str, path: Path, number: int) -> Entry:
    try:
        entry = json.loads(raw)
        content = {key: value for key, value in entry.items() if key not in {"sha256", "before"}}
        whole = line_of(content, before)[0] == raw + b"\n"
    except (ValueError, RecursionError, AttributeError, TypeError):
        whole = False
    if not whole:
        raise StoreError(
            f"{path}, line {number}: it is not as it was written, or a line before it is missing. "
            "Put the file back from a copy."
        )
    return dict(entry)


def append(disk: Disk, path: Path, content: Entry) -> None:
    """One line, forced out to the device before anything follows from it."""
    entries = read_log(path) if path.exists() else []
    line, _ = line_of(content, entries[-1]["sha256"] if entries else "")
    with explained(path):
        disk.append(path, line)
        disk.sync(path)
