"""A training in progress, and all that is needed to go on with it to the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import Tensor

from meor.backbone.base import Backbone, Model
from meor.errors import RunError
from meor.training.adam import Adam
from meor.training.base import Host, Plan, Update
from meor.training.loss import Table


@dataclass(slots=True)
class Cursor:
    """Where a training stands. JSON-able, and floats survive the round trip."""

    update: int
    pass_number: int = 0
    batch: int = 0
    step: int = 0
    best_mrr: float | None = None
    stale: int = 0  # validations since the best one
    stopped: bool = False
    validations: list[tuple[int, float]] = field(default_factory=list)  # passes done, MRR

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
    backbone: Backbone
    entity: Table
    relation: Table
    adam: Adam
    cursor: Cursor
    best: dict[str, Tensor] = field(default_factory=dict)  # the trained rows of the best validation

    @classmethod
    def begin(cls, host: Host, model: Model, update: Update, plan: Plan) -> Training:
        """Open an update on a grown model (decision 20: a fresh Adam). The given model is left as it is."""
        _check_size(model, update)
        first_entity, first_relation = host.first_rows(update)
        entity = Table.of(model.entity.detach().clone(), first_entity)
        relation = Table.of(model.relation.detach().clone(), first_relation)
        host.begin(update, plan, model.backbone, entity, relation)
        adam = Adam(host.parameters(entity, relation), plan.learning_rate)
        return cls(host, model.backbone, entity, relation, adam, Cursor(update.number))

    @classmethod
    def restore(
        cls,
        host: Host,
        backbone: Backbone,
        update: Update,
        plan: Plan,
        *,
        tensors: Mapping[str, Tensor],
        cursor: Cursor,
    ) -> Training:
        """Go on from what `tensors()` and the cursor held."""
        if cursor.update != update.number:
            raise RunError(
                f"The cursor stands at update {cursor.update}, not {update.number}. Resume that one."
            )
        if not {"entity", "relation"} <= set(tensors):
            raise RunError("A checkpoint lacks its tables. Go back to the one before it.")
        training = cls.begin(host, Model(backbone, tensors["entity"], tensors["relation"]), update, plan)
        _check_tensors(training.tensors(), tensors)
        training.adam.load(_under(tensors, "adam."))
        training.best = {name: value.clone() for name, value in _under(tensors, "best.").items()}
        host.load(_under(tensors, "host."))
        training.cursor = cursor
        return training

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
