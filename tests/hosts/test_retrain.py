from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from tests.hosts.contract import config_of
from tests.tiny_run import tiny_stream

from meor.backbone import BACKBONES, Model
from meor.hosts import HOSTS
from meor.hosts.replay import ReplayPass
from meor.hosts.retrain import Retrain, RetrainPass
from meor.run.config import Config
from meor.run.prepare import host_of, update_of
from meor.stream.snapshot import Stream
from meor.training.draws import draw_buffer
from meor.training.host import Plan, Step, Update
from meor.training.initialise import base_model
from meor.training.refine import refine
from meor.training.training import Training

PLAN = Plan(seed=5, batch_size=7, negatives=4, passes=2, order="permuted")


@pytest.fixture(scope="module")
def update(stream: Stream) -> Update:
    return Update.of(stream, 2, draw_buffer(stream, 2, seed=5, size=17))


def _steps(update: Update, pass_number: int = 0) -> list[Step]:
    steps = RetrainPass(update, PLAN, pass_number)
    return [steps[index] for index in range(len(steps))]


def _bag(facts: Iterable[np.ndarray]) -> Counter[tuple[int, ...]]:
    return Counter(tuple(fact) for part in facts for fact in part.tolist())


def test_a_pass_holds_every_fact_so_far_once(stream: Stream, update: Update) -> None:
    learned = _bag(step.batch.fact for step in _steps(update))
    assert learned == _bag(snapshot.train for snapshot in stream.snapshots[:3])


def test_the_buffer_gives_a_penalty_its_queries_and_is_learned_no_second_time(update: Update) -> None:
    steps = _steps(update)
    np.testing.assert_array_equal(np.concatenate([step.replay for step in steps]), np.arange(17))
    assert all(len(step.batch) <= PLAN.batch_size for step in steps)


def test_negatives_are_drawn_among_all_entities_of_the_moment(update: Update) -> None:
    drawn = np.concatenate([step.batch.negative for number in range(4) for step in _steps(update, number)])
    assert drawn.max() >= update.n_old
    assert drawn.max() < update.n_entities


def _model(update: Update, seed: int) -> Model:
    return base_model(BACKBONES["complex"], 4, update.n_entities, update.m_relations, seed=seed)


def test_nothing_of_the_model_before_is_left(update: Update) -> None:
    trained = [refine(Training.begin(Retrain(PLAN), _model(update, seed), update)) for seed in (1, 2)]
    assert torch.equal(trained[0].entity, trained[1].entity)
    assert torch.equal(trained[0].relation, trained[1].relation)
    other = refine(Training.begin(Retrain(Plan(seed=6, passes=2)), _model(update, 1), update))
    assert not torch.equal(other.entity, trained[0].entity)


def test_the_base_is_that_of_replay(stream: Stream) -> None:
    base = Update.of(stream, 0)
    model = _model(base, 1)
    found = [refine(Training.begin(host(PLAN), model, base)) for host in (Retrain, HOSTS["replay"])]
    assert torch.equal(found[0].entity, found[1].entity)
    steps = RetrainPass(base, PLAN, 0), ReplayPass(base, PLAN, 0)
    np.testing.assert_array_equal(steps[0][0].batch.negative, steps[1][0].batch.negative)


@pytest.mark.parametrize("preset", ["paper", "practical"])
def test_an_update_is_trained_until_validation_no_longer_gains_under_every_preset(preset: str) -> None:
    refined = Config.resolve({"host": "retrain", "preset": preset}).refine
    assert refined.validate_steps > 0
    assert refined.passes > 100


def test_the_rows_of_a_run_start_with_the_spread_that_its_settings_say() -> None:
    stream = tiny_stream()
    config = config_of("retrain", "host.init_std=3.0", "refine.passes=1", "refine.learning_rate=1e-9")
    update = update_of(config, stream, 1)
    model = refine(Training.begin(host_of(config), _model(update, 1), update))
    assert 2.0 < float(model.entity.std()) < 4.0
