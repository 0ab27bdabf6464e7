"""The probe: what it asks, what it holds as answers, and what it adds, against plain computations."""

import numpy as np
import pytest
from tests.growth import growing, pressing, random_model, tables
from tests.methods.test_penalty import value_and_gradient

from meor.backbone import BACKBONES
from meor.errors import ConfigError
from meor.methods.comparison import Comparison, both_sides_of
from meor.methods.dense import table_scores
from meor.methods.probe import BEST, FULL, LARGEST, ONE_IN, TURNS, Probe, _best_by_rows, imagined
from meor.methods.registry import METHODS
from meor.typing import SIDES, Side, Split


def made(seed=0, name="complex", n_old=30):
    stream = growing(seed, n_old=n_old, n_new=8)
    model = random_model(stream, name, seed, newcomers=pressing(name))
    compared = Comparison.build(stream, 1, stream.snapshots[0].train[:12], run=seed, variant=LARGEST)
    return stream, model, Probe(compared, BACKBONES[name])


def scores(model, fact, side, candidates):
    query = model.query(fact[side.anchor_column][None], fact[1][None], side)
    return model.backbone.compare_all(query.double(), model.entity[candidates].double())[0].detach().numpy()


@pytest.mark.parametrize("name", ["complex", "transe", "transe-inverse"])
def test_a_question_is_that_of_an_old_fact_and_its_answer_one_of_the_ten_best_old_entities(name):
    stream, model, probe = made(name=name)
    cohort, past = probe.cohort, stream.prefix(0, [Split.TRAIN])
    found = imagined(past, 200, cohort, _best_by_rows(model, cohort.n_old, BEST))
    assert len(found) == 200
    assert found[:, [0, 2]].max() < cohort.n_old
    places = set()
    for number, fact in enumerate(found):
        side = SIDES[number % 2]
        asked = past[:, [side.anchor_column, 1]]
        assert (asked == fact[[side.anchor_column, 1]]).all(1).any()
        score = scores(model, fact, side, np.arange(cohort.n_old))
        places.add(int((score > score[fact[side.answer_column]]).sum()))
    assert places == set(range(BEST))


@pytest.mark.parametrize(
    ("n_old", "count"), [(30, 1), (ONE_IN, 1), (3 * ONE_IN + 25, 3), (BEST * ONE_IN - 91, BEST), (6000, BEST)]
)
def test_answers_are_fewer_in_a_small_graph_where_the_tenth_best_is_a_poor_one(n_old, count):
    _, model, probe = made(n_old=n_old)
    probe.begin(model)
    assert probe._count == count
    places = set()
    for number, fact in enumerate(probe._asked.cohort.fact[:: len(SIDES)]):
        side = SIDES[number % 2]
        score = scores(model, fact, side, np.arange(n_old))
        places.add(int((score > score[fact[side.answer_column]]).sum()))
    assert places <= set(range(count))
    assert len(places) > count / 2


@pytest.mark.parametrize("name", ["complex", "transe"])
def test_the_value_is_the_squared_gap_of_the_strongest_newcomer_that_is_no_known_answer(name):
    stream, model, probe = made(name=name)
    probe.begin(model)
    asked = probe._asked
    index = both_sides_of(np.arange(12))
    stood_for = probe._stood_for(index)
    total = []
    for x in stood_for:
        fact, side = asked.cohort.fact[x], Side(asked.cohort.side[x])
        newcomers = asked.cohort.newcomers_of(x)
        answer = scores(model, fact, side, [fact[side.answer_column]])[0]
        sample = scores(model, fact, side, asked.cohort.scale_of(x))
        gap = max(scores(model, fact, side, newcomers).max() - answer, 0.0)
        total.append((gap / np.subtract(*np.quantile(sample, [0.75, 0.25]))) ** 2)
    value, gradient = value_and_gradient(probe, model, stream, np.arange(12))
    assert value == pytest.approx(8 / 30 / FULL * np.mean(total), rel=1e-9), "in proportion to newcomers"
    assert value > 0
    assert bool(gradient.abs().sum() > 0)


def test_from_many_newcomers_on_the_penalty_has_its_full_weight():
    stream, model, probe = made(n_old=8)
    assert FULL < 8 / 8
    probe.begin(model)
    entity, relation = tables(model, stream)
    index = both_sides_of(np.arange(12))
    asked = probe._asked.over(entity, relation, probe._stood_for(index))
    assert probe.over(entity, relation, index).item() == asked.item() > 0


def test_an_occurrence_asks_its_questions_in_turn_and_on_its_own_side():
    _, model, probe = made()
    probe.begin(model)
    index = both_sides_of(np.arange(12))
    seen = {tuple(probe._stood_for(np.roll(index, -2 * shift))[[0]]) for shift in range(12)}
    assert len(seen) == 12
    both = [probe._stood_for(np.concatenate([both_sides_of(np.array([first])), index])) for first in (0, 1)]
    assert TURNS == 2
    assert not (both[0][2:] == both[1][2:]).any(), "the other turn"
    for one in both:
        assert (probe._asked.cohort.side[one[2:]] == index % 2).all()


def test_questions_follow_the_rows_that_the_update_begins_with():
    stream, model, probe = made()
    probe.begin(model)
    entity, relation = tables(model, stream)
    before = probe(entity, relation, np.arange(12)).item()
    again = Probe(probe.comparison, probe.backbone)
    assert again(entity, relation, np.arange(12)).item() == before, "without begin: the rows it meets first"
    other = random_model(stream, "complex", 5)
    again.begin(other)
    assert (again._asked.cohort.fact != probe._asked.cohort.fact).any()


def test_nothing_is_asked_where_the_buffer_is_empty_and_a_stream_is_needed():
    stream, model, _ = made()
    empty = Probe(
        Comparison.build(stream, 1, np.empty((0, 3), int), run=0, variant=LARGEST), BACKBONES["complex"]
    )
    empty.begin(model)
    entity, relation = tables(model, stream)
    assert not empty(entity, relation, np.empty(0, int)).requires_grad
    compared = Comparison.build(stream, 1, stream.snapshots[0].train[:3], run=0)
    with pytest.raises(ConfigError, match=r"Comparison\.build"):
        Probe(Comparison(compared.references), BACKBONES["complex"]).begin(model)


def test_the_record_of_the_method_makes_one():
    _, _, probe = made()
    build = METHODS["probe"].build
    assert isinstance(build(probe.comparison, probe.backbone), Probe)
    assert METHODS["cap+probe"].capped


@pytest.mark.parametrize("name", ["complex", "transe"])
def test_a_scoring_function_is_asked_the_same_questions_and_gives_the_same_value(name):
    stream, model, probe = made(name=name)
    entity, relation = tables(model, stream)
    by_rows = probe(entity, relation, np.arange(12))
    score = table_scores(probe.backbone, entity.whole(), relation.whole())
    other = Probe(probe.comparison)
    by_scores = other.of_scores(score, np.arange(12))
    assert (other._asked.cohort.fact == probe._asked.cohort.fact).all()
    assert by_scores.item() == pytest.approx(by_rows.item(), rel=1e-9)
    held = Probe(probe.comparison)
    held.hold_scale(score)
    assert held.of_scores(score, np.arange(12)).item() == pytest.approx(by_rows.item(), rel=1e-9)
    assert not held.of_scores(score, np.empty(0, int)).requires_grad
