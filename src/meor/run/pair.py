"""The model of the host alone after an update, against which penalties are balanced: read, stored or trained.

Until a coefficient is decided, a run equals the run of the host alone, to the bit. So the next model of the
host alone is trained from this run's own models.
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
from meor.run.classes import classes_hash
from meor.run.config import Config
from meor.run.folder import RunFolder
from meor.run.judge import Judge
from meor.run.layout import MODEL, update_name, versions
from meor.run.prepare import grown, host_of, longest_rows, pack_model, update_of
from meor.run.settings import LENGTH, STOPPING
from meor.run.trainer import Trainer
from meor.run.view import RunView, model_from
from meor.stream.snapshot import Stream
from meor.training.training import Training

UNSHARED = frozenset(
    {"method", "coefficient", "coefficient_from", "coefficient_rule", "lift", "shrink", "cap"}
)
"""Settings in which the runs of a pair may differ."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What a run needs of the run of the host alone in its pair."""

    folder: RunFolder
    config: Config
    stream: Stream
    given: Path | None  # the finished run of the host alone: its models are read, not trained again
    store: BaseStore
    committed: Callable[[int], Model]  # this run's own models
    trainer: Trainer
    judge: Judge

    def run(self) -> RunView:
        assert self.given is not None  # noqa: S101  (asked only where it is given)
        view = RunView.open(self.given)
        apart: Any = {
            **dict.fromkeys((*UNSHARED, "evaluation", "data_dir"), True),
            "refine": {*LENGTH, *STOPPING},
        }
        mine, theirs = (config.model_dump(exclude=apart) for config in (self.config, view.config))
        if mine != theirs or not self._may_start_from(view.config):
            raise RunError(
                f"{self.given} is not the run of the host alone in this pair. "
                "Give one with the same stream, seed and settings."
            )
        return view

    def _may_start_from(self, given: Config) -> bool:
        method, theirs = METHODS[self.config.method], METHODS[given.method]
        if method.kind == "transform" and not method.capped:
            return theirs.kind != "transform"  # the scores of any trained run can be transformed
        return given.method == method.start and (method.start == NONE or self.config.cap == given.cap)

    def model(self, update: int) -> Model:
        """The model of the host alone after an update; no earlier update may have had a penalty."""
        if self.given is not None:
            return self.run().model(update)
        listed = self.folder.manifest["sha256"]
        before = [listed[f"{update_name(each)}/{MODEL}"] for each in (0, update - 1)]
        told = before, versions(), classes_hash(self.config)
        key = self.config.replay_fingerprint(self.stream.content_hash(update), *told)
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
        start = grown(self.config, self.stream, self.committed(number - 1), update, base)
        longest = longest_rows(self.config, self.stream, update, base)
        training = Training.begin(host_of(self.config), start, update, longest)
        return self.trainer.probe(training, self.judge.stopping(number))
