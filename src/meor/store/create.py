"""The first version of a store: from a run, from facts that are trained now, or from given embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from meor.backbone import BACKBONES, Model
from meor.errors import ConfigError, StoreError
from meor.evaluation.endpoints import measure
from meor.evaluation.external import load_external
from meor.evaluation.pykeen_folder import is_pykeen
from meor.evaluation.rank import Rules, rank_update
from meor.methods import METHODS
from meor.run.config import Config
from meor.run.control import CONTROL
from meor.run.given_base import saved_model, with_width
from meor.run.layout import ENDPOINTS
from meor.run.prepare import dtype_of, host_of, update_of
from meor.run.trainer import Watcher
from meor.run.view import RunView
from meor.store.graph import through
from meor.store.settings import GateSettings
from meor.store.version import Content
from meor.stream.files import name_of, read_facts, split_up
from meor.stream.snapshot import Stream
from meor.stream.validation import assemble
from meor.training.initialise import base_model
from meor.training.refine import refine
from meor.training.training import Training
from meor.typing import Split


def content_of_run(
    run: Path, gate: GateSettings, *, update: int | None = None, data_dir: Path | None = None
) -> Content:
    """The model of a run after its last committed update, or after a chosen one."""
    view = RunView.open(run)
    check_method(view.config)
    if not view.updates:
        raise StoreError(f"{run} has no model yet. Go on with `meor resume {run}`.")
    chosen = view.updates[-1] if update is None else update
    if chosen not in view.updates:
        raise StoreError(f"{run} has no update {chosen}; it has {view.updates[0]} to {view.updates[-1]}.")
    stream = through(view.stream(data_dir), chosen)
    coefficient = _coefficient(view, chosen)
    return Content(stream, view.model(chosen), view.model(0), view.config, gate, coefficient)


def _coefficient(view: RunView, update: int) -> float | None:
    """What the run's penalty was multiplied with by then; None where that was not decided."""
    if view.config.coefficient is not None:
        return float(view.config.coefficient)
    told: dict[str, Any] = view.endpoints().get(CONTROL, {}) if view.has(ENDPOINTS) else {}
    first = told.get("first_update")
    return float(told["coefficient"]) if first is not None and first <= update else None


def check_method(config: Config) -> None:
    if METHODS[config.method].kind == "transform":
        raise ConfigError(
            f"{config.method} changes scores after training, and a store answers with the model alone",
            remedy="Choose another method",
        )


def content_of_facts(
    path: Path, config: Config, gate: GateSettings, *, watcher: Watcher | None = None
) -> Content:
    """A model trained on the facts of one file. Its `split` column, if it has one, says what is held out."""
    check_method(config)
    watcher = watcher or Watcher()
    table = read_facts(path, columns=config.columns)
    if not table.facts:
        raise table.origin.error("the file holds no fact", "Add facts")
    parts = split_up(table, [0] * len(table.facts))
    stream, changes = assemble(name_of(path), parts, config.duplicates, config.unseen)
    for change in changes:
        watcher.say(str(change))
    model = _trained(config, stream, watcher)
    return Content(stream, model, model, config, gate, config.coefficient)


def _trained(config: Config, stream: Stream, watcher: Watcher) -> Model:
    start = base_model(
        BACKBONES[config.backbone],
        config.dim,
        stream.entity_counts[0],
        stream.relation_counts[0],
        seed=config.seed,
        std=config.base.init_std,
        dtype=dtype_of(config),
    )
    host = host_of(config)
    training = Training.begin(host, start, update_of(config, stream, 0))
    passes, steps = config.base.epochs, len(host.steps(0))
    watcher.phase("base", 0, total=passes * steps)
    chosen = Rules(filter_splits=tuple(Split(name) for name in config.evaluation.selection_filter))

    def validation_mrr(model: Model) -> float:
        ranks = rank_update(stream, model, 0, split=Split.VALID, rules=chosen)
        return measure(np.concatenate([each.cur for each in ranks]))

    return refine(
        training,
        validate=validation_mrr if len(stream.snapshots[0].valid) else None,
        on_step=lambda now, loss: watcher.step(now.cursor.step, loss),
    )


def content_of_embeddings(
    stream: Stream,
    config: Config,
    gate: GateSettings,
    entity: Path,
    relation: Path | None = None,
    vocabulary: Path | None = None,
) -> Content:
    """Embeddings made elsewhere, of everything a stream admits; they decide the width.

    `entity` may be a folder that PyKEEN saved, which brings its relations and labels.
    """
    check_method(config)
    last = len(stream.snapshots) - 1
    if is_pykeen(entity):
        model = saved_model(config, stream, entity, through=last)
    else:
        model = load_external(stream, config.backbone, entity, relation, vocabulary, through=last)
    model = Model(model.backbone, model.entity.to(dtype_of(config)), model.relation.to(dtype_of(config)))
    rows = stream.entity_counts[0], stream.relation_counts[0]
    base = Model(model.backbone, model.entity[: rows[0]], model.relation[: rows[1]])
    return Content(stream, model, base, with_width(config, model), gate, config.coefficient)
