"""Rows before training (decision 12). Addressed by run and update, the same for every method.

How a newcomer starts decides how much it interferes:

- `base`: the distribution of the base initialisation.
- `matched`: normal, with the standard deviation of the coordinates of the trained base rows.
- `neighbours`: the mean, over its facts with an old partner and an old relation, of the position that
  partner predicts: h + r as tail and t - r as head for TransE. A backbone that scores by inner product
  predicts a direction, not a position: there it is the partner's query row as it stands.
- `schema`: the mean of its classes' mean rows, plus noise of its classes' spread, where classes are given.

Whoever has no old partner or no known class keeps the base draw, as relations do under the last two. "Old"
is whoever snapshot 0 knows: rows of the base are the same for every method of a pair, those of earlier
newcomers are each method's own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Backbone, Model
from meor.errors import ConfigError
from meor.random import generator
from meor.training.draws import one_of
from meor.training.host import Update
from meor.typing import SIDES, Floats, Ids

BASE_STD = 0.05
FACT_BLOCK = 8192  # facts whose query rows are held at once

Spread = float | Literal["xavier"]
Scheme = Literal["base", "matched", "neighbours", "schema"]
Classes = Mapping[int, Sequence[str]]
"""The classes of an entity, by id."""


def base_model(
    backbone: Backbone,
    dim: int,
    n_entities: int,
    n_relations: int,
    *,
    seed: int,
    std: Spread = BASE_STD,
    dtype: torch.dtype = torch.float64,
) -> Model:
    """Rows before base training: normal, `std` for each real coordinate."""
    width = backbone.width(dim)
    columns = backbone.relation_columns(width)
    spread = spreads(std, width, n_entities, n_relations * columns // width)
    entity = spread[0] * _normal(seed, 0, "entity", n_entities, width)
    relation = spread[1] * _normal(seed, 0, "relation", n_relations, columns)
    return Model(backbone, torch.from_numpy(entity).to(dtype), torch.from_numpy(relation).to(dtype))


def spreads(std: Spread, width: int, *vectors: int) -> list[float]:
    """The standard deviation of each table, of so many vectors.

    `xavier` is sqrt(2 / (vectors + width)) of the whole table: the larger it grows, the shorter new rows are.
    """
    return [math.sqrt(2 / (count + width)) if std == "xavier" else float(std) for count in vectors]


def grow(
    model: Model,
    update: Update,
    *,
    seed: int,
    scheme: Scheme = "base",
    std: Spread = BASE_STD,
    base: Model | None = None,
    classes: Classes | None = None,
    noise: float = 0.1,
) -> Model:
    """The model with rows for what `update` admits; old rows are copied bit for bit.

    `base` is the model of snapshot 0, whose rows every scheme but `base` reads. Before update 1 that is the
    model itself.
    """
    one_of("scheme", scheme, Scheme)
    base = _base_of(model, update, scheme, base)
    width, columns = model.entity.shape[1], model.relation.shape[1]
    of_entities, of_relations = spreads(std, width, update.n_entities, update.m_relations * columns // width)
    entity = _normal(seed, update.number, "entity", update.n_entities - model.n_entities, width)
    relation = _normal(seed, update.number, "relation", update.m_relations - model.n_relations, columns)
    if scheme == "matched":
        spread = _std(base.entity, of_entities), _std(base.relation, of_relations)
        return _grown(model, spread[0] * entity, spread[1] * relation)
    rows = of_entities * entity
    if scheme == "neighbours":
        _move_to_neighbours(rows, base, update)
    elif scheme == "schema":
        if classes is None:
            raise ConfigError(
                "newcomers are to start from their classes, but no classes were given",
                remedy="Give the classes of the entities, or use base, matched or neighbours",
            )
        _move_to_classes(rows, base, update.n_old, classes, noise * entity)
    return _grown(model, rows, of_relations * relation)


def rows_sha256(grown: Model, update: Update) -> str:
    """What the runs of a pair must agree on: the initial rows of what an update admits."""
    found = hashlib.sha256()
    for table in (grown.entity[update.n_old :], grown.relation[update.m_old :]):
        found.update(repr(tuple(table.shape)).encode())
        found.update(np.ascontiguousarray(table.detach().cpu().numpy()).tobytes())
    return found.hexdigest()


def row_norms(model: Model, first_new: int) -> dict[str, float]:
    """Statistics of entity row norms for the run's log: how newcomers compare with old rows."""
    norm = torch.linalg.vector_norm(model.entity, dim=1).double().cpu().numpy()
    return {
        f"{group}_{name}": float(statistic(part))
        for group, part in (("old", norm[:first_new]), ("new", norm[first_new:]))
        if len(part)
        for name, statistic in (("mean", np.mean), ("std", np.std), ("min", np.min), ("max", np.max))
    }


def _normal(seed: int, update: int, kind: str, count: int, width: int) -> Floats:
    """Standard normal rows. Drawn in float64, so that models of every dtype start from the same draw."""
    return generator("initialise", seed, update, kind).standard_normal((count, width))


def _base_of(model: Model, update: Update, scheme: Scheme, base: Model | None) -> Model:
    if base is None and update.number > 1 and scheme != "base":
        raise ConfigError(
            f"newcomers of update {update.number} are to start by the scheme {scheme}, but the model of "
            "snapshot 0 was not given",
            remedy="Give it as `base`: rows of earlier newcomers are not shared by the methods of a pair",
        )
    return model if base is None else base


def _grown(model: Model, entity: Floats, relation: Floats) -> Model:
    return model.grow(torch.from_numpy(entity), torch.from_numpy(relation))


def _std(table: Tensor, default: float) -> float:
    return float(np.std(table.detach().double().cpu().numpy())) if table.numel() else default


def _move_to_neighbours(rows: Floats, base: Model, update: Update) -> None:
    total, count = np.zeros_like(rows), np.zeros(len(rows), dtype=np.int64)
    for newcomer, predicted in _predictions(base, update):
        np.add.at(total, newcomer, predicted)  # one after another: no sum depends on threads
        np.add.at(count, newcomer, 1)
    placed = count > 0
    rows[placed] = total[placed] / count[placed, None]


def _predictions(base: Model, update: Update) -> Iterator[tuple[Ids, Floats]]:
    """Newcomer numbers (0 is the first) and the rows that partners of snapshot 0 predict for them."""
    train = update.train
    for side in SIDES:
        answer, anchor = train[:, side.answer_column], train[:, side.anchor_column]
        usable = (answer >= update.n_old) & (anchor < base.n_entities) & (train[:, 1] < base.n_relations)
        facts = train[usable]
        for begin in range(0, len(facts), FACT_BLOCK):
            block = facts[begin : begin + FACT_BLOCK]
            query = base.query_array(block[:, side.anchor_column], block[:, 1], side)
            predicted = base.backbone.position(query)
            if predicted.shape[1] != base.entity.shape[1]:
                raise ConfigError(
                    f"a query row of {base.backbone.name} is no position of a newcomer: it has another width",
                    remedy="Choose base or matched for refine.newcomer_init",
                )
            yield block[:, side.answer_column] - update.n_old, predicted.astype(np.float64)


def _move_to_classes(rows: Floats, base: Model, n_old: int, classes: Classes, noise: Floats) -> None:
    old = base.entity.detach().double().cpu().numpy()
    members: dict[str, list[int]] = {}
    for id in range(len(old)):
        for name in classes.get(id, ()):
            members.setdefault(name, []).append(id)
    mean = {name: old[ids].mean(0) for name, ids in members.items()}
    spread = {name: old[ids].std(0) for name, ids in members.items()}
    for number in range(len(rows)):
        known = [name for name in classes.get(n_old + number, ()) if name in members]
        if known:
            centre = np.mean([mean[name] for name in known], axis=0)
            rows[number] = centre + noise[number] * np.mean([spread[name] for name in known], axis=0)
