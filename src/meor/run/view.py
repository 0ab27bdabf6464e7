"""A run folder, as its readers see it: audit, inspect, report. Every file is verified before it is used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from meor.backbone import BACKBONES, Model
from meor.errors import RunError
from meor.evaluation.frames import RanksBySplit, StoredEndpoints
from meor.evaluation.ranks_file import read_ranks
from meor.run.config import Config
from meor.run.layout import (
    CONFIG,
    ENDPOINTS,
    KEPT,
    LOG,
    MANIFEST,
    MODEL,
    RANKS,
    VOCABULARY,
    is_run,
    read_manifest,
    remedy_for,
    update_name,
)
from meor.storage.disk import ListedFiles
from meor.storage.json_file import REMOVE_AND_REPEAT, parse_json
from meor.storage.parquet import read_columns
from meor.storage.tensors import unpack_tensors
from meor.stream.registry import open_stream, recorded_place
from meor.stream.snapshot import Stream


@dataclass(frozen=True, slots=True)
class RunView:
    """What is committed in a run folder, complete or not."""

    manifest: dict[str, Any]
    config: Config
    files: ListedFiles

    @classmethod
    def open(cls, path: Path) -> RunView:
        """The settings are verified before they are read: all else is understood through them."""
        if not is_run(path):
            raise RunError(f"{path} is not a run folder: it has no {MANIFEST}. Make one with `meor run`.")
        manifest = read_manifest(path)
        files = ListedFiles(path, manifest["sha256"], lambda name: remedy_for(path, name))
        return cls(manifest, Config.load(files.path(CONFIG)), files)

    @property
    def path(self) -> Path:
        return self.files.folder

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
        self._require(name)
        return self.files.path(name)

    def content(self, name: str) -> bytes:
        """The bytes of a committed file, which are those of the manifest."""
        self._require(name)
        return self.files.read(name)

    def table(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Columns of a committed Parquet file."""
        data = self.content(name)
        return read_columns(data, self.path / name, columns, remedy_for(self.path, name))

    def stream(self, data_dir: Path | None = None) -> Stream:
        """The stream of the run; one that has changed since is refused."""
        place = data_dir or recorded_place(self.config.data_dir)
        stream = open_stream(self.config.stream, data_dir=place, **self.config.reading)
        if stream.content_hash() != self.manifest["stream_hash"]:
            raise RunError(
                f"the stream {self.config.stream} is not the one {self.path} was made from: its content has "
                "changed. Put the old files back, or start a new run."
            )
        return stream

    def model(self, update: int) -> Model:
        name = f"{update_name(update)}/{MODEL}"
        return model_from(self.content(name), self.path / name, self.config.backbone)

    def ranks(self, update: int) -> RanksBySplit:
        name = f"{update_name(update)}/{RANKS}"
        return RanksBySplit(read_ranks(self.path / name, self.content(name)), self.labels)

    def endpoints(self) -> StoredEndpoints:
        found = parse_json(self.content(ENDPOINTS), self.path / ENDPOINTS)
        if not isinstance(found, dict):
            remedy = remedy_for(self.path, ENDPOINTS)
            raise RunError(f"{self.path / ENDPOINTS} is not a JSON object: it is damaged. {remedy}")
        return StoredEndpoints(found)

    def labels(self, kind: str) -> list[str]:
        """The labels of `entity` or `relation`, in id order, without the stream."""
        table = self.table(VOCABULARY, ["id", "label", "kind"])
        rows = zip(*(table[name].to_pylist() for name in ("id", "label", "kind")), strict=True)
        return [label for _, label in sorted((id, label) for id, label, of in rows if of == kind)]

    def admitted_at(self) -> list[int]:
        """The update that admitted each entity, without the stream."""
        table = self.table(VOCABULARY, ["kind", "admitted_at"])
        rows = zip(*(table[name].to_pylist() for name in ("kind", "admitted_at")), strict=True)
        return [at for kind, at in rows if kind == "entity"]

    def events(self) -> Iterator[dict[str, Any]]:
        """The log, oldest first. It is listed once the run is complete; until then it grows, and half a line
        at its end (a killed run) is passed over.
        """
        path = self.files.path(LOG) if self.has(LOG) else self.path / LOG
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

    def _require(self, name: str) -> None:
        if self.has(name):
            return
        if self.has(ENDPOINTS):
            raise RunError(f"{self.path} is complete, and {name} is not in it. Name an update that it has.")
        raise RunError(f"{self.path} has no {name} yet. Go on with `meor resume {self.path}`.")


def model_from(data: bytes, path: Path, backbone: str) -> Model:
    """A model from the bytes of a `model.safetensors`."""
    tensors = unpack_tensors(data, path)
    kept = {name: tensors.pop(name) for name in sorted(tensors) if name.startswith(KEPT)}
    if set(tensors) != {"entity", "relation"}:
        raise RunError(f"{path} holds {sorted(tensors)} instead of entity and relation. {REMOVE_AND_REPEAT}")
    for tensor in tensors.values():
        if tensor.ndim != 2 or 0 in tensor.shape or tensor.dtype not in (torch.float64, torch.float32):
            raise RunError(
                f"{path} holds something else than tables of float64 or float32 rows. {REMOVE_AND_REPEAT}"
            )
    entity, relation = tensors["entity"], tensors["relation"]
    columns = BACKBONES[backbone].relation_columns(entity.shape[1])
    if relation.shape[1] != columns or entity.dtype != relation.dtype:
        raise RunError(f"{path} holds entities and relations of different width or type. {REMOVE_AND_REPEAT}")
    return Model(
        BACKBONES[backbone],
        entity,
        relation,
        {name.removeprefix(KEPT): value for name, value in kept.items()},
    )
