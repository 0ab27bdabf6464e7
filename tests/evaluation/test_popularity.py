from __future__ import annotations

import numpy as np
import pytest
from tests import oracle

from meor.evaluation.endpoints import Endpoint
from meor.evaluation.popularity import popularity_endpoints, rank_by_popularity
from meor.stream.registry import open_stream
from meor.typing import SIDES, Split


def plain(fact, side, train, known, n):
    """The place of the answer among the eligible candidates, most popular first."""
    role = [(f[1], f[side.answer_column]) for f in train]
    anywhere = [entity for _, entity in role]
    order = sorted(
        oracle.eligible(fact, side, known, n),
        key=lambda e: (-role.count((fact[1], e)), -anywhere.count(e), e),
    )
    answer = fact[side.answer_column]
    return order.index(answer) + 1 if answer < n else 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("filters", [("train", "valid", "test"), ("train", "valid"), ()])
def test_ranks_are_those_of_a_sort_by_degree(seed: int, filters: tuple[str, ...]) -> None:
    rng = np.random.default_rng(seed)
    stream = oracle.small_stream(rng, snapshots=3, base=8, admitted=5, facts=30, relations=2)
    splits = tuple(Split(name) for name in filters)
    for update in (0, 1, 2):
        train = stream.prefix(update, [Split.TRAIN]).tolist()
        known = {tuple(fact) for fact in stream.prefix(update, splits).tolist()} if splits else set()
        universes = (stream.entity_counts[update - 1] if update else 0), stream.entity_counts[update]
        for ranks in rank_by_popularity(stream, update, split=Split.VALID, filter_splits=splits):
            asked = ranks.occurrences
            for found, universe in zip((ranks.old, ranks.cur), universes, strict=True):
                wanted = [plain(fact, asked.side, train, known, universe) for fact in asked.fact.tolist()]
                assert found.tolist() == wanted


def test_endpoints_of_the_world_are_defined_and_add_up() -> None:
    found = popularity_endpoints(open_stream("world"), split=Split.VALID)
    values = {name: found[name].value for name in ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")}
    assert isinstance(found["H_cur"], Endpoint)
    assert len(found["H_cur"].cells) == 4 * len(SIDES)
    assert values["D_MCI"] == values["H_old"] - values["H_cur"] >= 0
    assert all(0 < values[name] < 1 for name in ("H_cur", "H_old", "A_TN", "A_QN"))


def test_sides_updates_and_samples_are_those_asked_for() -> None:
    stream = open_stream("world")
    whole = rank_by_popularity(stream, 2)[1]
    (alone,) = rank_by_popularity(stream, 2, sides="tail", sample=50)
    assert len(alone) == 150
    places = {tuple(fact): cur for fact, cur in zip(whole.occurrences.fact.tolist(), whole.cur, strict=True)}
    assert all(
        places[tuple(fact)] == cur
        for fact, cur in zip(alone.occurrences.fact.tolist(), alone.cur, strict=True)
    )
    found = popularity_endpoints(stream, updates=[2], sides="tail", sample=50)
    assert [cell.update for cell in found["H_cur"].cells] == [2]
