"""Where old rows move: kernels and a small graph give what the whole graph gives."""

import numpy as np
import pytest
import torch
from tests.growth import growing, pressing, random_model

from meor.backbone import BACKBONES
from meor.methods.comparison import Comparison, Settings
from meor.methods.penalty import Penalty
from meor.methods.registry import penalties
from meor.training.loss import Embedding

REPLAYED = np.array([0, 3, 3, 11, 7])  # a repeated occurrence counts twice
KINDS = sorted(set(penalties()) - {"shuffled-values"})


def loss_and_gradients(name, kind, fast, *, first=0, seed=5, newcomers=None, **chosen):
    stream = growing(seed, n_old=20, n_new=8)
    model = random_model(stream, name, seed, newcomers=pressing(name) if newcomers is None else newcomers)
    fact = stream.snapshots[0].train[:12]
    settings = Settings(**chosen)
    comparison = Comparison.build(stream, 1, fact, run=seed, variant=penalties()[kind], settings=settings)
    entity, relation = Embedding.of(model.entity, first), Embedding.of(model.relation, 0)
    loss = Penalty(comparison, model.backbone, fast=fast)(entity, relation, REPLAYED)
    if not loss.requires_grad:
        return loss.item(), None
    loss.backward()
    return loss.item(), [table.trained.grad.numpy() for table in (entity, relation)]


@pytest.mark.parametrize("first", [0, 13])
@pytest.mark.parametrize("detached", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_the_small_graph_gives_what_the_whole_graph_gives(name, kind, detached, first):
    told = {"first": first, "detach_reference": detached}
    value, gradients = loss_and_gradients(name, kind, True, **told)
    expected, reference = loss_and_gradients(name, kind, False, **told)
    assert expected > 0
    assert value == pytest.approx(expected, rel=1e-11)
    for mine, theirs in zip(gradients, reference, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_change_nothing_but_the_last_bits(kind):
    value, gradients = loss_and_gradients("transe-inverse", kind, True)
    again, others = loss_and_gradients("transe-inverse", kind, True, memory=2000)
    assert again == pytest.approx(value, rel=1e-12)
    for mine, theirs in zip(gradients, others, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-14)


def test_gaps_far_beyond_the_scale_overflow_nothing():
    value, gradients = loss_and_gradients("complex", "meor", True, newcomers=500.0)
    expected, reference = loss_and_gradients("complex", "meor", False, newcomers=500.0)
    assert np.isfinite(value)
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(gradients[0], reference[0], rtol=1e-8, atol=1e-9)


def test_without_an_excess_there_is_no_graph():
    value, gradients = loss_and_gradients("distmult", "meor", True, newcomers=1e-9)
    assert (value, gradients) == (0.0, None)


def test_the_thread_count_does_not_change_a_bit():
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(loss_and_gradients("transe-inverse", "meor", True)[1])
        assert all((one == two).all() for one, two in zip(*found, strict=True))
    finally:
        torch.set_num_threads(before)
