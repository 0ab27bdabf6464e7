"""The training path in use: fused host loss, and the penalty that completes its gradient in place."""

import numpy as np
import pytest
import torch
from tests.growth import growing, pressing, random_model, tables

from meor.backbone import BACKBONES
from meor.methods.comparison import Comparison
from meor.methods.penalty import Penalty
from meor.methods.registry import MEOR, penalties
from meor.training.draws import draw_negatives
from meor.training.host import Plan, Update
from meor.training.loss import Batch, link_loss

COEFFICIENT = 0.7
REPLAYED = np.arange(12)


def world(name, variant):
    stream = growing(3, n_old=20, n_new=8)
    model = random_model(stream, name, 3, newcomers=pressing(name))
    comparison = Comparison.build(stream, 1, stream.snapshots[0].train[:12], run=3, variant=variant)
    update = Update.of(stream, 1)
    negatives = draw_negatives(update.train, update.n_entities, Plan().negatives, "beside")
    batch = Batch(update.train, negatives.entity, negatives.replaced)
    return stream, model, comparison, batch


def in_use(name, variant=MEOR):
    """Tables, and a function that gives the loss as training adds it up."""
    stream, model, comparison, batch = world(name, variant)
    entity, relation = tables(model, stream)
    penalty = Penalty(comparison, model.backbone, beside=True)

    def loss():
        host = link_loss(model.backbone, entity, relation, batch)
        return host + COEFFICIENT * penalty(entity, relation, REPLAYED)

    return entity, relation, penalty, loss


@pytest.mark.parametrize("variant", sorted(penalties()))
@pytest.mark.parametrize(
    "name", [name for name in sorted(BACKBONES) if BACKBONES[name].fused_form is not None]
)
def test_its_gradients_are_those_of_plain_autograd(name, variant):
    entity, relation, _, loss = in_use(name, penalties()[variant])
    total = loss()
    total.backward()
    stream, model, comparison, batch = world(name, penalties()[variant])
    plain_entity, plain_relation = tables(model, stream)
    plain_penalty = Penalty(comparison, model.backbone, fast=False)
    host = link_loss(model.backbone, plain_entity, plain_relation, batch, fused=False)
    added = plain_penalty(plain_entity, plain_relation, REPLAYED)
    assert added.requires_grad  # something is active, so that something is compared
    (host + COEFFICIENT * added).backward()
    torch.testing.assert_close(total, host + COEFFICIENT * added, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(entity.trained.grad, plain_entity.trained.grad, rtol=1e-12, atol=1e-14)
    if relation.trained.numel():
        torch.testing.assert_close(relation.trained.grad, plain_relation.trained.grad, rtol=1e-12, atol=1e-14)


def test_a_loss_that_is_never_differentiated_leaves_nothing_for_the_next():
    entity, _, _, loss = in_use("complex")
    loss().backward()
    once = entity.trained.grad.clone()
    entity.trained.grad = None
    loss()
    loss().backward()
    assert torch.equal(entity.trained.grad, once)


def test_gradients_of_two_steps_add_up_as_in_torch():
    entity, _, _, loss = in_use("complex")
    loss().backward()
    once = entity.trained.grad.clone()
    loss().backward()
    torch.testing.assert_close(entity.trained.grad, 2 * once, rtol=1e-12, atol=1e-14)


def test_a_second_backward_of_one_loss_is_refused_and_the_next_step_is_as_ever():
    entity, _, _, loss = in_use("complex")
    total = loss()
    total.backward(retain_graph=True)
    once = entity.trained.grad.clone()
    with pytest.raises(RuntimeError, match="second time"):
        total.backward()
    entity.trained.grad = None
    loss().backward()
    assert torch.equal(entity.trained.grad, once)


def test_a_penalty_that_is_alone_after_all_has_its_whole_gradient():
    entity, relation, penalty, _ = in_use("complex")
    penalty(entity, relation, REPLAYED).backward()
    stream, model, comparison, _ = world("complex", MEOR)
    alone, alone_relation = tables(model, stream)
    Penalty(comparison, model.backbone)(alone, alone_relation, REPLAYED).backward()
    assert torch.equal(entity.trained.grad, alone.trained.grad)
