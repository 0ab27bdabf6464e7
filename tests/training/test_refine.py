from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from meor.backbone import BACKBONES, Backbone, Model
from meor.compiled import set_threads
from meor.errors import ConfigError, MeorError, NonFiniteError, RunError
from meor.hosts.replay import Replay
from meor.stream.snapshot import Stream
from meor.training.draws import draw_buffer
from meor.training.host import Plan, Stage, Update
from meor.training.initialise import base_model, grow
from meor.training.loss import Batch, Embedding
from meor.training.refine import refine
from meor.training.training import Cursor, Training
from meor.typing import Ids

PLAN = Plan(seed=2, learning_rate=2e-2, passes=3, batch_size=8, negatives=3, order="permuted")
every_backbone = pytest.mark.parametrize("backbone", BACKBONES.values(), ids=lambda one: one.name)
COMPLEX = BACKBONES["complex"]


def _base(stream: Stream, backbone: Backbone) -> Model:
    return base_model(backbone, 4, stream.entity_counts[0], stream.relation_counts[0], seed=2)


def _update(stream: Stream) -> Update:
    return Update.of(stream, 1, draw_buffer(stream, 1, seed=2, size=15))


def _begin(stream: Stream, backbone: Backbone = COMPLEX, plan: Plan = PLAN) -> Training:
    update = _update(stream)
    return Training.begin(Replay(plan), grow(_base(stream, backbone), update, seed=2), update)


def _copies(training: Training) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in training.tensors().items()}


def _same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def _pull(entity: Embedding, relation: Embedding, replay: Ids) -> Tensor:
    """A penalty that acts: it depends on the rows and on which replay facts are in the batch."""
    return (entity.whole()[entity.first :] ** 2).sum() * (1.0 + float(replay.sum()))


def _shifting_mrr() -> Callable[[Model], float]:
    """A validation that depends on the weights alone, so that a resumed training sees the same."""
    return lambda model: float(torch.tanh(model.entity.abs().mean()))


@every_backbone
def test_the_loss_of_a_small_graph_goes_down(stream: Stream, backbone: Backbone) -> None:
    plan = replace(PLAN, passes=40)
    losses: list[float] = []
    training = Training.begin(Replay(plan), _base(stream, backbone), Update.of(stream, 0))
    refine(training, on_step=lambda _, loss: losses.append(loss))
    assert len(losses) == 40 * 8 == training.cursor.step
    # Scores of unit rows have bounds, so their loss has less far to fall.
    wanted = 0.8 if backbone.compares_stored_rows else 0.95
    assert np.mean(losses[-8:]) < wanted * np.mean(losses[:8])


@every_backbone
def test_old_rows_are_bit_identical_and_every_new_row_moves(stream: Stream, backbone: Backbone) -> None:
    update = _update(stream)
    start = grow(_base(stream, backbone), update, seed=2)
    before = start.entity.clone(), start.relation.clone()
    final = refine(Training.begin(Replay(PLAN), start, update))
    assert torch.equal(final.entity[: update.n_old], before[0][: update.n_old])
    assert torch.equal(final.relation[: update.m_old], before[1][: update.m_old])
    assert (final.entity[update.n_old :] != before[0][update.n_old :]).any(1).all()
    assert (final.relation[update.m_old :] != before[1][update.m_old :]).any(1).all()
    assert torch.equal(start.entity, before[0]), "the model that was given is left as it is"


@every_backbone
def test_resuming_after_any_step_or_pass_ends_with_the_same_bits(stream: Stream, backbone: Backbone) -> None:
    plan = replace(PLAN, validate_every=1, passes=4)
    saved: list[tuple[dict[str, Tensor], str]] = []

    def save(training: Training, _: float | None) -> None:
        saved.append((_copies(training), json.dumps(training.cursor.to_json())))

    whole = _begin(stream, backbone, plan)
    final = refine(
        whole, penalty=_pull, coefficient=0.01, validate=_shifting_mrr(), on_step=save, on_pass=save
    )
    assert len(saved) > 10
    for tensors, cursor in saved:
        training = Training.restore(
            Replay(plan),
            backbone,
            _update(stream),
            tensors=tensors,
            cursor=Cursor.from_json(json.loads(cursor)),
        )
        resumed = refine(training, penalty=_pull, coefficient=0.01, validate=_shifting_mrr())
        assert torch.equal(resumed.entity, final.entity)
        assert torch.equal(resumed.relation, final.relation)
        assert _same(training.tensors(), whole.tensors())
        assert training.cursor == whole.cursor


def test_a_checkpoint_is_not_moved_by_the_training_restored_from_it(stream: Stream) -> None:
    tensors = _copies(_begin(stream))
    before = {name: value.clone() for name, value in tensors.items()}
    refine(Training.restore(Replay(PLAN), COMPLEX, _update(stream), tensors=tensors, cursor=Cursor(1)))
    assert _same(tensors, before)


def test_early_stopping_counts_validations_and_restores_the_best_weights(stream: Stream) -> None:
    plan = replace(PLAN, passes=50, validate_every=2, patience=3)
    answers = iter([0.1, 0.3, 0.2, 0.4, 0.4, 0.1, 0.3, 0.9])
    seen: list[Tensor] = []

    def validate(model: Model) -> float:
        seen.append(model.entity.clone())
        return next(answers)

    training = _begin(stream, plan=plan)
    final = refine(training, validate=validate)
    assert training.cursor.stopped
    assert training.cursor.pass_number == 14
    assert training.cursor.best_mrr == 0.4
    assert training.cursor.validations == [
        (2, 0.1),
        (4, 0.3),
        (6, 0.2),
        (8, 0.4),
        (10, 0.4),
        (12, 0.1),
        (14, 0.3),
    ]
    assert torch.equal(final.entity, seen[3])
    assert not torch.equal(final.entity, seen[-1])


def test_the_last_pass_is_validated_though_it_is_no_multiple(stream: Stream) -> None:
    plan = replace(PLAN, passes=5, validate_every=10)
    training = _begin(stream, plan=plan)
    refine(training, validate=lambda _: 0.5)
    assert training.cursor.validations == [(5, 0.5)]


def test_without_validation_all_passes_are_made(stream: Stream) -> None:
    passes: list[float | None] = []
    training = _begin(stream)
    refine(training, on_pass=lambda _, mrr: passes.append(mrr))
    assert passes == [None] * 3
    assert not training.best


def test_a_validation_that_is_not_a_number_raises(stream: Stream) -> None:
    plan = replace(PLAN, validate_every=1)
    with pytest.raises(NonFiniteError, match="after pass 1"):
        refine(_begin(stream, plan=plan), validate=lambda _: float("nan"))


@every_backbone
def test_no_coefficient_no_penalty_and_an_inactive_penalty_are_replay_to_the_bit(
    stream: Stream, backbone: Backbone
) -> None:
    def inactive(entity: Embedding, relation: Embedding, replay: Ids) -> Tensor:
        return torch.zeros((), dtype=torch.float64)

    def forbidden(entity: Embedding, relation: Embedding, replay: Ids) -> Tensor:
        raise AssertionError("with coefficient 0 the penalty is not asked")

    ends = []
    for penalty, coefficient in ((None, 0.0), (None, 0.3), (forbidden, 0.0), (inactive, 0.3)):
        training = _begin(stream, backbone)
        refine(training, penalty=penalty, coefficient=coefficient)
        ends.append(_copies(training))
    assert all(_same(ends[0], other) for other in ends[1:])


def test_the_penalty_acts_and_is_told_which_replay_facts_are_in_the_batch(stream: Stream) -> None:
    asked: list[Ids] = []

    def watch(entity: Embedding, relation: Embedding, replay: Ids) -> Tensor:
        asked.append(replay)
        return _pull(entity, relation, replay)

    plain = refine(_begin(stream))
    penalised = refine(_begin(stream), penalty=watch, coefficient=1.0)
    assert not torch.equal(plain.entity, penalised.entity)
    assert torch.equal(plain.relation[:3], penalised.relation[:3])
    assert sorted(np.concatenate(asked)) == sorted(list(range(15)) * 3)


def test_a_non_finite_loss_raises_before_the_step_and_says_where(stream: Stream) -> None:
    def explode(entity: Embedding, relation: Embedding, replay: Ids) -> Tensor:
        return entity.whole().sum() * (float("nan") if training.cursor.step == 5 else 0.0)

    training = _begin(stream)
    last: list[dict[str, Tensor]] = []
    with pytest.raises(NonFiniteError, match="update 1, pass 2, batch 2 of 4"):
        refine(training, penalty=explode, coefficient=1.0, on_step=lambda one, _: last.append(_copies(one)))
    assert _same(training.tensors(), last[-1])


def test_weights_that_left_the_numbers_are_not_returned(stream: Stream) -> None:
    training = _begin(stream)

    def spoil(one: Training, _: float | None) -> None:
        if one.cursor.pass_number == PLAN.passes:
            one.entity.data[-1, 0] = float("inf")

    with pytest.raises(NonFiniteError, match="after update 1"):
        refine(training, on_pass=spoil)


def _old_facts(stream: Stream, relation: int, m_relations: int) -> Update:
    n = stream.entity_counts[0]
    train = np.array([[0, relation, 5], [3, relation, 8], [1, relation, 0]])
    return Update(
        1, train, n, n, stream.relation_counts[0], m_relations, draw_buffer(stream, 1, seed=2, size=5)
    )


@every_backbone
def test_an_update_without_anything_new_passes_through(stream: Stream, backbone: Backbone) -> None:
    update = _old_facts(stream, 0, stream.relation_counts[0])
    start = _base(stream, backbone)
    model = grow(start, update, seed=2)
    training = Training.begin(Replay(PLAN), model, update)
    final = refine(training, penalty=_pull, coefficient=1.0)
    assert training.cursor.step == 0
    assert torch.equal(final.entity, start.entity)
    assert torch.equal(final.relation, start.relation)


@every_backbone
def test_a_new_relation_between_old_entities_is_trained_alone(stream: Stream, backbone: Backbone) -> None:
    new = stream.relation_counts[0]
    update = _old_facts(stream, new, new + 1)
    start = grow(_base(stream, backbone), update, seed=2)
    final = refine(Training.begin(Replay(PLAN), start, update))
    assert torch.equal(final.entity, start.entity)
    assert torch.equal(final.relation[:new], start.relation[:new])
    assert not torch.equal(final.relation[new], start.relation[new])


def test_float32_models_train_in_float32(stream: Stream) -> None:
    update = _update(stream)
    base = base_model(COMPLEX, 4, update.n_old, update.m_old, seed=2, dtype=torch.float32)
    final = refine(Training.begin(Replay(PLAN), grow(base, update, seed=2), update))
    assert final.entity.dtype == final.relation.dtype == torch.float32


class Anchored(Replay):
    """Trains every row, keeps them near where they were, and learns how near."""

    def stages(self, update: Update) -> Iterator[Stage]:
        yield Stage(self.plan_of(update), 0, 0)

    def begin(
        self, update: Update, stage: Stage, backbone: Backbone, entity: Embedding, relation: Embedding
    ) -> None:
        super().begin(update, stage, backbone, entity, relation)
        self.anchor = entity.data.clone()
        self.strength = torch.nn.Parameter(torch.zeros(1, 1, dtype=torch.float64))
        self.seen = 0

    def parameters(self, entity: Embedding, relation: Embedding) -> dict[str, torch.nn.Parameter]:
        return {**super().parameters(entity, relation), "strength": self.strength}

    def loss(self, batch: Batch) -> Tensor:
        away = ((self.entity.whole() - self.anchor) ** 2).mean()
        return super().loss(batch) + (away * torch.sigmoid(self.strength)).sum()

    def stepped(self) -> None:
        self.seen += 1

    def tensors(self) -> dict[str, Tensor]:
        return {"anchor": self.anchor, "strength": self.strength.data}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.anchor.copy_(tensors["anchor"])
        self.strength.data.copy_(tensors["strength"])


def test_a_host_may_train_all_rows_and_parameters_of_its_own(stream: Stream) -> None:
    saved: list[tuple[dict[str, Tensor], Cursor]] = []
    update = _update(stream)
    start = grow(_base(stream, COMPLEX), update, seed=2)
    host = Anchored(PLAN)
    training = Training.begin(host, start, update)
    final = refine(training, on_step=lambda one, _: saved.append((_copies(one), replace(one.cursor))))
    assert host.seen == training.cursor.step
    assert (final.entity != start.entity).any(1).sum() > update.n_old
    assert host.strength.item() != 0.0
    for tensors, cursor in saved:
        again = Training.restore(Anchored(PLAN), COMPLEX, update, tensors=tensors, cursor=replace(cursor))
        assert torch.equal(refine(again).entity, final.entity)


def test_a_model_of_the_wrong_size_is_refused(stream: Stream) -> None:
    with pytest.raises(RunError, match="Grow the model first"):
        Training.begin(Replay(PLAN), _base(stream, COMPLEX), _update(stream))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("entity", None),
        ("adam.steps", None),
        ("adam.mean.entity", torch.zeros(1, 1)),
        ("relation", torch.zeros(4, 2)),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(stream: Stream, name: str, value: Tensor | None) -> None:
    tensors = _copies(_begin(stream))
    del tensors[name]
    if value is not None:
        tensors[name] = value
    with pytest.raises(MeorError):
        Training.restore(Replay(PLAN), COMPLEX, _update(stream), tensors=tensors, cursor=Cursor(1))


def test_a_cursor_of_another_update_or_version_is_refused(stream: Stream) -> None:
    tensors = _copies(_begin(stream))
    with pytest.raises(RunError, match="update 2"):
        Training.restore(Replay(PLAN), COMPLEX, _update(stream), tensors=tensors, cursor=Cursor(2))
    with pytest.raises(RunError, match="version"):
        Cursor.from_json({"update": 1})


def test_a_cursor_survives_json_to_the_bit() -> None:
    cursor = Cursor(1, 5, 2, 3, 4, 0.1 + 0.2, 1, False, [(1, 1 / 3), (2, 0.1 + 0.2)])
    assert Cursor.from_json(json.loads(json.dumps(cursor.to_json()))) == cursor


@pytest.mark.parametrize(
    "wrong", [{"order": "shuffled"}, {"replay_negatives": "new"}, {"passes": 0}, {"batch_size": 0}]
)
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Plan(**wrong)


def test_a_checkpoint_of_an_update_with_newcomers_and_no_new_relation_fits_in_a_tensor_file(
    stream: Stream, tmp_path: Path
) -> None:
    update = Update.of(stream, 2, draw_buffer(stream, 2, seed=2, size=15))
    model = base_model(COMPLEX, 4, update.n_entities, update.m_relations, seed=2)
    training = Training.begin(Replay(PLAN), model, update)
    refine(training)
    save_file(training.tensors(), tmp_path / "training.safetensors")
    assert _same(load_file(tmp_path / "training.safetensors"), training.tensors())


@every_backbone
def test_one_thread_and_two_end_with_the_same_bits(stream: Stream, backbone: Backbone) -> None:
    ends = []
    for threads in (1, 2):
        set_threads(threads)
        training = _begin(stream, backbone)
        refine(training)
        ends.append(_copies(training))
    assert _same(*ends)


def test_without_a_penalty_a_coefficient_adds_nothing_to_the_loss(stream: Stream) -> None:
    losses: list[list[float]] = []
    for coefficient in (0.0, 3.0):
        told: list[float] = []
        training = _begin(stream)
        refine(training, coefficient=coefficient, on_step=lambda _, value, told=told: told.append(value))
        losses.append(told)
    assert losses[0] == losses[1]


def test_a_plan_that_never_validates_does_not_ask_for_it(stream: Stream) -> None:
    plan = replace(PLAN, validate_every=0)

    def forbidden(model: Model) -> float:
        raise AssertionError("validate_every is 0")

    training = _begin(stream, plan=plan)
    refine(training, validate=forbidden)
    assert training.cursor.validations == []


class TwoStages(Replay):
    """New rows first, with a fresh Adam; then every row, for another number of passes."""

    def stages(self, update: Update) -> Iterator[Stage]:
        yield Stage(self.plan, update.n_old, update.m_old)
        yield Stage(replace(self.plan, passes=2, learning_rate=1e-3), 0, 0)


def test_stages_follow_each_other_and_a_stopped_one_goes_on(stream: Stream) -> None:
    plan = replace(PLAN, validate_every=1)
    update = _update(stream)
    start = grow(_base(stream, COMPLEX), update, seed=2)
    saved: list[tuple[dict[str, Tensor], str, Tensor]] = []

    def save(now: Training, _: float | None) -> None:
        saved.append((_copies(now), json.dumps(now.cursor.to_json()), now.entity.data.clone()))

    training = Training.begin(TwoStages(plan), start, update)
    final = refine(training, validate=_shifting_mrr(), on_step=save, on_pass=save)
    stage = [json.loads(cursor)["stage"] for _, cursor, _ in saved]
    assert set(stage) == {0, 1}
    assert training.cursor.step == (3 + 2) * len(training.host.steps(0))
    first, last = (max(at for at, one in enumerate(stage) if one == number) for number in (0, 1))
    assert torch.equal(saved[first][2][: update.n_old], start.entity[: update.n_old])
    assert not torch.equal(saved[last][2][: update.n_old], start.entity[: update.n_old])
    assert TwoStages(plan).first_rows(update) == (0, 0)
    for tensors, cursor, _ in saved:
        again = Training.restore(
            TwoStages(plan), COMPLEX, update, tensors=tensors, cursor=Cursor.from_json(json.loads(cursor))
        )
        assert torch.equal(refine(again, validate=_shifting_mrr()).entity, final.entity)
        assert again.cursor == training.cursor


def test_a_penalty_gets_the_tables_in_order_and_the_replayed_facts_of_the_step(stream: Stream) -> None:
    training = _begin(stream)
    seen: list[tuple[Embedding, Embedding, list[int]]] = []

    def watch(entity: Embedding, relation: Embedding, replay: Ids) -> float:
        seen.append((entity, relation, replay.tolist()))
        return 0.0

    refine(training, penalty=watch, coefficient=1.0)
    assert all(one is training.entity and other is training.relation for one, other, _ in seen)
    steps = training.host.steps(0)
    assert [replay for *_, replay in seen[: len(steps)]] == [
        steps[index].replay.tolist() for index in range(len(steps))
    ]


def test_a_penalty_without_a_coefficient_is_not_even_asked(stream: Stream) -> None:
    def refuse(entity: Embedding, relation: Embedding, replay: Ids) -> float:
        raise AssertionError

    refine(_begin(stream), penalty=refuse)
