"""THE training loop: base training and refinement are the same loop on different rows.

    training = Training.begin(Replay(), model, Update.of(stream, 1, buffer), plan)
    model = refine(training, plan)

A training that is stopped after any step goes on to the same bits from `tensors()` and its cursor: every
draw is addressed by pass and fact, so there is no generator to save.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol

import torch
from torch import Tensor

from meor.backbone.base import Backbone, Model
from meor.backbone.loss import Table
from meor.errors import NonFiniteError, RunError
from meor.host.adam import Adam
from meor.host.base import Host, Plan, Update
from meor.typing import Ids

OnStep = Callable[["Training", float], None]
OnPass = Callable[["Training", float | None], None]
Validate = Callable[[Model], float]


class PenaltyTerm(Protocol):
    """What is added to the host objective: a scalar over the given facts of the replay buffer.

    One that nothing activates returns a 0 without a graph: then every gradient has the bits of replay.
    """

    def __call__(self, entity: Table, relation: Table, replay: Ids, /) -> Tensor | float: ...


def no_penalty(entity: Table, relation: Table, replay: Ids, /) -> float:
    return 0.0


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
                f"A training cursor has the fields {sorted(values)}. Resume with the version of it."
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
        adam = Adam({"entity": entity.trained, "relation": relation.trained}, plan.learning_rate)
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
        missing = {"entity", "relation", "adam.steps"} - set(tensors)
        if missing:
            raise RunError(f"A checkpoint lacks {sorted(missing)}. Go back to the one before it.")
        model = Model(backbone, tensors["entity"], tensors["relation"])
        training = cls.begin(host, model, update, plan)
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
        return not (self.entity.trained.numel() or self.relation.trained.numel())


def refine(
    training: Training,
    plan: Plan,
    *,
    penalty: PenaltyTerm | None = None,
    coefficient: float = 0.0,
    validate: Validate | None = None,
    on_step: OnStep | None = None,
    on_pass: OnPass | None = None,
) -> Model:
    """Train to the end of the plan, from wherever the cursor stands, and return the final model.

    `on_step(training, loss)` comes after each step and `on_pass(training, mrr)` after each pass; either
    may save. With `validate`, every `plan.validate_every` passes its MRR decides about stopping, and the
    best weights are the final ones.
    """
    host, adam, cursor = training.host, training.adam, training.cursor
    term = penalty if penalty is not None and coefficient else no_penalty

    while not (cursor.stopped or cursor.pass_number >= plan.passes or training.trains_nothing):
        steps = host.steps(cursor.pass_number)

        while cursor.batch < len(steps):
            step = steps[cursor.batch]
            loss = host.loss(step.batch) + coefficient * term(training.entity, training.relation, step.replay)
            value = _finite(loss, cursor, len(steps))
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            host.stepped()
            cursor.batch += 1
            cursor.step += 1
            if on_step is not None:
                on_step(training, value)

        cursor.pass_number += 1
        cursor.batch = 0
        mrr = None
        if validate is not None and _validation_is_due(cursor.pass_number, plan):
            mrr = validate(training.model)
            _judge(training, mrr, plan.patience)
        if on_pass is not None:
            on_pass(training, mrr)

    _restore_best(training)
    host.end()
    return _final(training)


def _finite(loss: Tensor, cursor: Cursor, batches: int) -> float:
    value = loss.item()
    if not math.isfinite(value):
        raise NonFiniteError(
            f"The loss is {value} at update {cursor.update}, pass {cursor.pass_number + 1}, "
            f"batch {cursor.batch + 1} of {batches}; no step was made. "
            "Lower the learning rate or the coefficient."
        )
    return value


def _validation_is_due(passes_done: int, plan: Plan) -> bool:
    """Every `validate_every` passes, and at the last one, whose weights would else never be judged."""
    return plan.validate_every > 0 and (passes_done % plan.validate_every == 0 or passes_done == plan.passes)


def _judge(training: Training, mrr: float, patience: int) -> None:
    """Keep the weights of a new best; stop after `patience` validations without one (decision 15)."""
    cursor = training.cursor
    if not math.isfinite(mrr):
        raise NonFiniteError(
            f"The validation MRR is {mrr} after pass {cursor.pass_number}. Look at the weights."
        )
    cursor.validations.append((cursor.pass_number, mrr))
    if cursor.best_mrr is None or mrr > cursor.best_mrr:
        cursor.best_mrr, cursor.stale = mrr, 0
        training.best = {
            name: value.detach().clone() for name, value in training.adam.parameters.items() if value.numel()
        }
    else:
        cursor.stale += 1
        cursor.stopped = cursor.stale >= patience


def _restore_best(training: Training) -> None:
    for name, value in training.best.items():
        training.adam.parameters[name].data.copy_(value)


def _final(training: Training) -> Model:
    model = training.model
    for name, table in (("entity", model.entity), ("relation", model.relation)):
        if not bool(torch.isfinite(table).all()):
            raise NonFiniteError(
                f"An {name} row is not finite after update {training.cursor.update}. Lower the learning rate."
            )
    return model


def _check_size(model: Model, update: Update) -> None:
    if (model.n_entities, model.n_relations) != (update.n_entities, update.m_relations):
        raise RunError(
            f"The model has {model.n_entities} entities and {model.n_relations} relations, update "
            f"{update.number} has {update.n_entities} and {update.m_relations}. Grow the model first."
        )


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
