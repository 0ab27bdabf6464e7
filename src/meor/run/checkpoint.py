"""Checkpoints that are whole or absent, verified by hash when they are read, and never a pickle.

    steps/<update>-<step>/model.safetensors   what is being trained, and the best weights so far
                          optim.safetensors   the optimizer
                          state.json          where training stands
                          manifest.json       sha256 and size of each, the config's hash, the parent's hash
    steps/LATEST                              the name of the newest

Written as `<update>-<step>.tmp`, synced, then renamed. Loading takes the newest folder that verifies;
a damaged one is reported and the one before it is used. safetensors itself does not notice a flipped
bit, so every byte is checked against the manifest before it is parsed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from meor.errors import RunError
from meor.storage.disk import Disk, commit_file, commit_folder, explained
from meor.storage.json_file import parse_json, read_json, to_json
from meor.storage.tensors import pack_tensors, unpack_tensors

FORMAT = 1
KEEP = 2
MODEL, OPTIM, STATE, MANIFEST = "model.safetensors", "optim.safetensors", "state.json", "manifest.json"
_PARTS = (MODEL, OPTIM, STATE)
_NAME = re.compile(r"(0|[1-9]\d{0,9})-(0|[1-9]\d{0,17})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that a stopped run needs to go on to the same bits."""

    update: int
    step: int
    model: dict[str, Tensor]
    optim: dict[str, Tensor]
    state: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.update}-{self.step}"


class Checkpoints:
    """The checkpoints of one run, in its folder `steps`."""

    def __init__(self, folder: Path, config_hash: str, *, disk: Disk | None = None) -> None:
        self.folder = folder
        self.config_hash = config_hash
        self.disk = disk or Disk()

    def save(self, checkpoint: Checkpoint) -> Path:
        """Commit a checkpoint; then all but the newest two go."""
        existing = self.names()
        parent = self.folder / existing[-1] / MANIFEST if existing else None
        with explained(self.folder):
            self.disk.make_folder(self.folder)
        parts = {
            MODEL: pack_tensors(checkpoint.model),
            OPTIM: pack_tensors(checkpoint.optim),
            STATE: to_json(checkpoint.state),
        }
        manifest = {
            "format": FORMAT,
            "update": checkpoint.update,
            "step": checkpoint.step,
            "config_hash": self.config_hash,
            "parent": _hash(parent.read_bytes()) if parent is not None and parent.is_file() else None,
            "files": {name: {"sha256": _hash(data), "size": len(data)} for name, data in parts.items()},
        }
        target = self.folder / checkpoint.name
        commit_folder(self.disk, target, {**parts, MANIFEST: to_json(manifest)})
        commit_file(self.disk, self.folder / "LATEST", f"{checkpoint.name}\n".encode())
        with explained(self.folder):
            for name in self.names()[:-KEEP]:
                self.disk.remove(self.folder / name)
        return target

    def names(self) -> list[str]:
        """Committed checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        found = [match for path in self.folder.iterdir() if (match := _NAME.fullmatch(path.name))]
        return [match[0] for match in sorted(found, key=lambda match: (int(match[1]), int(match[2])))]

    def load(self, name: str) -> Checkpoint:
        """One checkpoint, every byte verified; anything wrong is a `RunError`."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise RunError(f"{name} is not the name of a checkpoint.")
        folder = self.folder / name
        manifest = read_json(folder / MANIFEST)
        files = self._check(manifest, folder, int(match[1]), int(match[2]))
        data = {part: _verified(folder / part, files[part]) for part in _PARTS}
        state = parse_json(data[STATE], folder / STATE)
        if not isinstance(state, dict):
            raise RunError(f"{folder / STATE} is not a JSON object: it is damaged.")
        return Checkpoint(
            update=int(match[1]),
            step=int(match[2]),
            model=unpack_tensors(data[MODEL], folder / MODEL),
            optim=unpack_tensors(data[OPTIM], folder / OPTIM),
            state=state,
        )

    def usable(self, update: int, say: Callable[[str], None]) -> Iterator[Checkpoint]:
        """The checkpoints of an update that verify, newest first; each damaged one is spoken of."""
        for name in reversed(self.names()):
            if int(name.partition("-")[0]) != update:
                continue
            try:
                found = self.load(name)
            except RunError as error:
                say(f"checkpoint {name} is not used: {error}")
            else:
                yield found

    def newest(self, update: int, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest checkpoint of an update that verifies, if there is one."""
        return next(self.usable(update, say), None)

    def _check(self, manifest: Any, folder: Path, update: int, step: int) -> dict[str, Any]:
        path = folder / MANIFEST
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise RunError(f"{path} is not a manifest of format {FORMAT}.")
        if (manifest.get("update"), manifest.get("step")) != (update, step):
            raise RunError(f"{path} belongs to another checkpoint.")
        if manifest.get("config_hash") != self.config_hash:
            raise RunError(f"{path} belongs to a run with other settings or another stream.")
        files = manifest.get("files")
        if not isinstance(files, dict) or set(files) != set(_PARTS):
            raise RunError(f"{path} does not list exactly {', '.join(_PARTS)}.")
        return files


def _verified(path: Path, entry: Any) -> bytes:
    """The bytes of a file, read once: what is hashed is what is parsed."""
    try:
        size = path.stat().st_size
        if not isinstance(entry, dict) or entry.get("size") != size:
            raise RunError(f"{path} does not have the size its manifest states: it is damaged.")
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}).") from None
    if entry.get("sha256") != _hash(data):
        raise RunError(f"{path} does not have the sha256 its manifest states: it is damaged.")
    return data


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
