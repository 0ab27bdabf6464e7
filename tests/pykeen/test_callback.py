"""The penalty in PyKEEN's loop: what it adds, and what it leaves alone."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.pykeen.small import labelled_factory, train, trained
from tests.tiny_run import tiny_stream

from meor.backbone import BACKBONES
from meor.errors import ConfigError, InputError, ModelError
from meor.methods import METHODS, needs_coefficient
from meor.methods.comparison import Settings
from meor.methods.penalty import Penalty
from meor.training.loss import Embedding

pytest.importorskip("pykeen", reason="PyKEEN comes with the extra `pykeen`: make setup-bench")

from meor.pykeen import MeorCallback, grow, triples_of

STREAM = tiny_stream()
OLD, NEW = triples_of(STREAM, 0), triples_of(STREAM, 1)


def grown(name: str = "DistMult", **options) -> object:
    return grow(trained(name, OLD, **options), OLD, NEW)


def callback(**options) -> MeorCallback:
    return MeorCallback(STREAM, 1, NEW, **{"per_step": 8, "replay": 24, **options})


def test_the_gradient_is_that_of_our_own_penalty() -> None:
    model = grown().double()
    added = callback(coefficient=0.7)
    added.register_training_loop(SimpleNamespace(model=model))
    added.pre_step()
    entity, relation = (
        table[0]._embeddings.weight
        for table in (model.entity_representations, model.relation_representations)
    )
    rows = Embedding.of(entity.detach().clone(), STREAM.entity_counts[0])
    kinds = Embedding.of(relation.detach().clone(), STREAM.relation_counts[0])
    positions = callback()._facts()  # addressed: a new callback draws the same ones
    ours = Penalty(added.penalty.comparison, BACKBONES["distmult"])(rows, kinds, positions)
    ours.backward()
    assert ours > 0
    expected = 0.7 * rows.trained.grad
    assert torch.allclose(entity.grad[STREAM.entity_counts[0] :], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["DistMult", "TuckER", "RGCN", "TransH"])
def test_a_coefficient_of_0_leaves_every_bit_of_a_training_alone(name: str) -> None:
    def weights(**options) -> dict:
        model = trained(name, NEW)
        return copy.deepcopy(train(model, NEW, **options).state_dict())

    added = callback(coefficient=0.0)
    alone, watched = weights(), weights(callbacks=added)
    assert all(torch.equal(alone[key], watched[key]) for key in alone)
    assert len(added.history) == 2  # it looked, all the same


@pytest.mark.parametrize("method", [name for name in METHODS if needs_coefficient(name)])
def test_every_penalty_of_the_registry_acts(method: str) -> None:
    model, added = grown("ComplEx"), callback(method=method, coefficient=5.0)
    train(model, NEW, callbacks=added, epochs=3)
    alone, watching = grown("ComplEx"), callback(method=method, coefficient=0.0)
    train(alone, NEW, callbacks=watching, epochs=3)
    assert added.history[0]["active_steps"] > 0
    assert added.history[-1]["penalty"] < watching.history[-1]["penalty"]


def test_rows_are_no_longer_than_the_cap_allows() -> None:
    model, added = grown("ComplEx"), callback(method="cap+meor", coefficient=0.0)
    added.register_training_loop(SimpleNamespace(model=model))
    weight, first = model.entity_representations[0]._embeddings.weight.data, STREAM.entity_counts[0]
    weight[first:] *= 0.1
    before = weight.clone()
    added.pre_batch()
    assert torch.equal(before, weight)  # short rows are left alone
    weight[first + 1 :] *= 50
    added.pre_batch()
    norm, longest = weight[first:].norm(dim=1), torch.from_numpy(added._cap._longest.norm).float()
    assert torch.allclose(norm[1:], longest[1:])
    assert torch.equal(before[: first + 1], weight[: first + 1])


def test_labels_say_who_is_new_whatever_ids_pykeen_gave() -> None:
    own, theirs = triples_of(STREAM, 1), labelled_factory(STREAM, 1)
    model = grow(trained("DistMult", OLD), OLD, own).double()
    renamed = grow(model, own, theirs, frozen=False)
    values = []
    for each, factory in ((model, own), (renamed, theirs)):
        added = MeorCallback(STREAM, 1, factory, per_step=8, replay=24)
        added.register_training_loop(SimpleNamespace(model=each))
        added.pre_step()
        values.append(added._of_epoch[0])
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    assert values[0] > 0


@pytest.mark.parametrize("name", ["CompGCN", "RGCN"])
def test_models_whose_rows_are_computed_take_it_too(name: str) -> None:
    factory = triples_of(STREAM, 1, create_inverse_triples=name == "CompGCN")
    added = MeorCallback(STREAM, 1, factory, per_step=8, replay=24)
    trained_model = trained(name, factory)
    train(trained_model, factory, callbacks=added)
    assert added.history[0]["active_steps"] > 0


def test_scores_and_not_probabilities_are_penalised_and_the_model_is_left_as_it_was() -> None:
    model = grown()
    model.train()
    values = []
    for sigmoid in (False, True):
        model.predict_with_sigmoid = sigmoid
        added = callback()
        added.register_training_loop(SimpleNamespace(model=model))
        added.pre_step()
        values.append(added._of_epoch[0])
        assert model.training
        assert model.predict_with_sigmoid is sigmoid
    assert values[0] == values[1] > 0


def test_it_has_a_name_in_pykeen_and_every_training_begins_alike() -> None:
    from pykeen.training.callbacks import callback_resolver

    options = {"stream": STREAM, "update": 1, "factory": NEW, "per_step": 8, "replay": 24}
    added = callback_resolver.make("meor", options)
    assert isinstance(added, MeorCallback)
    histories = []
    for _ in range(2):
        train(grown(), NEW, callbacks=added)
        histories.append(added.history)
    assert histories[0] == histories[1]


def test_settings_are_the_papers_unless_others_are_given() -> None:
    added = callback(settings=Settings(draws=2))
    assert added.penalty.comparison.settings.draws == 2
    assert callback().penalty.comparison.settings == Settings()


def test_what_cannot_be_added_is_refused_with_a_sentence() -> None:
    with pytest.raises(ConfigError, match="calibration is no method with a penalty"):
        callback(method="calibration")
    with pytest.raises(ConfigError, match="Use one of"):
        callback(method="nothing")
    with pytest.raises(InputError, match="has no update 3"):
        MeorCallback(STREAM, 3, NEW)
    with pytest.raises(ModelError, match="'e24'"):
        MeorCallback(STREAM, 1, OLD)
    with pytest.raises(ModelError, match="inner product"):
        train(grown("TransE"), NEW, callbacks=callback(method="cap+meor"))
    assert np.array_equal(callback()._facts(), callback()._facts())
