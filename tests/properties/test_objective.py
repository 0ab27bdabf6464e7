"""P2: what must hold of the whole penalty, on generated graphs, models and variants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import assume
from hypothesis import strategies as st
from tests.growth import growing, pressing, random_model, tables
from tests.properties.lengths import Lengths
from torch import Tensor

from meor.backbone import Model
from meor.methods.comparison import Comparison, Settings
from meor.methods.dense import ScoreFunction, dense_pressures, dense_scale, score_all, table_scores
from meor.methods.equations import excess, mean_reference, squared_hinge
from meor.methods.penalty import Penalty, penalty_records
from meor.methods.registry import MEOR, penalties
from meor.stream.snapshot import Stream

seeds = st.integers(0, 10**6)
names = st.sampled_from(["complex", "distmult", "transe"])
kinds = st.sampled_from(sorted(penalties()))
holds = Lengths(short=1000, long=10_000)


@dataclass
class Case:
    stream: Stream
    model: Model
    comparison: Comparison

    @property
    def everyone(self) -> np.ndarray:
        return np.arange(len(self.comparison.cohort))

    def loss(self, index: np.ndarray, *, fast: bool | None = None) -> tuple[float, Tensor | None]:
        entity, relation = tables(self.model, self.stream)
        found = Penalty(self.comparison, self.model.backbone, fast=fast).over(entity, relation, index)
        if found.requires_grad:
            found.backward()
        return found.item(), entity.trained.grad

    def score(self) -> ScoreFunction:
        return table_scores(self.model.backbone, self.model.entity, self.model.relation)


def case(seed: int, name: str = "complex", kind: str = "meor", repeat: int = 1, **chosen: float) -> Case:
    stream = growing(seed, n_old=8 + seed % 7, n_new=1 + seed % 6)
    model = random_model(stream, name, seed, dim=2 + seed % 3, newcomers=pressing(name))
    fact = np.tile(stream.snapshots[0].train[:5], (repeat, 1))
    comparison = Comparison.build(
        stream, 1, fact, run=seed, variant=penalties()[kind], settings=replace(Settings(), **chosen)
    )
    return Case(stream, model, comparison)


@holds(seeds, names, kinds)
def test_zero_exactly_where_newcomers_press_no_more_than_the_reference(seed, name, kind):
    one = case(seed, name, kind)
    records = penalty_records(one.comparison, one.model)
    x = one.everyone[seed % len(one.everyone)]
    if one.comparison.eligible[x]:
        loss, gradient = one.loss(np.array([x]))
        reference = records.reference[x] if one.comparison.variant.centered else 0.0
        assert (loss == 0) == (records.new[x] <= reference)
        assert (gradient is None) == (loss == 0)
        assert loss == pytest.approx(records.excess[x] ** 2, rel=1e-12)


@holds(seeds, st.floats(0.001, 5))
def test_value_and_gradient_vanish_at_the_boundary(seed, height):
    draw = torch.Generator().manual_seed(seed)
    reference = torch.rand(4, generator=draw, dtype=torch.float64) * height
    new = reference.clone().requires_grad_()
    loss = squared_hinge(new, reference)
    loss.backward()
    assert loss.item() == 0
    assert new.grad is not None
    assert not new.grad.any()


@holds(seeds)
def test_the_mean_before_the_hinge_never_costs_more_than_a_hinge_a_draw(seed):
    draw = torch.Generator().manual_seed(seed)
    new, draws = torch.rand(3, generator=draw), torch.rand(3, 4, generator=draw)
    whole = squared_hinge(new, mean_reference(draws))
    apart = excess(new[:, None], draws).square().mean()
    assert whole <= apart + 1e-6


@holds(seeds, names, kinds)
def test_only_outranking_newcomers_get_a_gradient_under_a_frozen_host(seed, name, kind):
    one = case(seed, name, kind)
    entity, relation = tables(one.model, one.stream)
    before = entity.data[: entity.first].clone()
    loss = Penalty(one.comparison, one.model.backbone)(entity, relation, np.arange(len(one.everyone) // 2))
    if loss.requires_grad:
        loss.backward()
        assert entity.trained.grad is not None
        score_of = one.score()
        outranks = torch.zeros(len(entity.trained), dtype=torch.bool)
        cohort = one.comparison.cohort
        for x in one.everyone:
            row = score_all(score_of, cohort, np.array([x]))[0]
            newcomers = cohort.newcomers_of(int(x))
            outranks[newcomers - cohort.n_old] |= row[newcomers] > row[cohort.answer[x]]
        assert not entity.trained.grad[~outranks].any()
    assert relation.trained.grad is None
    assert torch.equal(entity.data[: entity.first], before)


@holds(seeds, names, kinds)
def test_no_gradient_flows_through_the_scale(seed, name, kind):
    """Along a common factor of all scores a scale in the graph would leave no slope: gaps would not move."""
    one = case(seed, name, kind, detach_reference=True)
    score, penalty = one.score(), Penalty(one.comparison)

    def stretched(by: Tensor) -> Tensor:
        return penalty.of_scores(lambda a, r, s: by * score(a, r, s), np.arange(5))

    factor = torch.ones((), dtype=torch.float64, requires_grad=True)
    loss = stretched(factor)
    penalty.hold_scale(score)
    assert stretched(factor).item() == loss.item()
    if not loss.requires_grad:
        return
    (slope,) = torch.autograd.grad(loss, factor)
    assert slope > 0
    if kind == "uncentered":  # no reference moves along, so differences of the held scale tell the slope
        step = 1e-5
        up, down = (stretched(factor.detach() + by).item() for by in (step, -step))
        assert slope.item() == pytest.approx((up - down) / (2 * step), rel=1e-5)


def scaled_by(term: str, seed: int, name: str, kind: str) -> Case:
    """A case whose scale is the IQR or the MAD throughout; a MAD needs a pool of 256 scores."""
    one = case(seed, name, kind, repeat=12, eta=1e-6 if term == "iqr" else 1e3)
    scale = dense_scale(one.comparison, one.score())
    assume(scale.wins()[term] == len(one.comparison.cohort))  # a sample of one has no IQR
    return one


terms = st.sampled_from(["iqr", "mad"])


@holds(seeds, names, kinds, terms, st.floats(-100, 100))
def test_a_shift_of_all_scores_changes_nothing(seed, name, kind, term, shift):
    one = scaled_by(term, seed, name, kind)
    score = one.score()
    penalty = Penalty(one.comparison)
    plain = penalty.of_scores(score, np.arange(5)).item()
    moved = penalty.of_scores(lambda a, r, s: score(a, r, s) + shift, np.arange(5)).item()
    assert moved == pytest.approx(plain, rel=1e-8, abs=1e-10)


@holds(seeds, names, kinds, terms, st.floats(0.01, 100))
def test_a_common_factor_of_all_scores_changes_nothing(seed, name, kind, term, factor):
    """The scale follows, whether IQR or MAD sets it."""
    one = scaled_by(term, seed, name, kind)
    score = one.score()
    penalty = Penalty(one.comparison)
    plain = penalty.of_scores(score, np.arange(5)).item()
    scaled = penalty.of_scores(lambda a, r, s: score(a, r, s) * factor, np.arange(5)).item()
    assert scaled == pytest.approx(plain, rel=1e-9, abs=1e-12)


@holds(seeds, names, kinds)
def test_a_repeated_occurrence_counts_twice(seed, name, kind):
    one = case(seed, name, kind)
    index = one.everyone[one.comparison.eligible]
    if len(index) >= 2:
        x, y = index[0], index[-1]
        (once_x, grad_x), (once_y, grad_y) = one.loss(np.array([x])), one.loss(np.array([y]))
        both, gradient = one.loss(np.array([x, y, x]))
        assert both == pytest.approx((2 * once_x + once_y) / 3, rel=1e-12)
        nothing = torch.zeros(1, dtype=torch.float64)
        parts = (2 * (nothing if grad_x is None else grad_x) + (nothing if grad_y is None else grad_y)) / 3
        if gradient is not None:
            torch.testing.assert_close(gradient, parts, rtol=1e-11, atol=1e-13)


@holds(seeds, names, kinds)
def test_batches_share_the_mean_by_size(seed, name, kind):
    one = case(seed, name, kind)
    index = one.everyone[one.comparison.eligible]
    if len(index) >= 2:
        whole, _ = one.loss(index)
        cut = 1 + seed % (len(index) - 1)
        first, _ = one.loss(index[:cut])
        second, _ = one.loss(index[cut:])
        assert whole == pytest.approx((first * cut + second * (len(index) - cut)) / len(index), rel=1e-12)


@holds(seeds, kinds)
def test_an_empty_batch_costs_nothing_and_has_no_graph(seed, kind):
    one = case(seed, kind=kind)
    entity, relation = tables(one.model, one.stream)
    penalty = Penalty(one.comparison, one.model.backbone)
    nobody = one.everyone[~one.comparison.eligible]
    for loss in (
        penalty(entity, relation, np.empty(0, np.int64)),
        penalty.over(entity, relation, nobody),
        penalty.of_scores(one.score(), np.empty(0, np.int64)),
    ):
        assert loss.item() == 0
        assert not loss.requires_grad


@holds(seeds, names, kinds)
def test_three_paths_give_one_loss_and_one_gradient(seed, name, kind):
    """Everything in the graph; constants of the update; outrankers alone."""
    one = case(seed, name, kind)
    index = one.everyone[one.comparison.eligible]
    if not len(index):
        return
    entity, _ = tables(one.model, one.stream)
    whole = entity.whole()
    score = table_scores(one.model.backbone, whole, one.model.relation)
    scale = dense_scale(one.comparison, score)
    general = squared_hinge(*dense_pressures(one.comparison, score, index, scale))
    # In the general path answers and anchors are in the graph too; here only newcomers are leaves.
    (expected,) = torch.autograd.grad(general, entity.trained)
    for fast in (False, True):
        loss, gradient = one.loss(index, fast=fast)
        assert loss == pytest.approx(general.item(), rel=1e-12, abs=1e-14)
        found = torch.zeros_like(expected) if gradient is None else gradient
        largest = max(float(expected.abs().max()), 1e-3)
        assert float((found - expected).abs().max()) <= 1e-12 * largest


@holds(seeds, st.sampled_from(["mmr", "shuffled", "uncentered", "uor"]))
def test_membership_is_the_same_for_every_variant_of_a_pair(seed, kind):
    one, other = case(seed), case(seed, kind=kind)
    index = np.array([0, 1, 1, 3])
    assert np.array_equal(one.comparison.members(index), other.comparison.members(index))
    assert np.array_equal(one.comparison.members(index), index[one.comparison.eligible[index]])


@holds(seeds, names)
def test_a_reference_gets_gradient_only_when_it_is_not_detached(seed, name):
    one = case(seed, name, detach_reference=False)
    off = replace(one.comparison.settings, detach_reference=True)
    detached = Comparison(one.comparison.references, MEOR, off)
    index = one.everyone[one.comparison.eligible]
    if not len(index):
        return
    found = []
    for comparison in (one.comparison, detached):
        entity = one.model.entity.clone().requires_grad_()
        score = table_scores(one.model.backbone, entity, one.model.relation)
        new, reference = dense_pressures(comparison, score, index, dense_scale(comparison, score))
        loss = squared_hinge(new, reference)
        found.append((loss.item(), torch.autograd.grad(loss, entity)[0], reference.requires_grad))
    assert found[0][0] == found[1][0]
    assert found[0][2]
    assert not found[1][2]


@pytest.mark.long
@pytest.mark.parametrize("name", holds.known)
def test_the_same_at_length(name):
    holds.at_length(name)
