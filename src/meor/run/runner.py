"""One run: base -> updates 1..T -> evaluation, on disk, stoppable at any moment.

Each update is trained from the committed model of the one before it. Where a run was stopped it goes on
from the newest checkpoint of the update in progress; all draws are addressed, so the bytes are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meor.backbone import BACKBONES, Model
from meor.errors import RunError
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.hosts.replay import Replay
from meor.methods import METHODS
from meor.methods.balance import Balance
from meor.run.base_store import BASE_META, BaseStore, StoredBase, Wanted, default_cache
from meor.run.checkpoint import Checkpoint
from meor.run.config import Config
from meor.run.folder import RunFolder
from meor.run.judge import Judge
from meor.run.layout import ENDPOINTS, MODEL, update_name, versions
from meor.run.method import Term, method_of
from meor.run.pair import Pair
from meor.run.prepare import (
    base_plan,
    buffer_of,
    digest,
    dtype_of,
    given_base,
    grown,
    host_of,
    pack_model,
    refine_plan,
    unranked,
)
from meor.run.validated import Candidate, choose_multiple
from meor.run.view import model_from
from meor.run.watch import Watcher
from meor.storage.disk import explained
from meor.storage.json_file import to_json
from meor.storage.tensors import pack_tensors
from meor.stream.snapshot import Stream
from meor.training.base import Host, Plan, Update
from meor.training.initialise import base_model, row_norms, rows_sha256
from meor.training.refine import Cursor, Training, refine

NOTHING = Term()
Trial = Callable[[Config, Path], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Resources:
    """What a run may use. None of it changes a bit of any result."""

    threads: int = 1
    memory: int = DEFAULT_MEMORY
    cache: Path | None = None
    checkpoint_seconds: float = 30.0
    replay: Path | None = None  # a finished replay run of the same pair, read instead of trained again


class Runner:
    """Brings a run folder from whatever is committed in it to completion."""

    def __init__(
        self,
        folder: RunFolder,
        config: Config,
        stream: Stream,
        resources: Resources,
        watcher: Watcher,
        trial: Trial,
    ) -> None:
        self.folder, self.config, self.stream = folder, config, stream
        self.resources, self.watcher = resources, watcher
        self.host = host_of(config)
        self._saved_at = time.monotonic()
        self.judge = Judge(folder, config, stream, self.host, resources.memory)
        self.method = method_of(config, stream, self.judge, self._log, self._choose)
        self._trial = trial
        self.store = BaseStore(resources.cache or default_cache(), self._say, disk=folder.disk)
        self.pair = Pair(folder, config, stream, resources.replay, self.store, self._committed_model, watcher)

    def run(self, *, resumed: bool) -> dict[str, Any]:
        """Go on to the end; the content of endpoints.json."""
        done = self.folder.verified_updates(self._say)
        self.folder.forget_from(done)
        self._resumed = resumed
        if remark := unranked(self.config, self.stream):
            self._say(remark)
        model = self._committed_model(done - 1) if done else self._base()
        for update in self.stream.updates:
            if update >= done:
                model = self._update(update, model)
        if self._resumed:
            self._log("resumed", update=self.stream.updates[-1], step=0)
        found = {**self.judge.endpoints(), **self.method.control(self.pair.model)}
        self.folder.commit_result(ENDPOINTS, to_json(found))
        self.folder.finish(threads=self.resources.threads)
        return found

    def _base(self) -> Model:
        """The model of snapshot 0: given, found in the store, or trained."""
        if self.config.base_model is not None:
            model = given_base(self.config, self.stream)
            return self._commit_base(pack_model(model), {"source": "given"})
        store = self.store
        key = self.config.base_fingerprint(self.stream.content_hash(0), versions())
        wanted = Wanted(self.config, self._rows_at(0), BASE_META)
        stored, source = store.obtain(key, wanted, self._train_base)
        if _was_still_improving(stored.meta, self.config.base.epochs):
            self._say(
                f"the base was still improving when base.epochs={self.config.base.epochs} ended its "
                "training: raise it (--set base.epochs=...), or learn faster (base.learning_rate)"
            )
        return self._commit_base(stored.model, {"source": source, "key": key, **stored.meta})

    def _train_base(self) -> StoredBase:
        config, stream = self.config, self.stream
        backbone = BACKBONES[config.backbone]
        std, dtype = config.base.init_std, dtype_of(config)
        model = base_model(backbone, config.dim, *self._rows_at(0), seed=config.seed, std=std, dtype=dtype)
        update, plan = Update.of(stream, 0), base_plan(config)
        training = self._opened(Replay(), model, update, plan)
        model = self._train(training, plan, phase="base")
        meta = {
            "steps": training.cursor.step,
            "epochs": training.cursor.pass_number,
            "best_mrr": training.cursor.best_mrr,
            "validations": training.cursor.validations,
            "optimizer_sha256": _optimizer_sha256(training),
        }
        return StoredBase(pack_model(model), meta)

    def _commit_base(self, packed: bytes, fields: dict[str, Any]) -> Model:
        self._note_resumed(0, 0)
        path = self.folder.path / update_name(0) / MODEL
        model = model_from(packed, path, self.config.backbone)
        self._log("base", **fields, row_norms=row_norms(model, model.n_entities))
        self.folder.commit_update(0, {MODEL: packed})
        return model

    def _update(self, number: int, model: Model) -> Model:
        """Grow, refine, evaluate and commit one update."""
        update = Update.of(self.stream, number, buffer_of(self.config, self.stream, number))
        start, plan = grown(self.config, model, update, self._committed_model(0)), refine_plan(self.config)
        newcomers, rows = update.n_entities - update.n_old, rows_sha256(start, update)
        self._log("grown", update=number, newcomers=newcomers, rows_sha256=rows)
        term = self.method.term(update, start, self.pair.model)
        training = self._opened(self.host, start, update, plan)
        if METHODS[self.config.method].kind == "transform" and self.resources.replay is not None:
            model = self.pair.run().model(number)
        else:
            model = self._train(training, plan, phase="update", term=term)
        self.watcher.phase("evaluate", number)
        found = self.method.results(update, model, self._committed_model, term)
        # Logged first: a run stopped in between says it twice rather than never.
        self._log(
            "updated",
            update=number,
            steps=training.cursor.step,
            optimizer_sha256=_optimizer_sha256(training),
            row_norms=row_norms(model, update.n_old),
        )
        self.folder.commit_update(number, {MODEL: pack_model(model), **found})
        return model

    def _choose(self, found: Balance) -> tuple[float, tuple[Candidate, ...]]:
        """The validated multiple, tried in runs of another seed that lie beside the stored bases."""
        name = self.folder.manifest["config_hash"]
        folder = (self.resources.cache or default_cache()) / "trials" / name
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        config = self.config.model_copy(update={"coefficient_from": found.update})
        return choose_multiple(config, found.coefficient, self._trial, folder, self._say)

    def _opened(self, host: Host, model: Model, update: Update, plan: Plan) -> Training:
        """The training of an update: from its newest good checkpoint, else from its first step."""
        training = None
        for found in self.folder.checkpoints.usable(update.number, self._say):
            try:
                cursor = Cursor.from_json(found.state["cursor"])
                tensors = {**found.model, **found.optim}
                training = Training.restore(
                    host, model.backbone, update, plan, tensors=tensors, cursor=cursor
                )
                break
            except (RunError, KeyError, TypeError, ValueError) as error:
                self._say(f"checkpoint {found.name} is not used: {error}")
        if training is None:
            training = Training.begin(host, model, update, plan)
        self._note_resumed(update.number, training.cursor.step)
        return training

    def _train(self, training: Training, plan: Plan, *, phase: str, term: Term = NOTHING) -> Model:
        number = training.cursor.update
        # The total is an upper bound: base training may stop early.
        total = plan.passes * len(training.host.steps(0))
        self.watcher.phase(phase, number, done=training.cursor.step, total=total)
        last = 0.0

        def on_step(now: Training, loss: float) -> None:
            nonlocal last
            last = loss
            self.watcher.step(now.cursor.step, loss)
            self._checkpoint_if_due(now)

        def on_pass(now: Training, mrr: float | None) -> None:
            self._log("pass", update=number, number=now.cursor.pass_number, loss=last, valid_mrr=mrr)
            if mrr is not None:
                self.watcher.validated(now.cursor.pass_number, mrr)

        validate = (
            self.judge.validation_mrr if phase == "base" and len(self.stream.snapshots[0].valid) else None
        )
        model = refine(
            training,
            plan,
            penalty=term.penalty,
            coefficient=term.coefficient,
            validate=validate,
            on_step=on_step,
            on_pass=on_pass,
        )
        self._checkpoint_if_due(training)
        return model

    def _checkpoint_if_due(self, training: Training) -> None:
        if time.monotonic() - self._saved_at < self.resources.checkpoint_seconds:
            return
        tensors = training.tensors()
        optim = {name: value for name, value in tensors.items() if name.startswith("adam.")}
        rest = {name: value for name, value in tensors.items() if name not in optim}
        cursor = training.cursor
        state = {"cursor": cursor.to_json(), "seed": self.config.seed, "versions": dict(versions())}
        self.folder.checkpoints.save(Checkpoint(cursor.update, cursor.step, rest, optim, state))
        self._saved_at = time.monotonic()

    def _committed_model(self, update: int) -> Model:
        name = f"{update_name(update)}/{MODEL}"
        return model_from(self.folder.files.read(name), self.folder.path / name, self.config.backbone)

    def _rows_at(self, update: int) -> tuple[int, int]:
        return self.stream.entity_counts[update], self.stream.relation_counts[update]

    def _note_resumed(self, update: int, step: int) -> None:
        if self._resumed:
            self._resumed = False
            self._log("resumed", update=update, step=step)

    def _log(self, event: str, **fields: Any) -> None:
        self.folder.log(event, **fields)
        self.watcher.event(event, fields)

    def _say(self, text: str) -> None:
        self.watcher.say(text)
        self.folder.log("warning", text=text)


def _was_still_improving(meta: dict[str, Any], epochs: int) -> bool:
    """The limit ended base training, and its last validation was the best."""
    validations = meta.get("validations") or []
    return meta.get("epochs") == epochs and bool(validations) and validations[-1][1] == meta.get("best_mrr")


def _optimizer_sha256(training: Training) -> str:
    """So that two runs can be compared down to the optimizer, whose state a finished run does not keep."""
    return digest(pack_tensors(training.adam.state()))
