"""The run folder, as its one writer sees it. What it holds is a contract others read without our code.

`manifest.json` lists what is committed, with the sha256 of each file; it is replaced whenever something
is added. A file or an update that it does not list is not there for anybody: a run that stopped between
writing an update and listing it makes that update again, to the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from meor.errors import RunError
from meor.run.checkpoint import Checkpoints
from meor.run.config import Config
from meor.run.layout import (
    CONFIG,
    ENDPOINTS,
    FORMAT,
    LOCK,
    LOG,
    MANIFEST,
    STEPS,
    UPDATE,
    VOCABULARY,
    is_ours,
    is_run,
    read_manifest,
    remedy_for,
    update_name,
    versions,
    vocabulary_bytes,
)
from meor.storage.disk import (
    TEMPORARY,
    Disk,
    ListedFiles,
    commit_file,
    commit_folder,
    explain_os_error,
    explained,
    sha256_of,
)
from meor.storage.json_file import drop_half_line, to_json
from meor.stream.snapshot import Stream


class RunFolder:
    """A run folder that this process alone may write to, from `begin` or `take` until `release`."""

    def __init__(self, path: Path, manifest: dict[str, Any], lock: FileLock, disk: Disk) -> None:
        self.path = path
        self.manifest = manifest
        self.disk = disk
        self.verified: set[tuple[str, str]] = set()
        self._lock = lock
        self.checkpoints = Checkpoints(path / STEPS, manifest["config_hash"], disk=disk)

    @classmethod
    def begin(
        cls,
        path: Path,
        config: Config,
        stream: Stream,
        config_hash: str,
        *,
        threads: int,
        disk: Disk | None = None,
    ) -> RunFolder:
        """A new run. The folder must be free (see `clear`); on failure nothing of it stays behind."""
        disk = disk or Disk()
        made = not path.exists()
        with explained(path):
            disk.make_folder(path)
        lock = _locked(path)
        try:
            return cls(path, _begun(path, config, stream, config_hash, threads, disk), lock, disk)
        except BaseException as error:
            if isinstance(error, Exception):
                with suppress(OSError, RunError):
                    clear(path, disk=disk, keep_lock=False)
            lock.release()
            if made and path.is_dir() and not any(path.iterdir()):
                path.rmdir()
            raise

    @classmethod
    def take(cls, path: Path, *, disk: Disk | None = None) -> RunFolder:
        """An existing run, to go on with it."""
        if not is_run(path):
            raise RunError(f"{path} holds no run that was begun. Start one with `meor run --out {path}`.")
        lock = _locked(path)
        try:
            manifest = read_manifest(path)
        except RunError:
            lock.release()
            raise
        folder = cls(path, manifest, lock, disk or Disk())
        drop_half_line(path / LOG)  # a process that was killed while it wrote a line leaves half of one
        return folder

    def release(self) -> None:
        self._lock.release()

    def log(self, event: str, **fields: Any) -> None:
        """One line; times are allowed here and nowhere else."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"event": event, "time": now, **fields}, allow_nan=False) + "\n"
        with explained(self.path / LOG):
            self.disk.append(self.path / LOG, line.encode())

    def commit_update(self, update: int, files: Mapping[str, bytes]) -> None:
        """Add `update-<u>` with all its files."""
        name = update_name(update)
        commit_folder(self.disk, self.path / name, files)
        self._list(**{f"{name}/{file}": sha256_of(self.path / name / file) for file in files})

    def commit_result(self, name: str, content: bytes) -> None:
        commit_file(self.disk, self.path / name, content)
        self._list(**{name: sha256_of(self.path / name)})

    def verified_updates(self, say: Callable[[str], None]) -> int:
        """How many updates, from 0 on without a gap, are committed and undamaged."""
        update = 0
        while True:
            listed = [name for name in self.manifest["sha256"] if name.startswith(f"{update_name(update)}/")]
            if not listed:
                return update
            damaged = [name for name in listed if self.files.problem(name)]
            if damaged:
                say(f"{', '.join(damaged)} does not match the manifest; update {update} is made again")
                return update
            update += 1

    def forget_from(self, update: int) -> None:
        """Strike updates >= `update` and the endpoints from the manifest, so that they are made again."""
        listed: dict[str, str] = self.manifest["sha256"]
        kept = {name: digest for name, digest in listed.items() if not _belongs_after(name, update)}
        if kept != listed:
            self._replace_manifest(sha256=kept, complete=False)

    def finish(self, *, threads: int) -> None:
        """The run is complete: checkpoints go, the log is closed, the manifest says so."""
        with explained(self.path):
            self.disk.remove(self.path / STEPS)
            for leftover in sorted(self.path.glob(f"*{TEMPORARY}")):
                self.disk.remove(leftover)
        self.log("finished")
        with explained(self.path):
            self.disk.sync(self.path / LOG)
        listed = {**self.manifest["sha256"], LOG: sha256_of(self.path / LOG)}
        self._replace_manifest(sha256=listed, complete=True, threads=threads, versions=dict(versions()))
        self.tidy()

    def tidy(self) -> None:
        """A complete run holds the contract's files and nothing else; a held lock may be unlinked."""
        with explained(self.path):
            self.disk.remove(self.path / LOCK)

    @property
    def files(self) -> ListedFiles:
        """What the manifest lists now, as a reader sees it."""
        remedy = partial(remedy_for, self.path)
        return ListedFiles(self.path, self.manifest["sha256"], remedy, verified=self.verified)

    def _list(self, **sha256: str) -> None:
        self._replace_manifest(sha256={**self.manifest["sha256"], **sha256})

    def _replace_manifest(self, **changes: Any) -> None:
        manifest = {**self.manifest, **changes}
        commit_file(self.disk, self.path / MANIFEST, to_json(manifest))
        self.manifest = manifest


def _begun(
    path: Path, config: Config, stream: Stream, config_hash: str, threads: int, disk: Disk
) -> dict[str, Any]:
    """Write what a run begins with; the manifest comes last and makes the folder a run."""
    commit_file(disk, path / VOCABULARY, vocabulary_bytes(stream))
    commit_file(disk, path / CONFIG, config.to_yaml().encode())
    manifest = {
        "format": FORMAT,
        "complete": False,
        "config_hash": config_hash,
        "stream_hash": stream.content_hash(),
        "sha256": {name: sha256_of(path / name) for name in (CONFIG, VOCABULARY)},
        "threads": threads,
        "versions": dict(versions()),
    }
    commit_file(disk, path / MANIFEST, to_json(manifest))
    return manifest


def clear(path: Path, *, disk: Disk | None = None, keep_lock: bool = True) -> None:
    """Remove a run from its folder; files that are not a run's stay. The manifest goes first."""
    disk = disk or Disk()
    with explained(path):
        disk.remove(path / MANIFEST)
        for entry in sorted(path.iterdir()):
            if is_ours(entry.name) and not (keep_lock and entry.name == LOCK):
                disk.remove(entry)


def make_free(path: Path, *, force: bool) -> None:
    """Refuse a folder that is in use; with `force` an earlier run in it is removed."""
    if not path.exists():
        return
    if not path.is_dir():
        raise RunError(f"{path} is a file. Name a folder with --out.")
    if is_run(path) and not force:
        raise RunError(f"{path} holds a run. Go on with `meor resume {path}`, or replace it with --force.")
    foreign = sorted(entry.name for entry in path.iterdir() if not is_ours(entry.name))
    if foreign and not is_run(path):
        raise RunError(f"{path} holds other files ({foreign[0]}, ...). Name another folder with --out.")
    lock = _locked(path)
    try:
        clear(path)
    finally:
        lock.release()


def _belongs_after(name: str, update: int) -> bool:
    match = UPDATE.fullmatch(name.rpartition("/")[0])
    return name in {ENDPOINTS, LOG} or (match is not None and int(match[1]) >= update)


def _locked(path: Path) -> FileLock:
    lock = FileLock(path / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunError(
            f"{path} is being written by another process. Wait for it, or choose another --out."
        ) from None
    except OSError as error:
        raise explain_os_error(error, path) from None
    return lock
