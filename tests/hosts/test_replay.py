from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meor.hosts.replay import ReplayPass, even_slice
from meor.stream.snapshot import Stream
from meor.training.draws import draw_buffer
from meor.training.host import Plan, Step, Update

PLAN = Plan(seed=5, batch_size=7, negatives=4)


@pytest.fixture(scope="module")
def update(stream: Stream) -> Update:
    return Update.of(stream, 1, draw_buffer(stream, 1, seed=5, size=17))


def _steps(update: Update, plan: Plan, pass_number: int = 0) -> list[Step]:
    steps = ReplayPass(update, plan, pass_number)
    return [steps[index] for index in range(len(steps))]


def _current(step: Step) -> np.ndarray:
    return step.batch.fact[: len(step.batch) - len(step.replay)]


def test_an_update_says_which_ids_are_old(stream: Stream) -> None:
    base, first = Update.of(stream, 0), Update.of(stream, 1)
    assert (base.n_old, base.m_old, len(base.replay)) == (0, 0, 0)
    assert (first.n_old, first.n_entities) == (base.n_entities, stream.entity_counts[1])
    assert (first.m_old, first.m_relations) == (base.m_relations, stream.relation_counts[1])


def test_file_order_takes_the_facts_as_they_stand_in_blocks(update: Update) -> None:
    steps = _steps(update, PLAN)
    np.testing.assert_array_equal(np.concatenate([_current(step) for step in steps]), update.train)
    assert [len(_current(step)) for step in steps[:-1]] == [7] * (len(steps) - 1)
    assert len(steps) == -(-len(update.train) // 7)
    np.testing.assert_array_equal(np.concatenate([step.replay for step in steps]), np.arange(17))


def test_a_permuted_pass_holds_every_fact_once_in_an_order_of_its_own(update: Update) -> None:
    plan = replace(PLAN, order="permuted")
    orders = []
    for pass_number in range(3):
        facts = np.concatenate([_current(step) for step in _steps(update, plan, pass_number)])
        assert sorted(map(tuple, facts)) == sorted(map(tuple, update.train))
        orders.append(facts.tolist())
    assert orders[0] != orders[1] != orders[2]
    again = np.concatenate([_current(step) for step in _steps(update, plan, 1)])
    assert again.tolist() == orders[1]


@pytest.mark.parametrize("order", ["file", "permuted"])
def test_each_replay_fact_comes_once_a_pass_in_even_slices(update: Update, order: str) -> None:
    steps = _steps(update, replace(PLAN, order=order))
    sizes = [len(step.replay) for step in steps]
    assert max(sizes) - min(sizes) <= 1
    assert sorted(np.concatenate([step.replay for step in steps])) == list(range(17))
    for step in steps:
        replayed = step.batch.fact[len(step.batch) - len(step.replay) :]
        np.testing.assert_array_equal(replayed, update.replay.fact[step.replay])


def test_slices_cover_everything_whatever_the_sizes() -> None:
    for total in range(12):
        for parts in range(1, 9):
            slices = [even_slice(total, index, parts) for index in range(parts)]
            assert [one[1] for one in slices[:-1]] == [one[0] for one in slices[1:]]
            assert (slices[0][0], slices[-1][1]) == (0, total)


def _negatives_of_facts(update: Update, plan: Plan) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for step in _steps(update, plan):
        batch = step.batch
        for fact, negative, side in zip(batch.fact, batch.negative, batch.replaced, strict=True):
            found.setdefault(tuple(fact), []).append((*negative, *side))
    return {fact: sorted(rows) for fact, rows in found.items()}


def test_a_fact_keeps_its_negatives_whatever_the_order_and_the_batch_size(update: Update) -> None:
    plain = _negatives_of_facts(update, PLAN)
    assert plain == _negatives_of_facts(update, replace(PLAN, batch_size=2048))
    assert plain == _negatives_of_facts(update, replace(PLAN, order="permuted", batch_size=3))


def test_the_buffer_does_not_shift_the_negatives_of_current_facts(update: Update) -> None:
    bare = Update(1, update.train, update.n_old, update.n_entities, update.m_old, update.m_relations)
    for one, other in zip(_steps(update, PLAN), _steps(bare, PLAN), strict=True):
        np.testing.assert_array_equal(one.batch.negative[: len(_current(one))], other.batch.negative)


def test_replay_negatives_can_be_kept_from_newcomers(update: Update) -> None:
    for choice, new_ones in (("current", True), ("old", False)):
        plan = replace(PLAN, replay_negatives=choice)
        drawn = np.concatenate([step.batch.negative[len(_current(step)) :] for step in _steps(update, plan)])
        assert (drawn >= update.n_old).any() == new_ones


def test_a_step_is_asked_for_by_number(update: Update) -> None:
    steps = ReplayPass(update, PLAN, 0)
    np.testing.assert_array_equal(steps[2].batch.fact, steps[2].batch.fact)
    with pytest.raises(IndexError):
        steps[len(steps)]
