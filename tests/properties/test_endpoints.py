"""P5: what endpoints promise for any ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.properties.lengths import Lengths

from meor.errors import EmptyCellError
from meor.evaluation.displacement import tally
from meor.evaluation.endpoints import ENDPOINTS, METRICS, Endpoint, endpoint, endpoints, key
from meor.evaluation.rank import Ranks
from meor.stream.occurrence import Occurrences
from meor.typing import SIDES, Role

holds = Lengths(short=500, long=10_000)


@st.composite
def cells(draw, roles=tuple(Role), least=0) -> list[Ranks]:
    updates = range(1, draw(st.integers(1, 3)) + 1)
    found = []
    for update in updates:
        for side in SIDES:
            n = draw(st.integers(least, 12))
            rng = np.random.default_rng(draw(st.integers(0, 2**32)))
            role = rng.choice(np.array(roles, dtype=np.int8), n)
            old = rng.integers(1, 10 ** draw(st.integers(1, 5)), n)
            ahead = rng.integers(0, 50, n)
            old[role == Role.TARGET_NEWCOMER] = 0
            asked = Occurrences(
                update, side, np.zeros((n, 3), dtype=np.int64), np.zeros(n, dtype=np.int64), role
            )
            found.append(Ranks(asked, old, np.maximum(old + ahead, 1)))
    return found


def moved(ranks: list[Ranks], seed: int) -> list[Ranks]:
    """The same queries under another model."""
    rng = np.random.default_rng(seed)
    changed = []
    for each in ranks:
        old = np.where(each.old > 0, rng.integers(1, 500, len(each.old)), 0)
        changed.append(Ranks(each.occurrences, old, np.maximum(old, 1) + rng.integers(0, 40, len(old))))
    return changed


@holds(cells(roles=(Role.HISTORICAL,), least=1), st.integers(0, 2**32), st.sampled_from(METRICS))
def test_the_gain_is_the_gain_among_old_plus_the_reduction_of_displacement(ranks, seed, metric):
    before = {name: endpoint(name, ranks, metric=metric).value for name in ("H_cur", "H_old", "D_MCI")}
    after = {name: endpoint(name, moved(ranks, seed), metric=metric).value for name in before}
    gain = {name: after[name] - before[name] for name in before}
    assert abs(gain["H_cur"] - (gain["H_old"] - gain["D_MCI"])) <= 1e-15


@holds(cells(), st.integers(0, 2**32))
def test_the_order_of_queries_and_cells_changes_no_bit(ranks, seed):
    rng = np.random.default_rng(seed)
    declared = [(each.occurrences.update, each.occurrences.side) for each in ranks]
    shuffled = []
    for each in ranks:
        order = rng.permutation(len(each.cur))
        shuffled.append(Ranks(each.occurrences.select(order), each.old[order], each.cur[order]))
    shuffled.reverse()
    one, other = endpoints(ranks, cells=declared), endpoints(shuffled, cells=declared)
    assert {name: found.to_json() for name, found in one.items()} == {
        name: found.to_json() for name, found in other.items()
    }


@holds(cells())
def test_an_endpoint_exists_exactly_if_every_declared_cell_holds_a_query(ranks):
    found = endpoints(ranks)
    role_of = {"H_cur": 0, "H_old": 0, "D_MCI": 0, "A_TN": 1, "A_QN": 2, "settled_cur": 3, "settled_old": 3}
    for name in ENDPOINTS:
        full = all((each.occurrences.role == role_of[name]).any() for each in ranks)
        for metric in METRICS:
            assert isinstance(found[key(name, metric)], Endpoint) is full
            if not full:
                with pytest.raises(EmptyCellError):
                    endpoint(name, ranks, metric=metric)


@holds(cells(roles=(Role.HISTORICAL, Role.QUERY_NEWCOMER), least=1))
def test_cells_weigh_the_same_and_repeating_a_cells_queries_changes_nothing(ranks):
    first = ranks[0]
    twice = np.tile(np.arange(len(first.cur)), 2)
    doubled = [Ranks(first.occurrences.select(twice), first.old[twice], first.cur[twice]), *ranks[1:]]
    one, other = endpoints(ranks), endpoints(doubled)
    for name, found in one.items():
        if isinstance(found, Endpoint):
            assert found.value == pytest.approx(other[name].value, abs=1e-15)
            assert found.value == pytest.approx(np.mean([cell.value for cell in found.cells]), abs=1e-15)


@holds(cells(roles=(Role.HISTORICAL,), least=1))
def test_displacement_is_never_negative_and_is_what_the_queries_lost(ranks):
    found = endpoint("D_MCI", ranks)
    for cell, each in zip(found.cells, ranks, strict=True):
        assert cell.value >= 0
        assert cell.value == pytest.approx(tally([each]).mean_lost, abs=1e-15)


@holds(cells(least=1), st.integers(0, 2**32))
def test_groups_partition_the_reciprocal_ranks(ranks, seed):
    rng = np.random.default_rng(seed)
    chosen = [rng.random(len(each.cur)) < 0.5 for each in ranks]
    parts = [
        [each.select(mask ^ flip) for each, mask in zip(ranks, chosen, strict=True)] for flip in (False, True)
    ]
    total = tally(ranks)
    assert total.queries == sum(tally(part).queries for part in parts)
    assert total.places == sum(tally(part).places for part in parts)
    assert total.lost == pytest.approx(sum(tally(part).lost for part in parts), abs=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("name", holds.known)
def test_the_same_at_length(name):
    holds.at_length(name)
