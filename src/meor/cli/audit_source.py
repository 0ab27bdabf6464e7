"""What `meor audit` looks at: embeddings made elsewhere, or the models of a run folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meor.backbone import BACKBONES, Model
from meor.errors import InputError, RunError
from meor.evaluation.budget import give_memory_back
from meor.evaluation.external import load_external
from meor.methods import METHODS
from meor.run.config import Config
from meor.run.layout import MODEL, VOCABULARY, update_name
from meor.run.state import unfinished
from meor.run.view import RunView
from meor.storage.disk import sha256_of
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
    run: RunView | None = None


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
    """The models of a run folder. Settings, labels and weights are verified before they are used."""
    view = RunView.open(run)
    stream = _stream_of(view.config, stream_name, data_dir)
    if view.manifest["stream_hash"] != stream.content_hash():
        raise RunError(
            f"the stream {stream.name} is not the one that {run} was made from: labels or facts differ. "
            "Name the right one with --stream."
        )
    _require_same_labels(view, stream)
    updates = tuple(update for update in view.updates if update)
    if not updates:
        raise RunError(unfinished(run) or f"{run} holds no model of an update.")

    def model_of(update: int) -> Model:
        model = view.model(update)
        expected = stream.entity_counts[update], stream.relation_counts[update]
        if (len(model.entity), len(model.relation)) != expected:
            raise RunError(
                f"{run / update_name(update) / MODEL} has rows for {len(model.entity)} entities and "
                f"{len(model.relation)} relations, but the stream has {expected[0]} and "
                f"{expected[1]}. Make the run again."
            )
        return model

    names = [f"{update_name(update)}/{MODEL}" for update in view.updates]
    return Source(
        stream,
        view.config.backbone,
        model_of,
        updates,
        {name: view.manifest["sha256"][name] for name in names},
        view.config.evaluation.model_dump(mode="json"),
        # Stored ranks of a transform are of scores changed after training.
        METHODS[view.config.method].kind != "transform",
        view,
    )


def _stream_of(config: Config, named: str | None, data_dir: Path | None) -> Stream:
    place = data_dir or recorded_place(config.data_dir)
    return open_stream(named or config.stream, data_dir=place, duplicates=config.duplicates)


def _require_same_labels(view: RunView, stream: Stream) -> None:
    for kind, known in (("entity", stream.entities), ("relation", stream.relations)):
        if view.labels(kind) != list(known):
            raise RunError(
                f"{view.path / VOCABULARY} names other labels than the stream {stream.name}. "
                "Name the run's own with --stream."
            )
