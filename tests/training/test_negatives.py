from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from meor.errors import InputError
from meor.training.draws import draw_negatives
from meor.typing import Side

ADDRESS = ("negatives", 3, 1, 0)


def _facts(count: int, universe: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, universe, (2, count))
    return np.stack([ends[0], rng.integers(0, 5, count), ends[1]], axis=1)


def test_the_true_entity_is_never_drawn_and_every_id_is_inside_the_universe() -> None:
    for universe in (2, 3, 50):
        fact = _facts(2000, universe)
        drawn = draw_negatives(fact, universe, 10, *ADDRESS)
        true = np.where(drawn.replaced == Side.TAIL, fact[:, 2:], fact[:, :1])
        assert drawn.entity.dtype == np.int64
        assert drawn.replaced.dtype == np.int8
        assert drawn.entity.shape == drawn.replaced.shape == (2000, 10)
        assert (drawn.entity != true).all()
        assert drawn.entity.min() >= 0
        assert drawn.entity.max() < universe


def test_the_coin_is_fair_and_entities_are_uniform_apart_from_the_true_one() -> None:
    fact = np.tile([[2, 0, 7]], (40_000, 1))
    drawn = draw_negatives(fact, 11, 10, *ADDRESS)
    tails = drawn.replaced == Side.TAIL
    assert stats.binomtest(int(tails.sum()), tails.size, 0.5).pvalue > 1e-3
    for side, true in ((Side.HEAD, 2), (Side.TAIL, 7)):
        count = np.bincount(drawn.entity[drawn.replaced == side], minlength=11)
        assert count[true] == 0
        assert stats.chisquare(np.delete(count, true)).pvalue > 1e-3


def test_coin_and_entity_are_independent() -> None:
    fact = np.tile([[0, 0, 0]], (40_000, 1))
    drawn = draw_negatives(fact, 9, 10, *ADDRESS)
    table = np.stack([np.bincount(drawn.entity[drawn.replaced == side], minlength=9)[1:] for side in Side])
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_the_same_address_draws_the_same_and_each_part_of_it_matters() -> None:
    fact = _facts(300, 50)
    first = draw_negatives(fact, 50, 10, *ADDRESS)
    again = draw_negatives(fact, 50, 10, *ADDRESS)
    np.testing.assert_array_equal(first.entity, again.entity)
    np.testing.assert_array_equal(first.replaced, again.replaced)
    for other in (
        ("replay negatives", 3, 1, 0),
        ("negatives", 4, 1, 0),
        ("negatives", 3, 2, 0),
        (*ADDRESS[:3], 1),
    ):
        assert (draw_negatives(fact, 50, 10, *other).entity != first.entity).mean() > 0.9


def test_a_row_belongs_to_its_fact_whatever_comes_after_it() -> None:
    fact = _facts(300, 50)
    whole, part = draw_negatives(fact, 50, 10, *ADDRESS), draw_negatives(fact[:100], 50, 10, *ADDRESS)
    np.testing.assert_array_equal(whole.entity[:100], part.entity)


def test_no_facts_have_no_negatives() -> None:
    drawn = draw_negatives(np.empty((0, 3), np.int64), 0, 10, *ADDRESS)
    assert (drawn.entity.shape, drawn.entity.dtype) == ((0, 10), np.int64)
    assert (drawn.replaced.shape, drawn.replaced.dtype) == ((0, 10), np.int8)
    assert len(drawn) == 0


@pytest.mark.parametrize(("fact", "universe"), [([[0, 0, 0]], 1), ([[0, 0, 5]], 5)])
def test_a_universe_that_cannot_hold_a_negative_is_refused(fact: list[list[int]], universe: int) -> None:
    with pytest.raises(InputError, match="at least two entities"):
        draw_negatives(np.array(fact), universe, 10, *ADDRESS)
