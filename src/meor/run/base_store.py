"""Base models by the hash of all that determines them: trained once, shared by every run that wants it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from meor.errors import RunError
from meor.run.checkpoint import parse_json, read_json, to_json
from meor.run.disk import Disk, commit_folder

CACHE_VARIABLE = "MEOR_CACHE"
_MODEL, _META, _MANIFEST = "model.safetensors", "meta.json", "manifest.json"


@dataclass(frozen=True, slots=True)
class StoredBase:
    model: bytes  # a safetensors file
    meta: dict[str, Any]  # how it was trained: validations, steps, the optimizer's hash


def default_cache() -> Path:
    """`MEOR_CACHE`, or the cache folder of the user."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("meor", appauthor=False)


class BaseStore:
    """A folder of base models. Whatever is wrong with it costs a training, never a run."""

    def __init__(self, cache: Path, say: Callable[[str], None], *, disk: Disk | None = None) -> None:
        self.folder = cache / "base"
        self.say = say
        self.disk = disk or Disk()

    def find(self, key: str) -> StoredBase | None:
        """The stored base, every byte verified; a damaged one counts as absent."""
        folder = self.folder / key
        if not (folder / _MANIFEST).is_file():
            return None
        try:
            sha256 = read_json(folder / _MANIFEST)
            data = {name: (folder / name).read_bytes() for name in (_MODEL, _META)}
            if not isinstance(sha256, dict) or sha256 != _hashes(data):
                raise RunError("its bytes are not those that were stored.")
            return StoredBase(data[_MODEL], parse_json(data[_META], folder / _META))
        except (OSError, RunError) as error:
            self.say(f"the stored base {folder} is not used: {error}")
            return None

    def keep(self, key: str, base: StoredBase) -> None:
        data = {_MODEL: base.model, _META: to_json(base.meta)}
        try:
            self.disk.make_folder(self.folder)
            commit_folder(self.disk, self.folder / key, {**data, _MANIFEST: to_json(_hashes(data))})
        except (OSError, RunError) as error:
            self.say(f"the base model is not shared with other runs: {error}")

    @contextmanager
    def only_one(self, key: str) -> Iterator[None]:
        """Whoever comes second waits, and then finds the base that the first has trained."""
        lock = self._acquired(key)
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    def _acquired(self, key: str) -> FileLock | None:
        try:
            self.disk.make_folder(self.folder)
            lock = FileLock(self.folder / f"{key}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                self.say("another run trains the same base; waiting for it")
                lock.acquire(poll_interval=0.5)
            return lock
        except OSError as error:
            self.say(f"base models cannot be shared in {self.folder}: {error.strerror}")
            return None


def _hashes(data: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in data.items()}
