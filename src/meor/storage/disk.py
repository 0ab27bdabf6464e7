"""Every byte a run writes goes through here: temp name, fsync, rename.

`Disk` is the seam for crash tests: they substitute one that fails, or stops for good, at a chosen call.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from meor.errors import RunError

TEMPORARY = ".tmp"

_REASONS = {
    errno.ENOSPC: ("the disk is full", "Free some space"),
    errno.EDQUOT: ("the disk quota is used up", "Free some space"),
    errno.EACCES: ("writing there is not allowed", "Make the folder writable"),
    errno.EPERM: ("writing there is not allowed", "Make the folder writable"),
    errno.EROFS: ("the file system is read-only", "Make the folder writable"),
    errno.EIO: ("the disk reports an input/output error", "Check the disk"),
}


class Disk:
    """The six calls that change what is on disk."""

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)

    def append(self, path: Path, line: bytes) -> None:
        with path.open("ab") as file:
            file.write(line)

    def sync(self, path: Path) -> None:
        """Force a file, or the names in a folder, out to the device."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file or a folder; nothing there is fine."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def commit_file(disk: Disk, target: Path, content: bytes, *, shared: bool = False) -> None:
    """Replace a file at once: a reader sees the old one or the new one.

    Several processes or threads may write a `shared` file at once: each has a temporary name of its own.
    """
    own = f".{os.getpid()}-{threading.get_ident()}" if shared else ""
    temporary = target.with_name(target.name + own + TEMPORARY)
    with explained(target), _cleaned(disk, temporary):
        disk.write(temporary, content)
        disk.sync(temporary)
        disk.rename(temporary, target)
        disk.sync(target.parent)


def commit_folder(disk: Disk, target: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder appear whole or not at all. What had the name before must be safe to lose."""
    temporary = target.with_name(target.name + TEMPORARY)
    with explained(target), _cleaned(disk, temporary):
        disk.remove(temporary)
        fill_folder(disk, temporary, files)
        if target.exists():
            disk.remove(target)
        disk.rename(temporary, target)
        disk.sync(target.parent)


def replace_folder(disk: Disk, target: Path, files: Mapping[str, bytes]) -> None:
    """As `commit_folder`, for a folder that somebody may want back: it stays until the new one is whole."""
    temporary, former = (target.with_name(f".{target.name}.{kind}-{os.getpid()}") for kind in ("new", "old"))
    try:
        disk.remove(temporary)
        fill_folder(disk, temporary, files)
        if target.exists():
            disk.rename(target, former)
        disk.rename(temporary, target)
        disk.sync(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if not target.exists() and former.exists():
            former.rename(target)
        shutil.rmtree(former, ignore_errors=True)


def fill_folder(disk: Disk, folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder, each of them and every name forced out to the device."""
    disk.make_folder(folder)
    for inside in sorted({(folder / name).parent for name in files} - {folder}):
        disk.make_folder(inside)
    for name, content in files.items():
        disk.write(folder / name, content)
        disk.sync(folder / name)
    for inside in sorted({folder, *((folder / name).parent for name in files)}, reverse=True):
        disk.sync(inside)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def explain_os_error(error: OSError, path: Path) -> RunError:
    """A sentence for what the system refused; the work done so far is still there."""
    reason, remedy = _REASONS.get(error.errno or 0, (error.strerror or str(error), "Check the folder"))
    return RunError(
        f"{path} could not be written: {reason}. {remedy}, then go on with `meor resume`; "
        "the last good state is kept."
    )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Whatever the system refuses inside becomes a sentence about `path`."""
    try:
        yield
    except OSError as error:
        raise explain_os_error(error, path) from error


@contextmanager
def _cleaned(disk: Disk, temporary: Path) -> Iterator[None]:
    """A failed commit does not leave its half behind: on a full disk that would be space nobody can use."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            disk.remove(temporary)
        raise
