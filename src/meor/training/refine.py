"""THE training loop: base training and refinement are the same loop on different rows.

    model = refine(Training.begin(Replay(plan), model, Update.of(stream, 1, buffer)))

A training that is stopped after any step goes on to the same bits from `tensors()` and its cursor: every
draw is addressed by pass and fact, so there is no generator to save.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from meor.backbone.base import Model
from meor.errors import NonFiniteError
from meor.training.host import Plan, Step
from meor.training.loss import PLAIN, Aim, Embedding
from meor.training.training import Cursor, Training
from meor.typing import Ids

__all__ = ["Cursor", "PenaltyTerm", "Training", "refine"]

UNJUDGED_STEPS = 300
"""Steps of an update that was to stop by itself, where there are no validation facts to stop it by."""

OnStep = Callable[[Training, float], None]
OnPass = Callable[[Training, float | None], None]
Validate = Callable[[Model], float]


class PenaltyTerm(Protocol):
    """What is added to the host objective: a scalar over the given facts of the replay buffer.

    Where nothing is active it returns a 0 without a graph: gradients then have the bits of the host alone.
    """

    def __call__(self, entity: Embedding, relation: Embedding, replay: Ids, /) -> Tensor | float: ...


def refine(
    training: Training,
    *,
    penalty: PenaltyTerm | None = None,
    coefficient: float = 0.0,
    aim: Aim = PLAIN,
    validate: Validate | None = None,
    on_step: OnStep | None = None,
    on_pass: OnPass | None = None,
) -> Model:
    """Train all stages to their end, from wherever the cursor stands, and return the final model.

    `on_step(training, loss)` comes after each step and `on_pass(training, mrr)` after each pass; either
    may save. `aim` is asked of facts while a penalty acts. `validate` gives an MRR as often as the plan of a
    stage says; training stops when it no longer improves, and the best weights become the final ones.
    """
    term = penalty if coefficient else None
    if not training.cursor.step:
        training.host.start()

    def make(step: Step, batches: int) -> float:
        if term is not None:
            step = replace(step, batch=replace(step.batch, aim=aim))
        return _step(training, step, batches, term, coefficient)

    while True:
        _train_stage(training, make, validate, on_step, on_pass)
        _restore_best(training)
        training.host.end()
        if not training.open_next_stage():
            return _final(training)


def _train_stage(
    training: Training,
    make: Callable[[Step, int], float],
    validate: Validate | None,
    on_step: OnStep | None,
    on_pass: OnPass | None,
) -> None:
    host, cursor, plan = training.host, training.cursor, training.host.stage.plan
    passes = _passes(plan, len(training.update.train), judged=validate is not None)

    while not (cursor.stopped or cursor.pass_number >= passes or training.trains_nothing):
        steps = host.steps(cursor.pass_number)

        while cursor.batch < len(steps):
            value = make(steps[cursor.batch], len(steps))
            host.stepped()
            cursor.batch += 1
            cursor.step += 1
            if on_step is not None:
                on_step(training, value)

        cursor.pass_number += 1
        cursor.batch = 0
        mrr = None
        if validate is not None and _validation_is_due(cursor.pass_number, len(steps), plan):
            mrr = validate(training.model)
            _judge(training, mrr, plan)
        if on_pass is not None:
            on_pass(training, mrr)


def _step(
    training: Training, step: Step, batches: int, penalty: PenaltyTerm | None, coefficient: float
) -> float:
    """One step of the optimizer; returns the loss before it. A penalty is added by autograd.

    A loss that is not finite stops the training: before the step, or right after one that was made by rows,
    which give value and gradient together. Nothing saves the rows in between.
    """
    host, adam, cursor = training.host, training.adam, training.cursor
    rows = host.by_rows(step.batch) if penalty is None else None
    adam.zero_grad()
    if rows is not None:
        adam.step(rows.parts())
        return _finite(rows.value, cursor, batches)
    loss = host.loss(step.batch)
    if penalty is not None:
        loss = loss + coefficient * penalty(training.entity, training.relation, step.replay)
    value = _finite(loss.item(), cursor, batches)
    loss.backward()  # type: ignore[no-untyped-call]
    adam.step()
    return value


def _passes(plan: Plan, facts: int, *, judged: bool) -> int:
    """The most passes of a stage: few where it was to stop by itself and nothing can judge it."""
    if judged or not plan.validate_steps:
        return plan.passes
    return min(plan.passes, plan.passes_for(UNJUDGED_STEPS, facts))


def _finite(value: float, cursor: Cursor, batches: int) -> float:
    if not math.isfinite(value):
        raise NonFiniteError(
            f"The loss is {value} at update {cursor.update}, pass {cursor.pass_number + 1}, "
            f"batch {cursor.batch + 1} of {batches}. "
            "Lower the learning rate or the coefficient."
        )
    return value


def _validation_is_due(passes_done: int, steps_per_pass: int, plan: Plan) -> bool:
    """Every so many passes or steps, and after the last pass: otherwise its weights would never be judged."""
    if not (plan.validate_every or plan.validate_steps):
        return False
    if plan.validate_every:
        due = passes_done % plan.validate_every == 0
    else:
        now, before = (
            passes * steps_per_pass // plan.validate_steps for passes in (passes_done, passes_done - 1)
        )
        due = now > before
    return due or passes_done == plan.passes


def _judge(training: Training, mrr: float, plan: Plan) -> None:
    """Keep the weights of a new best; stop after `patience` validations without one (decision 15)."""
    cursor = training.cursor
    if not math.isfinite(mrr):
        raise NonFiniteError(
            f"The validation MRR is {mrr} after pass {cursor.pass_number}. Look at the weights."
        )
    cursor.validations.append((cursor.pass_number, mrr))
    if cursor.best_mrr is None or mrr > cursor.best_mrr * (1.0 + plan.tolerance):
        cursor.best_mrr, cursor.stale = mrr, 0
        training.best = {
            name: value.detach().clone() for name, value in training.adam.parameters.items() if value.numel()
        }
    else:
        cursor.stale += 1
        enough = cursor.pass_number >= plan.least_passes and cursor.step >= plan.least_steps
        cursor.stopped = cursor.stale >= plan.patience and enough


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
    model.kept = training.host.kept()
    return model
