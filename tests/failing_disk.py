"""Disks that fail, or stop for good, at a chosen call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from meor.storage.disk import Disk


class Crash(BaseException):
    """The process is gone: not an Exception, so that no handler of ours tidies up."""


class FailingDisk(Disk):
    """Counts the calls; at call number `at` the effect happens or not, then `failure` is raised.

    After a crash every further call crashes as well: a dead process writes nothing.
    """

    def __init__(
        self, at: int | None, failure: BaseException, *, after: bool = True, torn: bool = False
    ) -> None:
        self.at, self.failure, self.after, self.torn, self.calls = at, failure, after, torn, 0

    def _call(self, effect: Callable[[], None]) -> None:
        self.calls += 1
        if self.at is None or self.calls < self.at:
            effect()
        elif isinstance(self.failure, Crash):
            if self.calls == self.at and self.after:
                effect()
            raise self.failure
        elif self.calls == self.at:
            raise self.failure
        else:
            effect()

    def make_folder(self, path: Path) -> None:
        self._call(lambda: Disk.make_folder(self, path))

    def write(self, path: Path, content: bytes) -> None:
        if self.torn and self.calls + 1 == self.at and isinstance(content, bytes):
            content = content[: len(content) // 2]
        self._call(lambda: Disk.write(self, path, content))

    def append(self, path: Path, line: bytes) -> None:
        self._call(lambda: Disk.append(self, path, line))

    def sync(self, path: Path) -> None:
        self._call(lambda: None)  # the call counts; the device need not be waited for

    def rename(self, source: Path, target: Path) -> None:
        self._call(lambda: Disk.rename(self, source, target))

    def remove(self, path: Path) -> None:
        self._call(lambda: Disk.remove(self, path))
