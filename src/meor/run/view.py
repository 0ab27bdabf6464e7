"""A run folder, as its readers see it: audit, inspect, report. Every file is verified before it is used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from meor.backbone import BACKBONES, Model
from meor.errors import RunError
from meor.evaluation.rank import Ranks
from meor.evaluation.ranks_file import read_ranks
from meor.parquet import read_table
from meor.run.checkpoint import read_json, unpack_tensors
from meor.run.config import Config
from meor.run.disk import sha256_of
from meor.run.layout import (
    CONFIG,
    ENDPOINTS,
    LOG,
    MANIFEST,
    MODEL,
    RANKS,
    VOCABULARY,
    is_run,
    read_manifest,
    update_name,
)
from meor.stream.registry import open_stream, recorded_place
from meor.stream.snapshot import Stream
from meor.typing import Split


@dataclass(frozen=True, slots=True)
class RunView:
    """What is committed in a run folder, complete or not."""

    path: Path
    manifest: dict[str, Any]
    config: Config

    @classmethod
    def open(cls, path: Path) -> RunView:
        if not is_run(path):
            raise RunError(f"{path} is not a run folder: it has no {MANIFEST}. Make one with `meor run`.")
        manifest = read_manifest(path)
        view = cls(path, manifest, Config.load(path / CONFIG))
        view.verified(CONFIG)
        return view

    @property
    def complete(self) -> bool:
        return bool(self.manifest["complete"])

    @property
    def updates(self) -> list[int]:
        """Committed updates with a model, the base (0) included."""
        found: list[int] = []
        while f"{update_name(len(found))}/{MODEL}" in self.manifest["sha256"]:
            found.append(len(found))
        return found

    def has(self, name: str) -> bool:
        return name in self.manifest["sha256"]

    def verified(self, name: str) -> Path:
        """The path of a committed file whose bytes are those of the manifest."""
        path = self.path / name
        if not self.has(name):
            raise RunError(f"{self.path} has no {name} yet. Go on with `meor resume {self.path}`.")
        try:
            intact = sha256_of(path) == self.manifest["sha256"][name]
        except OSError as error:
            raise RunError(f"{path} cannot be read ({error.strerror}).") from None
        if not intact:
            raise RunError(
                f"{path} does not have the sha256 its manifest states: it was changed or is damaged. "
                f"`meor resume {self.path}` makes it again."
            )
        return path

    def stream(self, data_dir: Path | None = None) -> Stream:
        """The stream of the run; one that has changed since is refused."""
        place = data_dir or recorded_place(self.config.data_dir)
        stream = open_stream(self.config.stream, data_dir=place, duplicates=self.config.duplicates)
        if stream.content_hash() != self.manifest["stream_hash"]:
            raise RunError(
                f"the stream {self.config.stream} is not the one {self.path} was made from: its content has "
                "changed. Put the old files back, or start a new run."
            )
        return stream

    def model(self, update: int) -> Model:
        path = self.verified(f"{update_name(update)}/{MODEL}")
        return model_from(path.read_bytes(), path, self.config.backbone)

    def ranks(self, update: int) -> dict[Split, tuple[Ranks, ...]]:
        return read_ranks(self.verified(f"{update_name(update)}/{RANKS}"))

    def endpoints(self) -> dict[str, Any]:
        found = read_json(self.verified(ENDPOINTS))
        if not isinstance(found, dict):
            raise RunError(f"{self.path / ENDPOINTS} is not a JSON object: it is damaged.")
        return found

    def labels(self, kind: str) -> list[str]:
        """The labels of `entity` or `relation`, in id order, without the stream."""
        path = self.verified(VOCABULARY)
        try:
            table = read_table(path, ["id", "label", "kind"])
        except (pa.ArrowException, OSError, KeyError) as error:
            raise RunError(f"{path} cannot be read as a vocabulary ({error}).") from None
        rows = zip(*(table[name].to_pylist() for name in ("id", "label", "kind")), strict=True)
        return [label for _, label in sorted((id, label) for id, label, of in rows if of == kind)]

    def admitted_at(self) -> list[int]:
        """The update that admitted each entity, without the stream."""
        table = pq.ParquetFile(self.verified(VOCABULARY)).read(["kind", "admitted_at"])
        rows = zip(*(table[name].to_pylist() for name in ("kind", "admitted_at")), strict=True)
        return [at for kind, at in rows if kind == "entity"]

    def events(self) -> Iterator[dict[str, Any]]:
        """The log, oldest first; half a line at the end (a killed run) is passed over."""
        path = self.path / LOG
        if not path.is_file():
            return
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict):
                    yield event


def model_from(data: bytes, path: Path, backbone: str) -> Model:
    """A model from the bytes of a `model.safetensors`."""
    tensors = unpack_tensors(data, path)
    if set(tensors) != {"entity", "relation"}:
        raise RunError(f"{path} holds {sorted(tensors)} instead of entity and relation.")
    for tensor in tensors.values():
        if tensor.ndim != 2 or tensor.dtype not in (torch.float64, torch.float32):
            raise RunError(f"{path} holds something else than tables of float64 or float32 rows.")
    return Model(BACKBONES[backbone], tensors["entity"], tensors["relation"])
