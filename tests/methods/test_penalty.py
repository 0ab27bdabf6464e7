import math
import re
from dataclasses import replace

import numba
import numpy as np
import pytest
import torch
from tests.growth import growing, pressing, random_model, tables

from meor.backbone import BACKBONES, Geometry
from meor.errors import ConfigError, NonFiniteError
from meor.methods import penalty as penalty_module
from meor.methods import sparse
from meor.methods.comparison import Comparison, Settings, both_sides_of, require_finite, sample_records
from meor.methods.dense import table_scores
from meor.methods.frozen import Scratch
from meor.methods.penalty import Penalty, penalty_records
from meor.methods.registry import MEOR, MMR, SHUFFLED, penalties
from meor.methods.sparse import Tiles
from meor.stream.snapshot import build_stream
from meor.training.loss import Embedding
from meor.typing import Side, Split


def built(seed=0, name="complex", variant=MEOR, **chosen):
    stream = growing(seed, n_old=20, n_new=8)
    model = random_model(stream, name, seed, newcomers=pressing(name))
    settings = replace(Settings(), **chosen)
    fact = stream.snapshots[0].train[:12]
    return stream, model, Comparison.build(stream, 1, fact, run=seed, variant=variant, settings=settings)


def value_and_gradient(penalty, model, stream, replay):
    entity, relation = tables(model, stream)
    loss = penalty(entity, relation, replay)
    if loss.requires_grad:
        loss.backward()
    return loss.item(), entity.trained.grad


def by_hand(model, comparison, index):
    """Eq. meor in plain Python for MEOR with its own references."""
    cohort, total = comparison.cohort, 0.0
    score = {}
    for x in index:
        h, r, t = cohort.fact[x]
        side, anchor = (Side.HEAD, t) if cohort.side[x] == 0 else (Side.TAIL, h)
        query = model.query(np.array([anchor]), np.array([r]), side)[0]
        score[x] = [float(model.backbone.compare(query, model.entity[e])) for e in range(cohort.n_cur)]

    def pressure(x, members, tau):
        mean = sum(
            math.exp(5 * max((score[x][e] - score[x][cohort.answer[x]]) / tau, 0)) for e in members
        ) / len(members)
        return math.log(mean) / 5

    for x in index:
        sample = [score[x][e] for e in cohort.scale_of(x)]
        tau = float(np.subtract(*np.quantile(sample, [0.75, 0.25])))
        reference = np.mean([pressure(x, draw, tau) for draw in comparison.references.draws_of(x)])
        total += max(pressure(x, cohort.newcomers_of(x), tau) - reference, 0) ** 2
    return total / len(index)


@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_the_penalty_is_the_papers_formula(name):
    stream, model, comparison = built(1, name, eta=1e-9)
    index = comparison.members(np.arange(10))
    expected = by_hand(model, comparison, index)
    assert expected > 0
    entity, relation = tables(model, stream)
    found = Penalty(comparison, model.backbone).over(entity, relation, np.arange(10)).item()
    assert found == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("kind", sorted(penalties()))
@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_the_reference_cache_changes_no_bit(name, kind):
    """G3: constants kept over steps against constants made anew at each step, while newcomers move."""
    for seed in range(14):  # 14 x 15 = 210 cases
        stream, model, comparison = built(seed, name, penalties()[kind])
        kept = Penalty(comparison, model.backbone)
        entity, relation = tables(model, stream)
        for step in range(2):
            replay = np.random.default_rng([seed, step]).permutation(12)[: 3 + seed % 9]
            fresh = Penalty(comparison, model.backbone)
            one, other = (p(entity, relation, replay) for p in (kept, fresh))
            assert one.item() == other.item()
            if one.requires_grad:
                (a,), (b,) = (torch.autograd.grad(loss, entity.trained) for loss in (one, other))
                assert torch.equal(a, b)
            with torch.no_grad():
                entity.trained.mul_(1.1)


@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_tiles_of_any_size_give_the_same_bits(name):
    stream, model, comparison = built(5, name)
    whole = value_and_gradient(Penalty(comparison, model.backbone), model, stream, np.arange(12))
    for memory in (1, 2000, 20_000):
        small = Comparison(comparison.references, MEOR, replace(Settings(), memory=memory))
        loss, gradient = value_and_gradient(Penalty(small, model.backbone), model, stream, np.arange(12))
        assert loss == pytest.approx(whole[0], rel=1e-14)  # chunks of queries are added up apart
        torch.testing.assert_close(gradient, whole[1], rtol=1e-13, atol=1e-15)


def test_rows_beyond_one_tile_are_joined_in_order():
    stream = growing(2, n_old=20, n_new=200)
    model = random_model(stream, "complex", 2, newcomers=2.0)
    fact = stream.snapshots[0].train[:12]
    found = []
    for memory in (1 << 29, 24 * 8 * 64):
        settings = Settings(memory=memory)
        comparison = Comparison.build(stream, 1, fact, run=0, settings=settings)
        found.append(value_and_gradient(Penalty(comparison, model.backbone), model, stream, np.arange(12)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-14)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-12, atol=1e-15)


def test_clumps_change_no_bit(monkeypatch):
    stream = growing(2, n_old=20, n_new=400)
    model = random_model(stream, "complex", 2, newcomers=2.0)
    newcomers = model.entity[20:]
    newcomers[40:] = newcomers[:40].repeat(9, 1) + 0.01 * torch.randn_like(newcomers[40:])
    comparison = Comparison.build(stream, 1, stream.snapshots[0].train[:12], run=0)
    plain = value_and_gradient(Penalty(comparison, model.backbone), model, stream, np.arange(12))
    monkeypatch.setattr(sparse, "MANY", 1)
    penalty = Penalty(comparison, model.backbone)
    pruned = value_and_gradient(penalty, model, stream, np.arange(12))
    assert penalty._frozen[2].scratch.clumps is not None
    assert plain[0] == pruned[0] > 0
    assert torch.equal(plain[1], pruned[1])


def test_rows_that_left_their_clumps_are_looked_for_anew_and_at_last_left_alone(monkeypatch):
    stream = growing(3, n_old=20, n_new=400)
    model = random_model(stream, "complex", 3)
    kept = Scratch()
    row = model.entity[20:].numpy().copy()
    row[40:] = np.tile(row[:40], (9, 1))
    monkeypatch.setattr(sparse, "MANY", 1)
    first = Tiles.of(row, Geometry.DOT, 1 << 20, kept).clumps
    assert first is not None
    first.looked, first.searches = 0.9, sparse.SEARCHES  # they paid for long: look again
    second = Tiles.of(row, Geometry.DOT, 1 << 20, kept).clumps
    assert second is not None
    assert second is not first
    second.looked, second.searches = 0.9, 1  # they never paid
    assert Tiles.of(row, Geometry.DOT, 1 << 20, kept).clumps is None
    assert kept.scattered


def test_the_number_of_threads_changes_no_bit():
    stream, model, comparison = built(6)
    found = []
    before = numba.get_num_threads()
    try:
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            penalty = Penalty(Comparison.build(stream, 1, comparison.cohort.fact[::2], run=6), model.backbone)
            found.append(value_and_gradient(penalty, model, stream, np.arange(12)))
    finally:
        numba.set_num_threads(before)
    assert found[0][0] == found[1][0]
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("kind", sorted(penalties()))
def test_a_host_that_moves_old_rows_takes_the_general_path(kind):
    stream, model, comparison = built(7, variant=penalties()[kind])
    penalty = Penalty(comparison, model.backbone)
    entity, relation = Embedding.of(model.entity.clone()), Embedding.of(model.relation.clone())
    assert not penalty.is_frozen(entity, relation)
    loss = penalty(entity, relation, np.arange(12))
    frozen, gradient = value_and_gradient(penalty, model, stream, np.arange(12))
    assert loss.item() == pytest.approx(frozen, rel=1e-12)
    loss.backward()
    assert relation.trained.grad is not None
    assert entity.trained.grad is not None
    assert entity.trained.grad[:20].any()
    torch.testing.assert_close(entity.trained.grad[20:], gradient, rtol=1e-11, atol=1e-14)


def test_float32_tables_are_scored_exactly_and_get_float32_gradients():
    stream, model, comparison = built(8)
    exact, gradient = value_and_gradient(Penalty(comparison, model.backbone), model, stream, np.arange(12))
    model.entity, model.relation = model.entity.float(), model.relation.float()
    found, narrow = value_and_gradient(Penalty(comparison, model.backbone), model, stream, np.arange(12))
    assert narrow.dtype == torch.float32
    assert found == pytest.approx(exact, rel=1e-4)
    torch.testing.assert_close(narrow.double(), gradient, rtol=1e-3, atol=1e-4)


def test_constants_serve_tables_with_the_same_old_rows_and_no_others():
    stream, model, comparison = built(9)
    penalty = Penalty(comparison, model.backbone)
    first, second = tables(model, stream), tables(model, stream)
    kept = penalty.frozen(*first)
    assert penalty.frozen(*first) is kept
    again = penalty.frozen(*second)
    assert (again.reference is kept.reference, again.scratch is kept.scratch) == (True, False)
    model.entity[0] += 1.0
    other = penalty.frozen(*tables(model, stream))
    assert other.reference is not kept.reference
    penalty.forget()
    assert penalty.frozen(*first).reference is not kept.reference


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("name", sorted(BACKBONES))
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_a_score_that_is_no_number_raises_rather_than_drops(name, bad, fast):
    stream, model, comparison = built(10, name)
    penalty = Penalty(comparison, model.backbone, fast=fast)
    entity, relation = tables(model, stream)
    penalty(entity, relation, np.arange(12))
    with torch.no_grad():
        entity.trained[3] = bad
        if bad == 1e300:
            entity.trained[3, 1] = -bad  # sums of huge numbers overflow to infinity
            entity.trained[3, :] *= 1e9
    with pytest.raises(NonFiniteError, match="fact"):
        penalty(entity, relation, np.arange(12))


def test_an_old_row_that_is_no_number_raises():
    stream, model, comparison = built(11)
    model.entity[: comparison.cohort.n_old] = math.nan
    entity, relation = tables(model, stream)
    with pytest.raises(NonFiniteError, match="update 1"):
        Penalty(comparison, model.backbone)(entity, relation, np.arange(12))


def test_a_penalty_without_a_backbone_asks_for_a_scoring_function():
    stream, model, comparison = built(0)
    with pytest.raises(TypeError, match="of_scores"):
        Penalty(comparison)(*tables(model, stream), np.arange(2))
    score = table_scores(model.backbone, model.entity, model.relation)
    assert Penalty(comparison).of_scores(score, np.arange(12)).item() > 0


def test_more_entities_than_the_update_knows_are_ignored():
    _, model, comparison = built(0)
    score = table_scores(model.backbone, model.entity, model.relation)
    wide = Penalty(comparison).of_scores(
        lambda a, r, s: torch.cat([score(a, r, s), torch.full((len(a), 2), 1e9)], 1), np.arange(12)
    )
    assert wide.item() == Penalty(comparison).of_scores(score, np.arange(12)).item()


def test_facts_stand_for_both_of_their_sides_in_order():
    assert both_sides_of(np.array([3, 0])).tolist() == [6, 7, 0, 1]


def test_sampled_records_are_distinct_eligible_and_nested():
    _, _, comparison = built(12)
    few, many = sample_records(comparison.cohort, 5), sample_records(comparison.cohort, 500)
    assert len(set(many.tolist())) == len(many) == comparison.eligible.sum()
    assert np.array_equal(many[:5], few)


def test_sampled_records_name_a_repeated_fact_once():
    stream, _, comparison = built(12)
    twice = np.concatenate([comparison.cohort.fact[::2]] * 2)
    again = Comparison.build(stream, 1, twice, run=12).cohort
    chosen = sample_records(again, 500)
    named = {(*again.fact[x], again.side[x]) for x in chosen}
    assert len(named) == len(chosen) == comparison.eligible.sum()


def test_borrowed_references_never_hold_own_answers_and_the_rest_counts():
    stream, model, comparison = built(13, variant=SHUFFLED)
    drawn = comparison.drawn(np.arange(len(comparison.cohort)))
    dropped = 0
    for x in range(len(comparison.cohort)):
        borrowed = comparison.references.draws_of(int(comparison.partner[x]))
        mine = np.append(comparison.cohort.known_of(x), comparison.cohort.answer[x])
        kept = borrowed[~np.isin(borrowed, mine)]
        dropped += borrowed.size - kept.size
        assert sorted(kept.tolist()) == sorted(drawn[x][drawn[x] >= 0].tolist())
    frozen = Penalty(comparison, model.backbone).frozen(*tables(model, stream))
    assert frozen.dropped == dropped > 0


def test_a_stream_without_newcomers_has_no_penalty():
    base = [(f"e{i}", "r", f"e{(i + 1) % 5}") for i in range(5)]
    stream = build_stream("still", [{Split.TRAIN: base}, {Split.TRAIN: [("e0", "r", "e3")]}])
    model = random_model(stream, "complex", 0)
    comparison = Comparison.build(stream, 1, stream.snapshots[0].train, run=0)
    loss = Penalty(comparison, model.backbone)(*tables(model, stream), np.arange(5))
    assert loss.item() == 0
    assert not loss.requires_grad


@pytest.mark.parametrize("name", ["beta", "draws", "scale_sample", "epsilon", "memory"])
def test_settings_must_be_positive(name):
    with pytest.raises(ConfigError, match=name):
        replace(Settings(), **{name: 0})


def test_ties_at_the_maximum_share_the_gradient_on_both_paths():
    stream, model, comparison = built(14, variant=MMR)
    model.entity[comparison.cohort.n_old :] = model.entity[comparison.cohort.n_old] * 3
    found = [
        value_and_gradient(Penalty(comparison, model.backbone, fast=fast), model, stream, np.arange(12))
        for fast in (True, False)
    ]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-13)
    # BLAS may round equal rows differently, which breaks the tie: compare what all of them get.
    torch.testing.assert_close(found[0][1].sum(0), found[1][1].sum(0), rtol=1e-11, atol=1e-13)


def test_the_settings_are_the_papers():
    found = Settings()
    assert (found.beta, found.draws, found.scale_sample, found.signature) == (5.0, 4, 256, "all")
    assert (found.eta, found.epsilon, found.detach_reference) == (0.1, 1e-8, False)


def test_gradient_flows_into_references_unless_they_are_detached():
    """A host that moves old rows: as the paper says, only the scale is a constant."""
    stream, model, plain = built(15)
    detached, moving = (
        Comparison.build(stream, 1, stream.snapshots[0].train[:12], run=15, settings=settings)
        for settings in (Settings(detach_reference=True), Settings())
    )
    gradients = []
    for comparison in (plain, moving, detached):
        entity, relation = Embedding.of(model.entity.clone()), Embedding.of(model.relation.clone())
        Penalty(comparison, model.backbone)(entity, relation, np.arange(12)).backward()
        gradients.append(entity.trained.grad)
    assert torch.equal(gradients[0], gradients[1])
    assert not torch.allclose(gradients[1], gradients[2])


@pytest.mark.parametrize(("fast", "kernels"), [(None, True), (True, True), (False, False)])
def test_the_kernels_are_used_on_the_cpu_unless_they_are_declined(monkeypatch, fast, kernels):
    asked = []
    chosen = penalty_module.sparse_penalty

    def counted(*given, **named):
        asked.append(named)
        return chosen(*given, **named)

    monkeypatch.setattr(penalty_module, "sparse_penalty", counted)
    stream, model, comparison = built(16)
    penalty = Penalty(comparison, model.backbone, fast=fast)
    loss = penalty(*tables(model, stream), np.arange(12))
    assert loss.item() > 0
    assert bool(asked) == kernels
    assert Penalty(comparison).fast is None
    assert asked in ([], [{"beside": False}])


@pytest.mark.parametrize("memory", [1, 1 << 29])
def test_what_borrowed_references_lose_is_counted_over_all_blocks_and_nothing_else_is(memory):
    stream, model, _ = built(13)
    fact, counts = stream.snapshots[0].train[:12], {}
    for kind, variant in penalties().items():
        comparison = Comparison.build(
            stream, 1, fact, run=13, variant=variant, settings=Settings(memory=memory)
        )
        counts[kind] = penalty_records(comparison, model).dropped
        frozen = Penalty(comparison, model.backbone).frozen(*tables(model, stream))
        assert frozen.dropped == (counts[kind] if variant.centered else 0)
    shuffled = Comparison.build(stream, 1, fact, run=13, variant=SHUFFLED)
    everyone = np.flatnonzero(shuffled.eligible)
    borrowed = shuffled.references.draw(shuffled.partner[everyone]).id
    lost = int((borrowed >= 0).sum() - (shuffled.drawn(everyone) >= 0).sum())
    assert counts.pop("shuffled") == lost > 0
    assert set(counts.values()) == {0}


def test_the_first_occurrence_without_a_number_is_the_one_that_is_named():
    _, _, comparison = built(3)
    score = np.zeros((4, 5))
    score[[1, 3], 2] = np.nan
    first, last = comparison.cohort.fact[[20, 2]]
    with pytest.raises(NonFiniteError, match=re.escape(f"({first[0]}, {first[1]}, {first[2]})")) as raised:
        require_finite(comparison.cohort, score, np.array([0, 20, 1, 2]))
    assert f"({last[0]}, {last[1]}, {last[2]})" not in str(raised.value) or (first == last).all()


def test_a_coordinate_at_which_query_and_newcomer_meet_pulls_neither_way():
    """TransE: |q - v| has no slope at 0, on both paths."""
    stream, model, comparison = built(4, "transe")
    n_old = stream.entity_counts[0]
    head, relation, _ = comparison.cohort.fact[1]
    model.entity[n_old:] = model.entity[head] + model.relation[relation]
    model.entity[n_old:, 0] += 0.25
    gradients = []
    for fast in (True, False):
        entity, of = tables(model, stream)
        loss = Penalty(comparison, model.backbone, fast=fast).over(entity, of, np.array([1]))
        assert loss.item() > 0
        loss.backward()
        gradients.append(entity.trained.grad)
    assert gradients[0][:, 0].abs().min() > 0
    assert not gradients[0][:, 1:].any()
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_shuffled_values_are_the_own_means_of_another_query_on_both_paths(name):
    stream, model, own = built(21, name)
    shuffled = replace(own, variant=replace(MEOR, assignment="values"))
    everyone = np.flatnonzero(own.eligible)
    moved = shuffled.value_of[everyone]
    assert (moved != everyone).all()
    assert (own.cohort.side[moved] == own.cohort.side[everyone]).all()
    entity, relation = tables(model, stream)
    kept = Penalty(own, model.backbone).frozen(entity, relation).reference
    found = Penalty(shuffled, model.backbone).frozen(entity, relation).reference
    assert (found[everyone] == kept[moved]).all()
    assert not (found[everyone] == kept[everyone]).all()
    score = table_scores(model.backbone, model.entity, model.relation)
    replay = np.arange(12)
    plain = Penalty(shuffled, model.backbone).of_scores(score, replay)
    fast = Penalty(shuffled, model.backbone)(entity, relation, replay)
    assert fast.item() == pytest.approx(plain.item(), rel=1e-12)
    assert fast.item() > 0


def test_a_single_query_whose_scores_are_minus_infinity_is_noticed():
    """They outrank nobody, so that nothing but a look at all scores finds them."""
    stream, model, comparison = built(10, "distmult")
    model.entity.abs_().add_(1.0)
    model.relation.abs_().add_(1.0)
    model.entity[stream.entity_counts[0] :] = -1e308
    entity, relation = tables(model, stream)
    one = np.flatnonzero(comparison.eligible)[:1]
    with pytest.raises(NonFiniteError, match="fact"):
        Penalty(comparison, model.backbone, fast=True).over(entity, relation, one)
