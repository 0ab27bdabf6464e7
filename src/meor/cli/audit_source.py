"""What `meor audit` looks at: embeddings made elsewhere, or the models of a run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from meor.backbone import BACKBONES, Model
from meor.errors import InputError, RunError
from meor.evaluation.external import load_external, read_model
from meor.heap import give_memory_back
from meor.parquet import read_table
from meor.run.disk import sha256_of
from meor.run.layout import CONFIG, MANIFEST, MODEL, VOCABULARY, is_run, read_manifest, update_name
from meor.run.yaml_file import read_yaml
from meor.stream.registry import open_stream, recorded_place
from meor.stream.snapshot import Stream


@dataclass(frozen=True, slots=True)
class Source:
    """A stream, the model after each update, and the updates there are models for."""

    stream: Stream
    backbone: str
    model_of: Callable[[int], Model]
    updates: tuple[int, ...]
    sha256: dict[str, str]  # of the files the models come from: their names, never their places
    evaluation: dict[str, Any] = field(default_factory=dict)  # a run's own settings
    comparable: bool = True  # whether stored ranks should follow from the stored models


@dataclass(frozen=True, slots=True)
class Files:
    """Embeddings made elsewhere, as named on the command line."""

    backbone: str | None
    entity: Path | None
    relation: Path | None
    vocabulary: Path | None

    def require_none(self) -> None:
        if any((self.backbone, self.entity, self.relation, self.vocabulary)):
            raise InputError(
                "a run brings its own backbone and embeddings",
                remedy="Leave out --backbone, --entity, --relation and --vocabulary, or leave out the run",
            )

    def require_all(self) -> tuple[str, Path, Path, Path]:
        if self.backbone is None or not (self.entity and self.relation and self.vocabulary):
            named = ("backbone", "entity", "relation", "vocabulary")
            missing = ", ".join(f"--{name}" for name in named if getattr(self, name) is None)
            raise InputError(
                f"without {missing} there is nothing to audit",
                remedy="Give --stream, --backbone, --entity, --relation and --vocabulary, or a run folder",
            )
        if self.backbone not in BACKBONES:
            raise InputError(
                f"unknown backbone {self.backbone!r}", remedy=f"Use one of {', '.join(BACKBONES)}"
            )
        return self.backbone, self.entity, self.relation, self.vocabulary


def given(stream: Stream, files: Files, through: int) -> Source:
    """One model for every update up to `through`: each update's universe leaves later entities out."""
    backbone, entity, relation, vocabulary = files.require_all()
    give_memory_back()  # what reading the stream has freed, before the rows come
    model = load_external(stream, backbone, entity, relation, vocabulary, through=through, widen=False)
    named = {"entity": entity, "relation": relation, "vocabulary": vocabulary}
    digests = {name: sha256_of(path) for name, path in named.items()}
    return Source(stream, backbone, lambda _: model, tuple(stream.updates), digests)


def of_run(run: Path, stream_name: str | None, data_dir: Path | None) -> Source:
    """The models of a run folder, which is read as its contract says; what a manifest lists is verified."""
    if not (run / CONFIG).is_file():
        raise RunError(f"{run} is not a run folder: it has no {CONFIG}. Name a folder that `meor run` made.")
    config, _ = read_yaml(run / CONFIG)
    stream = _stream_of(run, config, stream_name, data_dir)
    backbone = config.get("backbone")
    if not isinstance(backbone, str):
        raise RunError(f"{run / CONFIG} does not name a backbone.")
    listed: dict[str, str] = {}
    if is_run(run):
        manifest = read_manifest(run)
        listed = manifest["sha256"]
        if manifest["stream_hash"] != stream.content_hash():
            raise RunError(
                f"the stream {stream.name} is not the one that {run} was made from: labels or facts differ. "
                "Name the right one with --stream."
            )
    _require_same_labels(run / VOCABULARY, stream)
    there = _models(run, range(len(stream.snapshots)), listed)

    def model_of(update: int) -> Model:
        if update not in there:
            raise RunError(f"{run} holds no model of update {update}.")
        n_entities, n_relations = stream.entity_counts[update], stream.relation_counts[update]
        return read_model(run / there[update], backbone, n_entities, n_relations)

    evaluation = config.get("evaluation")
    return Source(
        stream,
        backbone,
        model_of,
        tuple(update for update in there if update),
        {path: sha256_of(run / path) for path in there.values()},
        evaluation if isinstance(evaluation, dict) else {},
        config.get("method") != "calibration",  # its stored ranks are of scores changed after training
    )


def _stream_of(run: Path, config: dict[str, Any], named: str | None, data_dir: Path | None) -> Stream:
    name = named or config.get("stream")
    if not isinstance(name, str):
        raise RunError(f"{run / CONFIG} does not name a stream.")
    return open_stream(
        name,
        data_dir=data_dir or recorded_place(config.get("data_dir")),
        duplicates="drop" if config.get("duplicates") == "drop" else "error",
    )


def _models(run: Path, updates: Iterable[int], listed: dict[str, str]) -> dict[int, str]:
    """update -> its model's name; a run that is not finished has some of them."""
    there = {}
    for update in updates:
        name = f"{update_name(update)}/{MODEL}"
        if not (run / name).is_file():
            continue
        if listed and listed.get(name) != sha256_of(run / name):
            raise RunError(f"{run / name} does not match {MANIFEST}: it is damaged or not committed.")
        there[update] = name
    if not any(there):
        raise RunError(f"{run} holds no model of an update yet. Go on with `meor resume {run}`.")
    return there


def _require_same_labels(path: Path, stream: Stream) -> None:
    try:
        table = read_table(path, ["id", "label", "kind"])
        found = {tuple(row.values()) for row in table.select(["kind", "id", "label"]).to_pylist()}
    except (pa.ArrowException, OSError, KeyError) as error:
        raise RunError(f"{path} cannot be read ({str(error).splitlines()[0]}).") from None
    kinds = (("entity", stream.entities), ("relation", stream.relations))
    if found != {(kind, id, label) for kind, labels in kinds for id, label in enumerate(labels)}:
        raise RunError(
            f"{path} names other labels than the stream {stream.name}. Name the run's own with --stream."
        )
