"""A base that was made elsewhere, in the stream's ids: arrays, or a model that PyKEEN saved."""

from __future__ import annotations

from pathlib import Path

from meor.backbone import Model
from meor.errors import ConfigError
from meor.evaluation.external import load_external
from meor.evaluation.pykeen_folder import MODEL as SAVED
from meor.evaluation.pykeen_folder import read_pykeen
from meor.run.config import Config
from meor.run.prepare import dtype_of
from meor.stream.snapshot import Stream


def given_base(config: Config, stream: Stream) -> Model:
    """Embeddings made elsewhere, in the stream's ids and the run's dtype."""
    files = config.base_model
    if files is None:
        raise ConfigError("no base embeddings were named", remedy="Name them with --base")
    entity, relation, vocabulary = (
        None if name is None else Path(name) for name in (files.entity, files.relation, files.vocabulary)
    )
    if entity is None:
        raise ConfigError("base_model.entity is missing", remedy="Name the entity rows")
    if entity.name == SAVED:
        model = saved_model(config, stream, entity.parent, through=0)
    else:
        layout = files.layout
        model = load_external(stream, config.backbone, entity, relation, vocabulary, through=0, layout=layout)
    dtype = dtype_of(config)
    return Model(model.backbone, model.entity.to(dtype), model.relation.to(dtype))


def saved_model(config: Config, stream: Stream, folder: Path, *, through: int) -> Model:
    """A model that PyKEEN saved, with a row for all that is admitted through an update."""
    saved = read_pykeen(folder)
    if saved.inverse is not None:
        raise ConfigError(
            f"{folder} holds a model with inverse relations, and updates train one row per relation",
            remedy="Audit it with `meor audit --pykeen`, or train it without create_inverse_triples",
        )
    if saved.backbone != config.backbone:
        raise ConfigError(
            f"{folder} holds {saved.backbone}, and the settings say {config.backbone}",
            remedy=f"Use --backbone {saved.backbone}",
        )
    return saved.on(stream, through)


def with_width(config: Config, model: Model) -> Config:
    """A given base decides `dim`; newcomers get rows of its width."""
    dim = model.entity.shape[1] // model.backbone.width(1)
    return config.model_copy(update={"dim": dim})
