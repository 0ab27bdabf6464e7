"""Base models, stored by the hash of all that determines them: trained once, shared by all runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from meor.backbone import BACKBONES
from meor.errors import RunError
from meor.run.config import Config
from meor.run.prepare import dtype_of
from meor.run.view import model_from
from meor.storage.disk import Disk, commit_folder
from meor.storage.json_file import parse_json, read_json, to_json

CACHE_VARIABLE = "MEOR_CACHE"
BASE_META = frozenset({"steps", "epochs", "best_mrr", "validations", "optimizer_sha256"})
_MODEL, _META, _MANIFEST = "model.safetensors", "meta.json", "manifest.json"


@dataclass(frozen=True, slots=True)
class StoredBase:
    model: bytes  # a safetensors file
    meta: dict[str, Any]  # how it was trained: validations, steps, the optimizer's hash


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a stored model must be, so that the run that finds it can use it."""

    config: Config
    rows: tuple[int, int]  # entities, relations
    meta: frozenset[str]  # the keys that its `meta` must have

    def check(self, found: StoredBase, path: Path) -> None:
        model = model_from(found.model, path / _MODEL, self.config.backbone)
        width = BACKBONES[self.config.backbone].width(self.config.dim)
        shapes = tuple(tuple(table.shape) for table in (model.entity, model.relation))
        columns = width, BACKBONES[self.config.backbone].relation_columns(width)
        if shapes != tuple(zip(self.rows, columns, strict=True)):
            raise RunError(
                f"its tables are {shapes}, and this run needs {self.rows} rows of {width} numbers."
            )
        if model.entity.dtype != dtype_of(self.config):
            raise RunError(f"its numbers are {model.entity.dtype}, and this run needs {self.config.dtype}.")
        if not isinstance(found.meta, dict) or set(found.meta) != self.meta:
            raise RunError(f"{_META} does not hold exactly {', '.join(sorted(self.meta))}.")


def default_cache() -> Path:
    """`MEOR_CACHE`, or the cache folder of the user."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("meor", appauthor=False)


class BaseStore:
    """A folder of base models. A damaged entry costs another training and never fails a run."""

    def __init__(self, cache: Path, say: Callable[[str], None], *, disk: Disk | None = None) -> None:
        self.folder = cache / "base"
        self.say = say
        self.disk = disk or Disk()

    def obtain(
        self, key: str, wanted: Wanted, train: Callable[[], StoredBase]
    ) -> tuple[StoredBase, Literal["cache", "trained"]]:
        """The stored model, else the one that `train` makes, which replaces an entry that is of no use."""
        with self.only_one(key):
            found = self.find(key, wanted)
            if found is not None:
                return found, "cache"
            trained = train()
            self.keep(key, trained)
            return trained, "trained"

    def find(self, key: str, wanted: Wanted) -> StoredBase | None:
        """The stored base, every byte verified and fit for the run; any other counts as absent."""
        folder = self.folder / key
        if not (folder / _MANIFEST).is_file():
            return None
        try:
            sha256 = read_json(folder / _MANIFEST)
            data = {name: (folder / name).read_bytes() for name in (_MODEL, _META)}
            if not isinstance(sha256, dict) or sha256 != _hashes(data):
                raise RunError("its bytes are not those that were stored.")
            found = StoredBase(data[_MODEL], parse_json(data[_META], folder / _META))
            wanted.check(found, folder)
            return found
        except (OSError, RunError) as error:
            self.say(f"the stored base {folder} is not used, and trained again: {error}")
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
