"""The one place that writes files: under a temporary name, forced out to the device, then renamed.

`Disk` is the seam for crash tests: they substitute one that fails, or stops for good, at a chosen call.
`ListedFiles` reads what was written: before a file is decoded, its sha256 must be the one its manifest lists.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from meor.errors import MeorError, RunError

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
    """The six calls that change files."""

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)

    def append(self, path: Path, line: bytes) -> None:
        with path.open("ab") as file:
            file.write(line)

    def sync(self, path: Path) -> None:
        """Make sure that a file, or the names in a folder, have reached the device."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file or a folder, if it is there."""
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
    """Make a folder appear complete or not at all. What had the name before must be safe to lose."""
    temporary = target.with_name(target.name + TEMPORARY)
    with explained(target), _cleaned(disk, temporary):
        disk.remove(temporary)
        fill_folder(disk, temporary, files)
        if target.exists():
            disk.remove(target)
        disk.rename(temporary, target)
        disk.sync(target.parent)


def replace_folder(disk: Disk, target: Path, files: Mapping[str, bytes]) -> None:
    """As `commit_folder`, but an existing folder stays until the new one is complete."""
    with staging(target.parent) as place:
        fill_folder(disk, place / "new", files)
        try:
            if target.exists():
                disk.rename(target, place / "old")
            disk.rename(place / "new", target)
            disk.sync(target.parent)
        finally:
            if not target.exists() and (place / "old").exists():
                (place / "old").rename(target)


def fill_folder(disk: Disk, folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder; afterwards all of them and their names have reached the device."""
    disk.make_folder(folder)
    for inside in sorted({(folder / name).parent for name in files} - {folder}):
        disk.make_folder(inside)
    for name, content in files.items():
        disk.write(folder / name, content)
        disk.sync(folder / name)
    for inside in sorted({folder, *((folder / name).parent for name in files)}, reverse=True):
        disk.sync(inside)


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A folder inside `parent` to prepare something in; it is gone afterwards, whatever happens."""
    fresh = not parent.exists()
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".meor-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if fresh:
            with suppress(OSError):  # not empty: what was staged is there now
                parent.rmdir()


def publish(disk: Disk, folder: Path, target: Path) -> None:
    """Give a complete folder its name in one step: readers see nothing, then everything."""
    for path in (*folder.rglob("*"), folder):
        disk.sync(path)
    disk.rename(folder, target)
    disk.sync(target.parent)


@contextmanager
def receiving(path: Path, limit: int) -> Iterator[_LimitedFile]:
    """A file that is written as its bytes arrive; a ValueError as soon as there are more than `limit`."""
    with path.open("wb") as out:
        yield _LimitedFile(out, limit)


class _LimitedFile:
    def __init__(self, out: BinaryIO, limit: int) -> None:
        self._out = out
        self._left = limit

    def write(self, chunk: bytes) -> int:
        self._left -= len(chunk)
        if self._left < 0:
            raise ValueError("the answer is longer than the file that was asked for")
        return self._out.write(chunk)

    def flush(self) -> None:
        self._out.flush()


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
    """A commit that fails leaves nothing behind: on a full disk that would be space nobody can use."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            disk.remove(temporary)
        raise


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """One reader of a folder. It hashes each file only once."""

    folder: Path
    sha256: Mapping[str, str]
    remedy: Callable[[str], str]  # of a file's name: the sentence that says what helps
    error: type[MeorError] = RunError
    verified: set[tuple[str, str]] = field(default_factory=set)  # name and sha256

    def path(self, name: str) -> Path:
        """The path of a file whose bytes are those that were listed."""
        path = self.folder / name
        with self._readable(name):
            self._verify(name, lambda: sha256_of(path))
        return path

    def read(self, name: str) -> bytes:
        """The bytes of a file, read once: what is hashed is what will be parsed."""
        with self._readable(name):
            data = (self.folder / name).read_bytes()
        self._verify(name, lambda: hashlib.sha256(data).hexdigest())
        return data

    def problem(self, name: str) -> str | None:
        """What is wrong with a file; None if it is as listed."""
        try:
            self.path(name)
        except self.error as error:
            return str(error)
        return None

    def _verify(self, name: str, found: Callable[[], str]) -> None:
        listed = name, self.sha256[name]
        if listed not in self.verified and found() != listed[1]:
            raise self.error(
                f"{self.folder / name} does not have the sha256 its manifest states: it was changed or is "
                f"damaged. {self.remedy(name)}"
            )
        self.verified.add(listed)

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            problem = f"{self.folder / name} cannot be read ({error.strerror}). {self.remedy(name)}"
            raise self.error(problem) from None
