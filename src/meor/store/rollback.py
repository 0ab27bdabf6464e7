"""Back to an earlier version: every byte of it is verified before it answers again."""

from __future__ import annotations

from pathlib import Path

from meor.errors import StoreError
from meor.storage.disk import Disk
from meor.store.folder import taken
from meor.store.version import Version


def rollback(
    path: Path, wanted: str | None = None, *, reason: str = "", disk: Disk | None = None
) -> tuple[str, str]:
    """Let a version answer, by default the one that the current one was made from. (before, after)"""
    with taken(path, disk) as writer:
        before = writer.store.log()[-1]["current"]
        if wanted is not None:
            target = writer.store.find(wanted)
        else:
            parent = Version.open(path, before).parent
            if parent is None:
                raise StoreError(f"{before} is the first version of {path}: there is none to go back to.")
            target = parent
        Version.open(path, target).check()
        writer.record("rolled-back", current=target, before_version=before, reason=reason)
        return before, target
