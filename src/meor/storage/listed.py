"""Files that a manifest lists: none is decoded before its bytes are those whose sha256 stands there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from meor.errors import MeorError, RunError
from meor.storage.disk import sha256_of


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """One reader of a folder. What it has verified once it does not hash again."""

    folder: Path
    sha256: Mapping[str, str]
    remedy: Callable[[str], str]  # of a file's name: the sentence that says what helps
    error: type[MeorError] = RunError
    verified: set[tuple[str, str]] = field(default_factory=set)  # name and sha256

    def path(self, name: str) -> Path:
        """The path of a file whose bytes are those that were listed."""
        path = self.folder / name
        if not self._known(name):
            self._compare(name, lambda: sha256_of(path))
        return path

    def read(self, name: str) -> bytes:
        """The bytes of a file, read once: what is hashed is what will be parsed."""
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise self._unreadable(name, error) from None
        if not self._known(name):
            self._compare(name, lambda: hashlib.sha256(data).hexdigest())
        return data

    def problem(self, name: str) -> str | None:
        """What is wrong with a file; None if it is as listed."""
        try:
            self.path(name)
        except self.error as error:
            return str(error)
        return None

    def _known(self, name: str) -> bool:
        return (name, self.sha256[name]) in self.verified

    def _compare(self, name: str, found: Callable[[], str]) -> None:
        try:
            intact = found() == self.sha256[name]
        except OSError as error:
            raise self._unreadable(name, error) from None
        if not intact:
            raise self.error(
                f"{self.folder / name} does not have the sha256 its manifest states: it was changed or is "
                f"damaged. {self.remedy(name)}"
            )
        self.verified.add((name, self.sha256[name]))

    def _unreadable(self, name: str, error: OSError) -> MeorError:
        return self.error(f"{self.folder / name} cannot be read ({error.strerror}). {self.remedy(name)}")
