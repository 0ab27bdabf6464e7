"""One run: base -> updates 1..T -> evaluation, on disk, stoppable at any moment.

Each update is trained from the committed model of the one before it. Where a run was stopped it goes on
from the newest checkpoint of the update in progress; all draws are addressed, so the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meor.backbone import BACKBONES, Model
from meor.methods import METHODS
from meor.methods.coefficient import Balance, Candidate
from meor.run.base_store import BASE_META, BaseStore, StoredBase, Wanted, default_cache
from meor.run.config import Config
from meor.run.control import Penalized, balanced, control_of
from meor.run.folder import RunFolder
from meor.run.given_base import given_base
from meor.run.judge import Judge
from meor.run.layout import ENDPOINTS, MODEL, update_name, versions
from meor.run.pair import Pair
from meor.run.prepare import (
    digest,
    dtype_of,
    grown,
    host_of,
    longest_rows,
    pack_model,
    update_of,
)
from meor.run.stream_check import unranked
from meor.run.trainer import Resources, Trainer, Watcher
from meor.run.view import model_from
from meor.storage.json_file import to_json
from meor.storage.tensors import pack_tensors
from meor.stream.snapshot import Stream
from meor.training.adam import Longest
from meor.training.host import Update
from meor.training.initialise import base_model, row_norms, rows_sha256
from meor.training.refine import UNJUDGED_STEPS
from meor.training.training import Training


class Runner:
    """Brings a run folder from whatever is committed in it to completion."""

    def __init__(
        self, folder: RunFolder, config: Config, stream: Stream, resources: Resources, watcher: Watcher
    ) -> None:
        self.folder, self.config, self.stream = folder, config, stream
        self.resources, self.watcher = resources, watcher
        self.host = host_of(config)
        self.trainer = Trainer(folder, config.seed, resources, watcher)
        self.log, self.say = self.trainer.log, self.trainer.say
        self.judge = Judge(folder, config, stream, self.host, resources.memory)
        self.control = control_of(config, stream, self.judge, self.log)
        self.store = BaseStore(resources.cache or default_cache(), self.say, disk=folder.disk)
        given = resources.alone, self.store, self._committed
        self.pair = Pair(folder, config, stream, *given, self.trainer, self.judge)
        self.endpoints: dict[str, Any] = {}

    def begin(self, *, resumed: bool) -> None:
        """Up to the base: committed, given, stored or trained."""
        self._resumed = resumed
        self.done = self.folder.verified_updates(self.say)
        self.folder.forget_from(self.done)
        if remark := unranked(self.config, self.stream):
            self.say(remark)
        if not self.done:
            self._base()
            self.done = 1

    def advance(self) -> Balance | None:
        """Go on to the end, or to the update whose balanced coefficient waits for its validated multiple.

        That one is returned: `decide` takes the multiple, and `advance` is called again.
        """
        for number in self.stream.updates:
            if isinstance(self.control, Penalized) and self.control.coefficient is None:
                found = balanced(
                    self.config, self.stream, number, self.pair.model, self.control.penalty(number)
                )
                if self.control.measured(found):
                    if self.config.coefficient_rule == "validated":
                        return found
                    self.control.decide(found)
            if number >= self.done:
                self._update(number)
                self.done = number + 1
        self._note_resumed(self.stream.updates[-1], 0)
        self.endpoints = {**self.judge.endpoints(), **self.control.told()}
        self.folder.commit_result(ENDPOINTS, to_json(self.endpoints))
        self.folder.finish(threads=self.resources.threads)
        return None

    def decide(self, found: Balance, multiple: float, candidates: Sequence[Candidate]) -> None:
        """The validated multiple of a balanced coefficient, and what it was chosen from."""
        assert isinstance(self.control, Penalized)  # noqa: S101  (only such a run waits)
        self.control.decide(found, multiple, candidates)

    def _base(self) -> None:
        """The model of snapshot 0: given, found in the store, or trained."""
        if self.config.base_model is not None:
            self._commit_base(pack_model(given_base(self.config, self.stream)), {"source": "given"})
            return
        key = self.config.base_fingerprint(self.stream.content_hash(0), versions())
        wanted = Wanted(self.config, self._rows_at(0), BASE_META)
        stored, source = self.store.obtain(key, wanted, self._train_base)
        if _was_still_improving(stored.meta, self.config.base.epochs):
            self.say(
                f"the base was still improving when base.epochs={self.config.base.epochs} ended its "
                "training: raise it (--set base.epochs=...), or learn faster (base.learning_rate)"
            )
        self._commit_base(stored.model, {"source": source, "key": key, **stored.meta})

    def _train_base(self) -> StoredBase:
        config = self.config
        std, dtype = config.base.init_std, dtype_of(config)
        model = base_model(
            BACKBONES[config.backbone], config.dim, *self._rows_at(0), seed=config.seed, std=std, dtype=dtype
        )
        training = self._opened(model, update_of(config, self.stream, 0))
        model = self.trainer.train(training, "base", validate=self.judge.base_stopping())
        meta = {
            "steps": training.cursor.step,
            "epochs": training.cursor.pass_number,
            "best_mrr": training.cursor.best_mrr,
            "validations": training.cursor.validations,
            "optimizer_sha256": _optimizer_sha256(training),
        }
        return StoredBase(pack_model(model), meta)

    def _commit_base(self, packed: bytes, fields: dict[str, Any]) -> None:
        self._note_resumed(0, 0)
        model = model_from(packed, self.folder.path / update_name(0) / MODEL, self.config.backbone)
        self.log("base", **fields, row_norms=row_norms(model, model.n_entities))
        self.folder.commit_update(0, {MODEL: packed})

    def _update(self, number: int) -> None:
        """Grow, refine, evaluate and commit one update."""
        update, base = update_of(self.config, self.stream, number), self._committed(0)
        start = grown(self.config, self.stream, self._committed(number - 1), update, base)
        newcomers, rows = update.n_entities - update.n_old, rows_sha256(start, update)
        self.log("grown", update=number, newcomers=newcomers, rows_sha256=rows)
        term = self.control.term(number)
        if term.penalty is not None and term.coefficient:
            term.penalty.begin(start)
        training = self._opened(start, update, longest_rows(self.config, self.stream, update, base))
        if METHODS[self.config.method].kind == "transform" and self.resources.alone is not None:
            model = self.pair.run().model(number)
        else:
            stopping = self.judge.stopping(number)
            if stopping is None and self.judge.stops and not training.trains_nothing:
                told = (
                    f"update {number} has no validation facts to stop by, so it makes {UNJUDGED_STEPS} steps"
                )
                self.say(f"{told}, or refine.passes if that is less (--set refine.steps=... for others)")
            model = self.trainer.train(training, "update", term, stopping)
        self.watcher.phase("evaluate", number)
        found = self.control.results(update, model, self._committed, term)
        # Logged first: a run stopped in between says it twice rather than never.
        self.log(
            "updated",
            update=number,
            steps=training.cursor.step,
            validations=training.cursor.validations,
            kept_pass=training.cursor.kept_pass,
            optimizer_sha256=_optimizer_sha256(training),
            row_norms=row_norms(model, update.n_old),
        )
        self.folder.commit_update(number, {MODEL: pack_model(model), **found})

    def _opened(self, model: Model, update: Update, longest: Longest | None = None) -> Training:
        training = self.trainer.open(self.host, model, update, longest)
        self._note_resumed(update.number, training.cursor.step)
        return training

    def _committed(self, update: int) -> Model:
        name = f"{update_name(update)}/{MODEL}"
        return model_from(self.folder.files.read(name), self.folder.path / name, self.config.backbone)

    def _rows_at(self, update: int) -> tuple[int, int]:
        return self.stream.entity_counts[update], self.stream.relation_counts[update]

    def _note_resumed(self, update: int, step: int) -> None:
        if self._resumed:
            self._resumed = False
            self.log("resumed", update=update, step=step)


def _was_still_improving(meta: dict[str, Any], epochs: int) -> bool:
    """The limit ended base training, and its last validation was the best."""
    validations = meta.get("validations") or []
    return meta.get("epochs") == epochs and bool(validations) and validations[-1][1] == meta.get("best_mrr")


def _optimizer_sha256(training: Training) -> str:
    """So that two runs can be compared down to the optimizer, whose state a finished run does not keep."""
    return digest(pack_tensors(training.adam.state()))
