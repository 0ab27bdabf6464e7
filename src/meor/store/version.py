"""One version of a store: whole, immutable, every file verified before it is used."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from meor.backbone import Model
from meor.errors import StoreError
from meor.run.config import Config
from meor.run.layout import versions, vocabulary_bytes
from meor.run.prepare import pack_model
from meor.run.view import model_from
from meor.storage.disk import ListedFiles
from meor.storage.json_file import parse_json, to_json
from meor.store.graph import Batch, facts_bytes, read_graph, read_waiting, waiting_bytes
from meor.store.layout import (
    BASE,
    CONFIG,
    FACTS,
    GATE,
    MANIFEST,
    MODEL,
    STATE,
    VERDICT,
    VERSIONS,
    VOCABULARY,
    WAITING,
    manifest_bytes,
    number_of,
    read_manifest,
    remedy_of,
    version_name,
)
from meor.store.settings import GateSettings
from meor.stream.snapshot import LabelFact, Stream
from meor.typing import Split


@dataclass(frozen=True, slots=True)
class Content:
    """All that a version holds, before it is bytes."""

    stream: Stream
    model: Model
    base: Model  # of snapshot 0: new rows may start from it
    config: Config
    gate: GateSettings
    coefficient: float | None = None  # decided once, like that of a run
    verdict: dict[str, Any] = field(default_factory=dict)
    waiting: Batch = field(default_factory=dict)

    def files(self) -> dict[str, bytes]:
        state = {
            "name": self.stream.name,
            "snapshots": len(self.stream.snapshots),
            "coefficient": self.coefficient,
        }
        found = {
            MODEL: pack_model(self.model),
            VOCABULARY: vocabulary_bytes(self.stream),
            FACTS: facts_bytes(self.stream),
            WAITING: waiting_bytes(self.waiting),
            CONFIG: self.config.to_yaml().encode(),
            GATE: self.gate.to_yaml().encode(),
            STATE: to_json(state),
            VERDICT: to_json(self.verdict),
        }
        if not _begins_with(
            self.model, self.base
        ):  # a host that freezes old rows keeps the base in the model
            found[BASE] = pack_model(self.base)
        return found

    def named(self, number: int, parent: str | None) -> tuple[str, dict[str, bytes]]:
        """The name of the version, and all its files."""
        files = self.files()
        sha256 = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        manifest = manifest_bytes(number, parent, sha256, dict(versions()))
        return version_name(number, manifest), {**files, MANIFEST: manifest}


def _begins_with(model: Model, base: Model) -> bool:
    pairs = ((model.entity, base.entity), (model.relation, base.relation))
    return all(torch.equal(table[: len(first)], first) for table, first in pairs)


@dataclass(frozen=True, slots=True)
class Version:
    """A reader of one version."""

    name: str
    manifest: dict[str, Any]
    files: ListedFiles

    @classmethod
    def open(cls, store: Path, name: str) -> Version:
        number_of(name)
        folder = store / VERSIONS / name
        if not folder.is_dir():
            raise StoreError(f"{store} has no version {name}. `meor history {store}` lists them.")
        manifest = read_manifest(folder)
        files = ListedFiles(folder, manifest["sha256"], lambda _: remedy_of(folder), error=StoreError)
        return cls(name, manifest, files)

    @property
    def number(self) -> int:
        return int(self.manifest["number"])

    @property
    def parent(self) -> str | None:
        found = self.manifest["parent"]
        return None if found is None else str(found)

    def check(self) -> None:
        """Read every byte; the first file that is not as listed is an error."""
        for name in self.manifest["sha256"]:
            self.files.path(name)

    def config(self) -> Config:
        return Config.load(self.files.path(CONFIG))

    def gate(self) -> GateSettings:
        return GateSettings.load(self.files.path(GATE))

    def state(self) -> dict[str, Any]:
        return self._json(STATE)

    def verdict(self) -> dict[str, Any]:
        return self._json(VERDICT)

    def stream(self) -> Stream:
        state = self.state()
        return read_graph(state["name"], state["snapshots"], self._file(VOCABULARY), self._file(FACTS))

    def model(self) -> Model:
        return model_from(*self._file(MODEL), self.config().backbone)

    def base(self, stream: Stream, model: Model) -> Model:
        if BASE in self.manifest["sha256"]:
            return model_from(*self._file(BASE), self.config().backbone)
        rows = stream.entity_counts[0], stream.relation_counts[0]
        return Model(model.backbone, model.entity[: rows[0]], model.relation[: rows[1]])

    def waiting(self) -> dict[Split, list[LabelFact]]:
        return read_waiting(*self._file(WAITING))

    def content(self) -> Content:
        stream, model = self.stream(), self.model()
        return Content(
            stream,
            model,
            self.base(stream, model),
            self.config(),
            self.gate(),
            self.state()["coefficient"],
            self.verdict(),
            self.waiting(),
        )

    def _file(self, name: str) -> tuple[bytes, Path]:
        return self.files.read(name), self.files.folder / name

    def _json(self, name: str) -> dict[str, Any]:
        found = parse_json(*self._file(name))
        if not isinstance(found, dict):
            raise StoreError(
                f"{self.files.folder / name} is not a JSON object. {remedy_of(self.files.folder)}"
            )
        return found
