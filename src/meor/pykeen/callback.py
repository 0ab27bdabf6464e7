"""The penalty in PyKEEN's training loop: every model, every penalty of the registry, by autograd."""

from __future__ import annotations

from typing import Any

import torch
from pykeen.training.callbacks import TrainingCallback
from torch import Tensor

from meor.errors import ConfigError, InputError
from meor.evaluation.labelled import row_order
from meor.evaluation.pykeen_model import labels_of
from meor.methods import METHODS
from meor.methods.comparison import Comparison, Settings
from meor.methods.dense import ScoreFunction
from meor.methods.penalty import Penalty
from meor.methods.registry import MEOR
from meor.pykeen.cap import RowCap
from meor.pykeen.held import is_frozen
from meor.random import generator
from meor.stream.snapshot import Stream
from meor.training.draws import BUFFER_SIZE, draw_buffer
from meor.typing import Ids, Side

PER_STEP = 256
"""Old facts whose queries a step looks at."""


class MeorCallback(TrainingCallback):
    """Adds `coefficient` times the penalty of an update to the loss of every step.

    `factory` is that of the training: labels say which of its ids are newcomers of the stream's update. The
    answers to protect are `replay` old facts, `per_step` of them at each step, all drawn by `seed` alone.
    Scores are PyKEEN's own, without dropout and sigmoid. With a model of `grow` or `to_pykeen` whose old rows
    are frozen, the unit of the gaps is measured once.
    """

    def __init__(
        self,
        stream: Stream,
        update: int,
        factory: Any,
        *,
        method: str = "meor",
        coefficient: float = 1.0,
        replay: int = BUFFER_SIZE,
        per_step: int = PER_STEP,
        seed: int = 0,
        settings: Settings | None = None,
    ) -> None:
        super().__init__()
        self.coefficient, self.per_step, self.seed = coefficient, per_step, seed
        self.penalty = _penalty(stream, update, method, replay, seed, settings)
        entities, relations = (labels_of(factory, f"{kind}_to_id") for kind in ("entity", "relation"))
        self._rows = row_order("the factory", entities, relations, stream, update)
        self._cap = RowCap(stream, update, self._rows[0]) if METHODS[method].capped else None
        self._begin()

    def register_training_loop(self, training_loop: Any) -> None:
        super().register_training_loop(training_loop)
        self._begin()

    def _begin(self) -> None:
        """Every training begins alike."""
        self.history: list[dict[str, float]] = []
        """One entry per epoch: the mean penalty, and the share of steps at which it acted."""
        self._step, self._of_epoch, self._measured = 0, list[float](), False
        self.penalty.forget()
        if self._cap is not None:
            self._cap.forget()

    def pre_batch(self, **kwargs: Any) -> None:
        if self._cap is not None:
            self._cap(self.model)

    def pre_step(self, **kwargs: Any) -> None:
        """After the gradient of the batch, before the optimizer moves anything."""
        score = scores_of(self.model, *self._rows)
        if is_frozen(self.model) and not self._measured:
            self.penalty.hold_scale(score)
            self._measured = True
        found = self.penalty.of_scores(score, self._facts())
        if found.requires_grad and self.coefficient:
            (self.coefficient * found).backward()  # type: ignore[no-untyped-call]
        self._of_epoch.append(found.item())
        self._step += 1

    def post_epoch(self, epoch: int, epoch_loss: float, **kwargs: Any) -> None:
        self.pre_batch()  # what the last step of the epoch made too long
        values, self._of_epoch = self._of_epoch, []
        if values:
            acted = sum(value > 0 for value in values) / len(values)
            self.history.append({"epoch": epoch, "penalty": sum(values) / len(values), "active_steps": acted})
            self.result_tracker.log_metrics(self.history[-1], step=epoch, prefix="meor")

    def _facts(self) -> Ids:
        """Positions of the old facts of a step."""
        total = len(self.penalty.cohort) // 2
        drawn = generator("pykeen-step", self.seed, self.penalty.cohort.update, self._step)
        return drawn.choice(total, min(self.per_step, total), replace=False)


def _penalty(
    stream: Stream, update: int, method: str, replay: int, seed: int, settings: Settings | None
) -> Penalty:
    chosen = METHODS.get(method)
    if chosen is None or chosen.kind != "penalty":
        able = [name for name, each in METHODS.items() if each.kind == "penalty"]
        raise ConfigError(f"{method} is no method with a penalty", remedy=f"Use one of {', '.join(able)}")
    if update not in stream.updates:
        raise InputError(
            f"{stream.name} has no update {update}", remedy=f"Name one of 1 to {len(stream.snapshots) - 1}"
        )
    facts = draw_buffer(stream, update, seed=seed, size=replay).fact
    compared = Comparison.build(
        stream, update, facts, run=seed, variant=chosen.variant or MEOR, settings=settings
    )
    return (chosen.build or Penalty)(compared)


def scores_of(model: Any, entity: Ids, relation: Ids) -> ScoreFunction:
    """What PyKEEN predicts, in the ids of a stream and with a graph: `entity` and `relation` are its rows."""
    order, kinds = (torch.from_numpy(ids).to(model.device) for ids in (entity, relation))

    def score(anchor: Tensor, of: Tensor, side: Side) -> Tensor:
        known, related = order[anchor.to(order.device)], kinds[of.to(kinds.device)]
        was = model.training, model.predict_with_sigmoid
        model.predict_with_sigmoid = False  # probabilities flatten the gaps
        _forget(model)
        try:
            found: Tensor
            if side is Side.TAIL:
                found = model.predict_t(torch.stack([known, related], 1), tails=order)
            else:
                found = model.predict_h(torch.stack([related, known], 1), heads=order)
            return found
        finally:
            _forget(model)
            model.predict_with_sigmoid = was[1]
            model.train(was[0])

    return score


def _forget(model: Any) -> None:
    """Encoders keep their output for a step; its graph belongs to one backward pass, ours or the batch's."""
    for module in model.modules():
        for name in ("enriched_embeddings", "enriched_representations"):
            if vars(module).get(name) is not None:
                setattr(module, name, None)
