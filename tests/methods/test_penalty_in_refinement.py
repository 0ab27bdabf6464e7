"""R3: a coefficient of 0, or a penalty that never acts, leaves the bits of replay; an active one does not."""

from __future__ import annotations

import pytest
import torch
from tests.growth import DISTANCES, growing, pressing, random_model

from meor.backbone import BACKBONES, Model
from meor.hosts.replay import Replay
from meor.methods.comparison import Comparison
from meor.methods.penalty import Penalty
from meor.methods.registry import penalties
from meor.training.draws import Buffer
from meor.training.host import Plan, Update
from meor.training.refine import refine
from meor.training.training import Training


def harmless(stream, name: str) -> Model:
    """Old answers score well above what newcomers reach: products of positive rows, or far away points."""
    model = random_model(stream, name, 0)
    n_old = stream.entity_counts[0]
    if name in DISTANCES:
        model.entity[n_old:] = 100.0
        return model
    model.entity[:n_old].abs_().add_(0.5)
    model.relation.abs_().add_(0.5)
    if name == "complex":
        half = model.entity.shape[1] // 2
        model.entity[:, half:], model.relation[:, half:] = 0.0, 0.0
    model.entity[n_old:] = 0.0
    return model


def refined(stream, model: Model, penalty: Penalty | None, coefficient: float, rate: float):
    fact = stream.snapshots[0].train[:12]
    buffer = Buffer(fact, torch.arange(len(fact)).numpy())
    plan = Plan(learning_rate=rate, passes=3, batch_size=8)
    training = Training.begin(Replay(plan), model, Update.of(stream, 1, buffer))
    found = refine(training, penalty=penalty, coefficient=coefficient)
    return found.entity.clone(), found.relation.clone(), training.adam.state()


def same(one, other) -> bool:
    states = all(torch.equal(one[2][key], other[2][key]) for key in one[2])
    return torch.equal(one[0], other[0]) and torch.equal(one[1], other[1]) and states


def penalty_of(stream, name: str, kind: str) -> Penalty:
    fact = stream.snapshots[0].train[:12]
    return Penalty(Comparison.build(stream, 1, fact, run=0, variant=penalties()[kind]), BACKBONES[name])


@pytest.mark.parametrize("kind", sorted(penalties()))
@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_a_coefficient_of_zero_leaves_the_bits_of_replay(name, kind):
    stream = growing(1, n_old=20, n_new=8)
    model = random_model(stream, name, 1, newcomers=pressing(name))
    replay = refined(stream, model, None, 0.0, 0.01)
    assert same(replay, refined(stream, model, penalty_of(stream, name, kind), 0.0, 0.01))
    assert not same(replay, refined(stream, model, penalty_of(stream, name, kind), 0.5, 0.01))


@pytest.mark.parametrize("kind", sorted(penalties()))
@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_a_penalty_that_never_acts_leaves_the_bits_of_replay(name, kind):
    stream = growing(1, n_old=20, n_new=8)
    model = harmless(stream, name)
    replay = refined(stream, model, None, 0.0, 1e-6)
    assert same(replay, refined(stream, model, penalty_of(stream, name, kind), 1e6, 1e-6))
