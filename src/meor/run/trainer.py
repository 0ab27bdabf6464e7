"""Trains an update of a run: from its newest good checkpoint, saving new ones, and saying how far it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meor.backbone import Model
from meor.errors import RunError
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.methods.penalty import Penalty
from meor.run.checkpoint import Checkpoint
from meor.run.folder import RunFolder
from meor.run.layout import versions
from meor.training.adam import Longest
from meor.training.host import Host, Update
from meor.training.loss import PLAIN, Aim
from meor.training.refine import Validate, refine
from meor.training.training import Cursor, Training


@dataclass(frozen=True, slots=True)
class Resources:
    """What a run may use. None of it changes a bit of any result."""

    threads: int = 1
    memory: int = DEFAULT_MEMORY
    cache: Path | None = None
    checkpoint_seconds: float = 30.0
    alone: Path | None = None  # the finished run of the host alone: its models are read, not trained again


class Watcher:
    """Every method may be overridden; none can change a result."""

    def phase(self, name: str, update: int, *, done: int = 0, total: int = 0) -> None:
        """Something begins: `base`, `update` or `evaluate`, with how many steps it may take."""

    def step(self, done: int, loss: float) -> None:
        """A training step was made."""

    def validated(self, passes: int, mrr: float) -> None:
        """A validation gave this MRR."""

    def event(self, name: str, fields: dict[str, Any]) -> None:
        """A line was added to the run's log."""

    def say(self, text: str) -> None:
        """A remark a person should read."""


@dataclass(frozen=True, slots=True)
class Term:
    """What is added to the host's loss, and what is asked of facts while it is."""

    penalty: Penalty | None = None
    coefficient: float = 0.0
    aim: Aim = PLAIN


NOTHING = Term()


class Trainer:
    """Trainings of one run, which all share a place for checkpoints."""

    def __init__(self, folder: RunFolder, seed: int, resources: Resources, watcher: Watcher) -> None:
        self.folder, self.seed, self.watcher = folder, seed, watcher
        self._seconds, self._saved_at = resources.checkpoint_seconds, time.monotonic()

    def open(self, host: Host, model: Model, update: Update, longest: Longest | None = None) -> Training:
        """The training of an update: from its newest good checkpoint, else from its first step."""
        for found in self.folder.checkpoints.usable(update.number, self.say):
            try:
                cursor = Cursor.from_json(found.state["cursor"])
                tensors = {**found.model, **found.optim}
                return Training.restore(
                    host, model.backbone, update, tensors=tensors, cursor=cursor, longest=longest
                )
            except (RunError, KeyError, TypeError, ValueError, IndexError) as error:
                self.say(f"checkpoint {found.name} is not used: {error}")
        return Training.begin(host, model, update, longest)

    def train(
        self, training: Training, phase: str, term: Term = NOTHING, validate: Validate | None = None
    ) -> Model:
        """To the end of the update, with a checkpoint whenever one is due."""
        number, last = training.cursor.update, 0.0
        self._announce(training, phase)

        def on_step(now: Training, loss: float) -> None:
            nonlocal last
            last = loss
            self.watcher.step(now.cursor.step, loss)
            self._checkpoint_if_due(now)

        def on_pass(now: Training, mrr: float | None) -> None:
            self.log("pass", update=number, number=now.cursor.pass_number, loss=last, valid_mrr=mrr)
            if mrr is not None:
                self.watcher.validated(now.cursor.pass_number, mrr)

        model = refine(
            training,
            penalty=term.penalty,
            coefficient=term.coefficient,
            aim=term.aim,
            validate=validate,
            on_step=on_step,
            on_pass=on_pass,
        )
        self._checkpoint_if_due(training)
        return model

    def probe(self, training: Training, validate: Validate | None = None) -> Model:
        """Train without a checkpoint: their place belongs to the update of the run itself."""
        self._announce(training, "balance")

        def on_step(now: Training, loss: float) -> None:
            self.watcher.step(now.cursor.step, loss)

        return refine(training, validate=validate, on_step=on_step)

    def _announce(self, training: Training, phase: str) -> None:
        # The total is an upper bound: a stage that validates may stop early.
        per_pass = len(training.host.steps(0))
        passes = sum(stage.plan.passes for stage in training.host.stages(training.update))
        done = training.cursor.step
        self.watcher.phase(phase, training.cursor.update, done=done, total=passes * per_pass)

    def _checkpoint_if_due(self, training: Training) -> None:
        if time.monotonic() - self._saved_at < self._seconds:
            return
        tensors = training.tensors()
        optim = {name: value for name, value in tensors.items() if name.startswith("adam.")}
        rest = {name: value for name, value in tensors.items() if name not in optim}
        cursor = training.cursor
        state = {"cursor": cursor.to_json(), "seed": self.seed, "versions": dict(versions())}
        self.folder.checkpoints.save(Checkpoint(cursor.update, cursor.step, rest, optim, state))
        self._saved_at = time.monotonic()

    def log(self, event: str, **fields: Any) -> None:
        self.folder.log(event, **fields)
        self.watcher.event(event, fields)

    def say(self, text: str) -> None:
        self.watcher.say(text)
        self.folder.log("warning", text=text)
