"""A store, as its readers see it, and as its one writer does.

Readers follow `CURRENT`. A writer publishes a whole version, adds a line to `admissions.jsonl`, and then
replaces `CURRENT`, each forced out to the device before the next. Killed between two of these, the store
answers as before; the next writer finishes what the log has promised and removes what it has not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from meor.errors import StoreError
from meor.storage.disk import (
    TEMPORARY,
    Disk,
    commit_file,
    commit_folder,
    explain_os_error,
    fill_folder,
    publish,
    staging,
)
from meor.storage.json_file import drop_half_line
from meor.store.answers import Answers
from meor.store.layout import CURRENT, LOCK, LOG, NAME, VERDICTS, VERSIONS, is_store, number_of, written
from meor.store.log import Entry, append, line_of, read_log
from meor.store.version import Content, Version

STAGED = ".meor-"


@dataclass(frozen=True, slots=True)
class Store:
    """A reader of a store. It holds nothing: each call sees what is there now."""

    path: Path

    @classmethod
    def open(cls, path: Path | str) -> Store:
        path = Path(path)
        if not is_store(path):
            raise StoreError(f"{path} is not a store. Make one with `meor store create {path} --from RUN`.")
        return cls(path)

    def current(self) -> str:
        """The name of the version that answers."""
        try:
            name = (self.path / CURRENT).read_text(encoding="ascii", errors="replace").strip()
        except OSError as error:
            raise StoreError(f"{self.path / CURRENT} cannot be read ({error.strerror}).") from None
        if not NAME.fullmatch(name):
            raise StoreError(f"{self.path / CURRENT} names no version. `meor rollback {self.path}` mends it.")
        return name

    def names(self) -> list[str]:
        """Every version, oldest first."""
        folder = self.path / VERSIONS
        return sorted(each.name for each in folder.iterdir() if NAME.fullmatch(each.name))

    def version(self, wanted: str | int | None = None) -> Version:
        """The current version, or that of a number, of a name, or of the beginning of one."""
        return Version.open(self.path, self.current() if wanted is None else self.find(str(wanted)))

    def find(self, wanted: str) -> str:
        names = self.names()
        if wanted.isascii() and wanted.isdecimal() and len(wanted) <= 9:
            found = [name for name in names if number_of(name) == int(wanted)]
        else:
            found = [name for name in names if name.startswith(wanted)] if wanted else []
        if len(found) != 1:
            there = f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0] if names else "none"
            problem = "names several versions" if found else "names no version"
            raise StoreError(
                f"{wanted!r} {problem} of {self.path} ({there}). `meor history {self.path}` lists them."
            )
        return found[0]

    def model(self, version: str | int | None = None) -> Answers:
        """A version, loaded to answer: `store.model().top("Ann", "works for", 10)`."""
        return Answers.of(self.version(version))

    def log(self) -> list[Entry]:
        return read_log(self.path / LOG)


class Writer:
    """The one process that may change a store, from `taken` on."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.store, self.path, self.disk = Store(path), path, disk

    def add(self, content: Content) -> str:
        """Publish a version: whole, under its final name, and nobody's answer yet."""
        entries = self.store.log()
        numbers = [number_of(entry["version"]) for entry in entries if entry["version"]]
        name, files = content.named(max(numbers) + 1, entries[-1]["current"])
        with written(self.path):
            if not (self.path / VERSIONS / name).exists():
                commit_folder(self.disk, self.path / VERSIONS / name, files)
        return name

    def keep(self, files: dict[str, bytes]) -> str:
        """What was found goes to a folder that the next line of the log names."""
        name = f"{VERDICTS}/{len(self.store.log()) + 1:04d}"
        with written(self.path):
            self.disk.make_folder(self.path / VERDICTS)
            commit_folder(self.disk, self.path / name, files)
        return name

    def record(self, event: str, *, current: str, version: str | None = None, **fields: Any) -> None:
        """Write the line, then let CURRENT follow it."""
        content = {"event": event, "time": _now(), "current": current, "version": version, **fields}
        with written(self.path):
            append(self.disk, self.path / LOG, content)
            self._switch(current)

    def _switch(self, name: str) -> None:
        try:
            if self.store.current() == name:
                return
        except StoreError:
            pass  # whatever CURRENT holds, it is replaced
        commit_file(self.disk, self.path / CURRENT, f"{name}\n".encode())

    def mend(self) -> None:
        """After a kill: finish what the log promises, remove what it does not know."""
        drop_half_line(self.path / LOG)
        entries = self.store.log()
        if not entries:
            raise StoreError(f"{self.path / LOG} is empty. Put it back from a copy.")
        known = {entry["version"] for entry in entries}
        with written(self.path):
            for entry in sorted((self.path / VERSIONS).iterdir()):
                if _is_left_over(entry.name) or (NAME.fullmatch(entry.name) and entry.name not in known):
                    self.disk.remove(entry)
            self._switch(entries[-1]["current"])


def _is_left_over(name: str) -> bool:
    return name.endswith(TEMPORARY) or re.match(re.escape(STAGED), name) is not None


@contextmanager
def taken(path: Path, disk: Disk | None = None) -> Iterator[Writer]:
    """Write to a store; a second writer is refused at once."""
    Store.open(path)
    lock = FileLock(path / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreError(f"{path} is being written by another process. Wait for it, and repeat.") from None
    except OSError as error:
        raise StoreError(str(explain_os_error(error, path))) from None
    try:
        writer = Writer(path, disk or Disk())
        writer.mend()
        yield writer
    finally:
        lock.release()


def check_free(path: Path) -> None:
    """Called early too, so that nothing is trained in vain."""
    if path.exists() or path.is_symlink():
        raise StoreError(f"{path} exists. Name a folder that does not.")


def create(path: Path, content: Content, *, disk: Disk | None = None, **fields: Any) -> str:
    """A new store with one version: it appears complete or not at all."""
    check_free(path)
    disk = disk or Disk()
    name, files = content.named(1, None)
    entry = {"event": "created", "time": _now(), "current": name, "version": name, **fields}
    whole = {f"{VERSIONS}/{name}/{file}": data for file, data in files.items()}
    whole |= {LOG: line_of(entry, "")[0], CURRENT: f"{name}\n".encode()}
    try:
        with staging(path.parent) as place:
            fill_folder(disk, place / "store", whole)
            publish(disk, place / "store", path)
    except OSError as error:
        reason = str(explain_os_error(error, path)).partition(". ")[0]
        raise StoreError(f"{reason}. Nothing was left behind. Put that right and repeat.") from error
    return name


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
