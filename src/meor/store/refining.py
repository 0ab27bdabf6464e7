"""The next model of a store: newcomers get rows, and the store's host and method train them.

It is the update that a run with the same settings, seed and stream would make, to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from meor.backbone import Model
from meor.methods import METHODS
from meor.methods.penalty import Penalty
from meor.run.control import aim_of, balanced, penalty_of
from meor.run.prepare import grown, host_of, longest_rows, unlearned, update_of
from meor.run.stopping import UpdateScore
from meor.run.trainer import Watcher
from meor.store.version import Content
from meor.stream.snapshot import Stream
from meor.training.refine import Validate, refine
from meor.training.training import Training
from meor.typing import Split


@dataclass(frozen=True, slots=True)
class Refined:
    model: Model
    coefficient: float | None  # decided by now, for later admissions too
    steps: int
    unlearned: int  # facts whose rows the host leaves as they are
    moves_old_rows: bool


def refined(content: Content, stream: Stream, *, memory: int, watcher: Watcher) -> Refined:
    """`stream` is the graph of the store with the batch as its last snapshot."""
    config, number = content.config, len(stream.snapshots) - 1
    host, update = host_of(config), update_of(config, stream, number)
    start = grown(config, stream, content.model, update, content.base)
    longest = longest_rows(config, stream, update, content.base)
    first = host.first_rows(update)
    frozen = first == (update.n_old, update.m_old)
    stopping = _stopping(content, stream, number, memory, frozen)

    def train(phase: str, penalty: Penalty | None = None, coefficient: float = 0.0) -> tuple[Model, int]:
        training = Training.begin(host_of(config), start, update, longest)
        _announce(training, phase, watcher)
        model = refine(
            training,
            penalty=penalty,
            coefficient=coefficient,
            aim=aim_of(config, stream, number),
            validate=stopping,
            on_step=lambda now, loss: watcher.step(now.cursor.step, loss),
        )
        return model, training.cursor.step

    coefficient = config.coefficient if content.coefficient is None else content.coefficient
    if METHODS[config.method].kind != "penalty" or update.n_entities == update.n_old:
        model, steps = train("update")
    else:
        penalty = penalty_of(config, stream, number)
        if coefficient is None:
            model, steps = train("balance")
            plain = model
            found = balanced(config, stream, number, lambda _: plain, penalty)
            watcher.say(found.describe())
            coefficient = None if found.is_inactive else found.coefficient
        if coefficient is not None:
            penalty.begin(start)
            penalty.beside = True
            acts = number >= config.coefficient_from
            model, steps = train("update", penalty, coefficient if acts else 0.0)
    return Refined(model, coefficient, steps, unlearned(update, host), not frozen)


def _stopping(content: Content, stream: Stream, number: int, memory: int, frozen: bool) -> Validate | None:
    """What ends the training early, where the settings ask for it and validation facts allow it."""
    config = content.config
    if not config.refine.validate_steps:
        return None
    chosen = tuple(Split(name) for name in config.evaluation.selection_filter)
    score = UpdateScore(stream, number, chosen, memory, frozen)
    return score if score.can_judge else None


def _announce(training: Training, phase: str, watcher: Watcher) -> None:
    passes = sum(stage.plan.passes for stage in training.host.stages(training.update))
    watcher.phase(phase, training.update.number, total=passes * len(training.host.steps(0)))
