"""The pair's replay model after an update, which penalties are balanced against: read, stored or trained.

As long as no coefficient is decided a run is replay, to the bit: its own models are those of the pair's
replay run, and an update of it is trained from the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meor.backbone import Model
from meor.errors import RunError
from meor.methods import METHODS, NONE
from meor.run.base_store import BaseStore, StoredBase, Wanted
from meor.run.config import Config
from meor.run.folder import RunFolder
from meor.run.judge import Judge
from meor.run.layout import MODEL, update_name, versions
from meor.run.prepare import grown, host_of, longest_rows, pack_model, update_of
from meor.run.trainer import Trainer
from meor.run.view import RunView, model_from
from meor.stream.snapshot import Stream
from meor.training.training import Training

UNSHARED = frozenset({"method", "coefficient", "coefficient_from", "coefficient_rule", "cap"})
"""Settings in which the runs of a pair may differ."""

LENGTH = frozenset({"passes", "steps", "schedule", "validate_steps", "patience", "tolerance"})
"""Of `refine`: how long an update is trained. The runs of a pair may differ in it, and say so."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What a run may ask the replay run of its pair."""

    folder: RunFolder
    config: Config
    stream: Stream
    given: Path | None  # a finished replay run of the pair, read instead of trained again
    store: BaseStore
    committed: Callable[[int], Model]  # this run's own models, replay's as long as nothing is decided
    trainer: Trainer
    judge: Judge

    def run(self) -> RunView:
        assert self.given is not None  # noqa: S101  (asked only where it is given)
        view = RunView.open(self.given)
        apart: Any = {**dict.fromkeys((*UNSHARED, "evaluation", "data_dir"), True), "refine": LENGTH}
        mine, theirs = (config.model_dump(exclude=apart) for config in (self.config, view.config))
        start = METHODS[self.config.method].start
        capped_alike = start == NONE or self.config.cap == view.config.cap
        if view.config.method != start or mine != theirs or not capped_alike:
            raise RunError(
                f"{self.given} is not the run of the host alone in this pair. "
                "Give one with the same stream, seed and settings."
            )
        return view

    def model(self, update: int) -> Model:
        """The replay model after an update, none before which had a penalty."""
        if self.given is not None:
            return self.run().model(update)
        listed = self.folder.manifest["sha256"]
        before = [listed[f"{update_name(each)}/{MODEL}"] for each in (0, update - 1)]
        key = self.config.replay_fingerprint(self.stream.content_hash(update), before, versions())
        rows = self.stream.entity_counts[update], self.stream.relation_counts[update]
        stored, _ = self.store.obtain(
            key,
            Wanted(self.config, rows, frozenset({"update"})),
            lambda: StoredBase(pack_model(self._trained(update)), {"update": update}),
        )
        return model_from(stored.model, self.store.folder / key, self.config.backbone)

    def _trained(self, number: int) -> Model:
        """An update without a penalty."""
        update = update_of(self.config, self.stream, number)
        base = self.committed(0)
        start = grown(self.config, self.committed(number - 1), update, base)
        longest = longest_rows(self.config, self.stream, update, base)
        training = Training.begin(host_of(self.config), start, update, longest)
        return self.trainer.probe(training, self.judge.stopping(number))
