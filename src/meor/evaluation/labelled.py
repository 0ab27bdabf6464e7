"""Embeddings that bring their labels: rows of a model made elsewhere, waiting for the ids of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from meor.backbone import BACKBONES, Model
from meor.backbone.base import ScoreFunction
from meor.errors import ModelError
from meor.stream.snapshot import Stream, Vocabulary
from meor.typing import Ids, Side

Array = NDArray[Any]


@dataclass(slots=True)
class Reciprocal(Model):
    """A model whose head queries are tail queries of inverse relations: rows m.. of `relation`."""

    @property
    def n_relations(self) -> int:
        return self.relation.shape[0] // 2

    def _asked(self, anchor: Ids, relation: Ids, side: Side | str) -> tuple[Tensor, Tensor, Side]:
        inverse = self.n_relations if Side.of(side) is Side.HEAD else 0
        return Model._asked(self, anchor, relation + inverse, Side.TAIL)


@dataclass(frozen=True, slots=True)
class Labelled:
    """Rows and whose they are. `meor.audit` and `meor.rank_update` take it in place of a model."""

    backbone: str
    entity: Array  # [n, W] as `backbone` reads them: ComplEx and RotatE by halves
    relation: Array  # [m, W]
    entities: Sequence[str]  # [n] labels
    relations: Sequence[str]  # [m]
    inverse: Array | None = None  # [m, W] rows of inverse relations, which answer head queries
    source: str = "the model"

    def __repr__(self) -> str:
        more = " and as many inverse ones" if self.inverse is not None else ""
        return f"{self.backbone} of {len(self.entity):,} entities and {len(self.relation):,} relations{more}"

    def on(self, stream: Stream, through: int) -> Model:
        """The model in the ids of a stream, float64, with a row for all that is admitted through an update.

        Rows of labels that the stream does not have are left out: they could be no candidates.
        """
        order = row_order(self.source, self.entities, self.relations, stream, through)
        entity, relation = _wide(self.entity, order[0]), _wide(self.relation, order[1])
        for kind, rows in (("entity", entity), ("relation", relation)):
            broken = torch.nonzero(~torch.isfinite(rows).all(1))
            if len(broken):
                raise ModelError(
                    f"{self.source}: {len(broken)} {kind} rows hold NaN or infinity",
                    remedy="Train the model again; they cannot be ranked",
                )
        if self.inverse is None:
            return Model(BACKBONES[self.backbone], entity, relation)
        both = torch.cat([relation, _wide(self.inverse, order[1])])
        return Reciprocal(BACKBONES[self.backbone], entity, both)


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """A score function in ids of its own, with the labels behind them."""

    score: ScoreFunction
    entities: Sequence[str]
    relations: Sequence[str]
    source: str = "the model"

    def on(self, stream: Stream, through: int) -> Model:
        entity, relation = row_order(self.source, self.entities, self.relations, stream, through)

        def in_ids(anchor: Ids, of: Ids, side: Side, candidates: Ids) -> Any:
            return self.score(entity[anchor], relation[of], side, entity[candidates])

        return Model.of_function(in_ids, len(entity), len(relation))


def row_order(
    source: str, entities: Sequence[str], relations: Sequence[str], stream: Stream, through: int
) -> tuple[Ids, Ids]:
    """The rows of all entities and of all relations that a stream admits through an update, by labels."""
    return (
        _order(source, "entity", entities, stream.entities, stream.entity_counts[through]),
        _order(source, "relation", relations, stream.relations, stream.relation_counts[through]),
    )


def _order(source: str, kind: str, labels: Sequence[str], known: Vocabulary, needed: int) -> Ids:
    """The row of each id."""
    row_of = {label: row for row, label in enumerate(labels)}
    missing = [id for id in range(needed) if known.label(id) not in row_of]
    if missing:
        raise ModelError(
            f"{source} has no row for {len(missing)} of {needed} {kind} labels of the stream, the first "
            f"being {known.label(missing[0])!r}",
            remedy="Every label that the stream admits through the asked updates needs a row; "
            "ask for earlier updates, or name the stream that the model was trained on",
        )
    return np.array([row_of[known.label(id)] for id in range(needed)], np.int64)


def _wide(rows: Array, order: Ids) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows[order], dtype=np.float64))


def halves(interleaved: Array) -> Array:
    """Real half and imaginary half of rows that hold re, im, re, im, ..."""
    return np.concatenate([interleaved[:, 0::2], interleaved[:, 1::2]], axis=1)


class _Named(Protocol):
    """A model that brings labels of its own (`evaluation.labelled`)."""

    def on(self, stream: Stream, through: int) -> Model: ...


Rateable = Model | ScoreFunction | _Named
"""What can be ranked."""


def as_model(stream: Stream, given: Rateable, through: int) -> Model:
    """In the ids of the stream, with a row for all that is admitted through an update."""
    if isinstance(given, Model):
        return given
    if callable(given):
        return Model.of_function(given, len(stream.entities), len(stream.relations))
    return given.on(stream, through)
