"""A training in progress, and all that is needed to go on with it to the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from torch import Tensor

from meor.backbone.base import Backbone, Model
from meor.errors import RunError
from meor.training.adam import Adam, Longest
from meor.training.host import Host, Update
from meor.training.loss import Embedding


@dataclass(slots=True)
class Cursor:
    """Where a training stands. JSON-able, and floats survive the round trip."""

    update: int
    stage: int = 0
    pass_number: int = 0  # of the stage
    batch: int = 0
    step: int = 0  # of the update
    best_mrr: float | None = None
    stale: int = 0  # validations since the best one
    stopped: bool = False
    validations: list[tuple[int, float]] = field(default_factory=list)  # passes done in a stage, MRR

    @property
    def kept_pass(self) -> int:
        """The pass whose rows are the final ones: that of the best validation, or the last one."""
        best = (passes for passes, mrr in self.validations if mrr == self.best_mrr)
        return next(best, self.pass_number)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Cursor:
        if set(values) != {one.name for one in fields(cls)}:
            raise RunError(
                f"A training cursor has the fields {sorted(values)}. Resume with the version that wrote it."
            )
        seen = [(int(passes), float(mrr)) for passes, mrr in values["validations"]]
        return cls(**{**values, "validations": seen})


@dataclass(slots=True)
class Training:
    """All that a stopped training needs: tables, optimizer, best weights so far, and where it stands."""

    host: Host
    update: Update
    backbone: Backbone
    entity: Embedding
    relation: Embedding
    adam: Adam
    cursor: Cursor
    longest: Longest | None = None  # how long the rows of newcomers may become
    best: dict[str, Tensor] = field(default_factory=dict)  # the trained rows of the best validation

    @classmethod
    def begin(cls, host: Host, model: Model, update: Update, longest: Longest | None = None) -> Training:
        """Open an update on a grown model. The given model is left as it is."""
        _check_size(model, update)
        copy = Model(model.backbone, model.entity.detach().clone(), model.relation.detach().clone())
        host.recall(model.kept)
        return cls._open(host, copy, update, Cursor(update.number), longest)

    @classmethod
    def restore(
        cls,
        host: Host,
        backbone: Backbone,
        update: Update,
        *,
        tensors: Mapping[str, Tensor],
        cursor: Cursor,
        longest: Longest | None = None,
    ) -> Training:
        """Go on from what `tensors()` and the cursor held."""
        if cursor.update != update.number:
            raise RunError(
                f"The cursor stands at update {cursor.update}, not {update.number}. Resume that one."
            )
        if not {"entity", "relation"} <= set(tensors):
            raise RunError("A checkpoint lacks its tables. Go back to the one before it.")
        model = Model(backbone, tensors["entity"].clone(), tensors["relation"].clone())
        _check_size(model, update)
        training = cls._open(host, model, update, cursor, longest)
        _check_tensors(training.tensors(), tensors)
        training.adam.load(_under(tensors, "adam."))
        training.best = {name: value.clone() for name, value in _under(tensors, "best.").items()}
        host.load(_under(tensors, "host."))
        return training

    @classmethod
    def _open(
        cls, host: Host, model: Model, update: Update, cursor: Cursor, longest: Longest | None
    ) -> Training:
        """A stage's tables, and a fresh Adam (decision 20)."""
        stage = list(host.stages(update))[cursor.stage]
        entity = Embedding.of(model.entity, stage.entity_from)
        relation = Embedding.of(model.relation, stage.relation_from)
        host.begin(update, stage, model.backbone, entity, relation)
        capped = {} if longest is None else {"entity": _of_trained_rows(longest, entity)}
        adam = Adam(host.parameters(entity, relation), stage.plan.learning_rate, longest=capped)
        return cls(host, update, model.backbone, entity, relation, adam, cursor, longest)

    def open_next_stage(self) -> bool:
        """Go on to the stage after this one, on the same rows; False after the last one."""
        cursor = self.cursor
        if cursor.stage + 1 == len(list(self.host.stages(self.update))):
            return False
        onward = Cursor(cursor.update, cursor.stage + 1, step=cursor.step, validations=cursor.validations)
        opened = self._open(self.host, self.model, self.update, onward, self.longest)
        self.entity, self.relation, self.adam = opened.entity, opened.relation, opened.adam
        self.cursor, self.best = onward, {}
        return True

    def tensors(self) -> dict[str, Tensor]:
        """The live tensors of a checkpoint: copy or write them before the next step."""
        return {
            "entity": self.entity.data,
            "relation": self.relation.data,
            **{f"adam.{name}": value for name, value in self.adam.state().items()},
            **{f"best.{name}": value for name, value in self.best.items()},
            **{f"host.{name}": value for name, value in self.host.tensors().items()},
        }

    @property
    def model(self) -> Model:
        """The present weights; they move with the next step."""
        return Model(self.backbone, self.entity.data, self.relation.data)

    @property
    def trains_nothing(self) -> bool:
        """No newcomer and no new relation, and a host that leaves the rest alone."""
        return not any(value.numel() for value in self.adam.parameters.values())


def _of_trained_rows(newcomers: Longest, entity: Embedding) -> Longest:
    """Newcomers are the last rows; others that a host trains are free."""
    norm = np.full(len(entity.trained), np.inf)
    norm[len(norm) - len(newcomers.norm) :] = newcomers.norm
    return Longest(norm, newcomers.fixed)


def _check_size(model: Model, update: Update) -> None:
    if (model.n_entities, model.n_relations) != (update.n_entities, update.m_relations):
        raise RunError(
            f"The model has {model.n_entities} entities and {model.n_relations} relations, update "
            f"{update.number} has {update.n_entities} and {update.m_relations}. Grow the model first."
        )


def _check_tensors(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    for name, value in expected.items():
        found = given.get(name)
        if found is None or (found.shape, found.dtype) != (value.shape, value.dtype):
            what = "missing" if found is None else f"{found.dtype} {tuple(found.shape)}"
            raise RunError(
                f"A checkpoint's {name} is {what}, not {value.dtype} {tuple(value.shape)}. "
                "Go back to the one before it."
            )


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
