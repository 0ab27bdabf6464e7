"""What an audit looks at and asks: any model, embeddings made elsewhere or the models of a run; the question.

A question comes from what was given, else from a run's own settings, else from the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from meor.backbone import BACKBONES, Model
from meor.errors import InputError, RunError
from meor.evaluation.audit import Question
from meor.evaluation.external import HALVES, load_external
from meor.evaluation.labelled import Rateable, as_model
from meor.evaluation.pykeen_folder import MODEL as MODEL_FILE
from meor.evaluation.pykeen_folder import read_pykeen
from meor.evaluation.rank import FilterPrefix, Ties
from meor.heap import give_memory_back
from meor.methods import METHODS
from meor.run.layout import MODEL, VOCABULARY, unfinished, update_name
from meor.run.view import RunView
from meor.storage.disk import sha256_of
from meor.stream.occurrence import ALL
from meor.stream.registry import open_stream, recorded_place
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Split

Choice = TypeVar("Choice")
Rule = TypeVar("Rule", bound=Enum)


@dataclass(frozen=True, slots=True)
class Source:
    """A stream, the model after each update, and the updates that have a model."""

    stream: Stream
    backbone: str
    model_of: Callable[[int], Model]
    updates: tuple[int, ...]
    sha256: dict[str, str]  # of the files that the models come from, by name and not by path
    evaluation: dict[str, Any] = field(default_factory=dict)  # a run's own settings
    comparable: bool = True  # whether stored ranks should follow from the stored models
    run: RunView | None = None

    def question(self, wanted: Wanted) -> Question:
        """What is asked of this source: the options, else the settings of the run."""
        return question_of(wanted, self.stream, own=self.evaluation, updates=self.updates)


@dataclass(frozen=True, slots=True)
class Files:
    """Embeddings made elsewhere, as named on the command line."""

    backbone: str | None
    entity: Path | None
    relation: Path | None
    vocabulary: Path | None
    layout: str = HALVES
    pykeen: Path | None = None

    def require_none(self, whose: str) -> None:
        named = (self.backbone, self.entity, self.relation, self.vocabulary, self.pykeen)
        if any(named) or self.layout != HALVES:
            raise InputError(
                f"{whose} brings its own backbone and embeddings",
                remedy="Leave out --backbone, --entity, --relation, --vocabulary, --layout and --pykeen",
            )

    def require_all(self) -> tuple[str, Path, Path, Path]:
        if self.backbone is None or not (self.entity and self.relation and self.vocabulary):
            named = ("backbone", "entity", "relation", "vocabulary")
            missing = ", ".join(f"--{name}" for name in named if getattr(self, name) is None)
            raise InputError(
                f"without {missing} there is nothing to audit",
                remedy="Give --stream, --backbone, --entity, --relation and --vocabulary, or --stream and "
                "--pykeen, or a run folder",
            )
        if self.backbone not in BACKBONES:
            raise InputError(
                f"unknown backbone {self.backbone!r}", remedy=f"Use one of {', '.join(BACKBONES)}"
            )
        return self.backbone, self.entity, self.relation, self.vocabulary


def of_model(stream: Stream, model: Rateable, through: int) -> Source:
    """One model for every update up to `through`: entities that come later are no candidates yet."""
    fixed = as_model(stream, model, through)
    return Source(stream, fixed.backbone.name, lambda _: fixed, tuple(stream.updates), {})


def of_pykeen(stream: Stream, folder: Path, through: int) -> Source:
    """A model that PyKEEN saved."""
    digests = {MODEL_FILE: sha256_of(folder / MODEL_FILE)}
    return replace(of_model(stream, read_pykeen(folder), through), sha256=digests)


def given(stream: Stream, files: Files, through: int) -> Source:
    """Embeddings made elsewhere."""
    if files.pykeen is not None:
        replace(files, pykeen=None).require_none("a PyKEEN folder")
        return of_pykeen(stream, files.pykeen, through)
    backbone, entity, relation, vocabulary = files.require_all()
    give_memory_back()  # what reading the stream has freed, before the rows come
    told = {"through": through, "widen": False, "layout": files.layout}
    model = load_external(stream, backbone, entity, relation, vocabulary, **told)  # type: ignore[arg-type]
    named = {"entity": entity, "relation": relation, "vocabulary": vocabulary}
    digests = {name: sha256_of(path) for name, path in named.items()}
    return replace(of_model(stream, model, through), sha256=digests)


def of_run(run: Path, named: Stream | Path | str | None, data_dir: Path | None) -> Source:
    """The models of a run folder. Settings, labels and weights are verified before they are used."""
    view = RunView.open(run)
    config = view.config
    place = data_dir or recorded_place(config.data_dir)
    if isinstance(named, Stream):
        stream = named
    else:
        stream = open_stream(named or config.stream, data_dir=place, **config.reading)
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
        config.backbone,
        model_of,
        updates,
        {name: view.manifest["sha256"][name] for name in names},
        config.evaluation.model_dump(mode="json"),
        # Stored ranks of a transform are of scores changed after training.
        METHODS[config.method].kind != "transform",
        view,
    )


def _require_same_labels(view: RunView, stream: Stream) -> None:
    for kind, known in (("entity", stream.entities), ("relation", stream.relations)):
        if view.labels(kind) != list(known):
            raise RunError(
                f"{view.path / VOCABULARY} names other labels than the stream {stream.name}. "
                "Name the run's own with --stream."
            )


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options as they were given, several values as a list or with commas; None where one was not."""

    update: int | None = None
    updates: Sequence[str] | str | None = None
    sides: Sequence[str] | str | None = None
    split: Sequence[str] | str | None = None
    ties: str | None = None
    filter_prefix: str | None = None
    filter_splits: Sequence[str] | str | None = None


def question_of(
    wanted: Wanted,
    stream: Stream,
    *,
    own: Mapping[str, Any] | None = None,
    updates: Iterable[int] | None = None,
) -> Question:
    """The question; `own` are a run's evaluation settings, `updates` those that it has models of."""
    settings = own or {}
    sides = {side.label: side for side in SIDES}
    splits = {split.value: split for split in SPLITS}
    return Question(
        updates=_updates(wanted, stream, settings, tuple(stream.updates if updates is None else updates)),
        sides=_several("--sides", wanted.sides or settings.get("sides"), sides, SIDES),
        splits=_several("--split", wanted.split or settings.get("split"), splits, (Split.TEST,)),
        ties=_one("--ties", wanted.ties, Ties, Ties.ID),
        filter_prefix=_one(
            "--filter-prefix",
            wanted.filter_prefix or settings.get("filter_prefix"),
            FilterPrefix,
            FilterPrefix.CURRENT,
        ),
        filter_splits=_several(
            "--filter-splits", wanted.filter_splits or settings.get("filter_splits"), splits, SPLITS
        ),
        sample=int(settings.get("sample", ALL)),
    )


def _updates(
    wanted: Wanted, stream: Stream, settings: Mapping[str, Any], default: tuple[int, ...]
) -> tuple[int, ...]:
    if wanted.update is not None and wanted.updates is not None:
        raise InputError("--update and --updates were both given", remedy="Give one of them")
    said: Any = wanted.updates if wanted.update is None else str(wanted.update)
    last = len(stream.snapshots) - 1
    if said is None:
        chosen = tuple(u for u in default if u in (settings.get("updates") or default))
        if not chosen:
            raise InputError(
                f"{stream.name} has no update to audit: nobody was admitted after the base",
                remedy="Give a stream of two snapshots or more, or --update 0 for ranks at the base",
            )
        return chosen
    allowed = {str(update): update for update in range(last + 1)}
    return _several("--updates", said, allowed, ())


def _several(
    option: str, said: Any, allowed: Mapping[str, Choice], default: tuple[Choice, ...]
) -> tuple[Choice, ...]:
    """A comma-separated list in the order given, each name at most once."""
    if said is None:
        return default
    words = [str(word).strip() for word in (said.split(",") if isinstance(said, str) else said)]
    for word in words:
        if word not in allowed:
            raise InputError(f"{option} does not know {word!r}", remedy=f"Use {', '.join(allowed)}")
    if len(set(words)) < len(words):
        raise InputError(f"{option} names something twice", remedy="Name each once")
    return tuple(allowed[word] for word in words)


def _one(option: str, said: str | None, rules: type[Rule], default: Rule) -> Rule:
    if said is None:
        return default
    allowed = {str(rule.value): rule for rule in rules}
    if said not in allowed:
        raise InputError(f"{option} does not know {said!r}", remedy=f"Use {', '.join(allowed)}")
    return allowed[said]
