"""Queries by side and split, and the sample of facts to rank: its key is split and snapshot, nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from meor.stream.occurrence import ALL, EvaluationFilter, facts_to_rank, occurrences, sample_note
from meor.stream.world import world
from meor.typing import SIDES, Side, Split

STREAM = world()


def rows(facts: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(fact) for fact in facts.tolist()]


@pytest.mark.parametrize("split", [Split.VALID, Split.TEST])
def test_a_sample_is_a_part_of_its_snapshot_in_order_and_a_larger_one_holds_it(split: Split) -> None:
    for snapshot, each in enumerate(STREAM.snapshots):
        whole = rows(each.facts([split]))
        small, large = (rows(facts_to_rank(STREAM, snapshot, split, n)) for n in (20, 50))
        assert (len(small), len(large)) == (20, 50)
        assert set(small) < set(large) < set(whole)
        assert small == sorted(small, key=whole.index)


def test_a_sample_no_smaller_than_its_snapshot_leaves_nothing_out() -> None:
    facts = STREAM.snapshots[1].test
    for sample in (ALL, len(facts), len(facts) + 1):
        assert np.array_equal(facts_to_rank(STREAM, 1, Split.TEST, sample), facts)
    assert len(facts_to_rank(STREAM, 0, Split.TEST, len(facts))) == len(facts) < len(STREAM.snapshots[0].test)


def test_facts_stay_in_the_sample_from_update_to_update_and_on_both_sides() -> None:
    last = STREAM.updates[-1]
    final = {side: occurrences(STREAM, last, side, sample=30) for side in SIDES}
    assert np.array_equal(final[SIDES[0]].fact, final[SIDES[1]].fact)
    for update in STREAM.updates:
        asked = occurrences(STREAM, update, SIDES[0], sample=30)
        assert np.array_equal(asked.fact, final[SIDES[0]].fact[final[SIDES[0]].snapshot <= update])
        assert np.bincount(asked.snapshot).tolist() == [30] * (update + 1)


def test_splits_and_snapshots_have_samples_of_their_own() -> None:
    places = [
        np.flatnonzero((STREAM.snapshots[s].facts([split])[:, None] == found).all(2).any(1)).tolist()
        for s, split in ((1, Split.TEST), (1, Split.VALID), (2, Split.TEST))
        for found in [facts_to_rank(STREAM, s, split, 20)]
    ]
    assert len({tuple(place) for place in places}) == 3


def test_a_sample_is_named_and_its_absence_is_not() -> None:
    assert "at most 5,000 facts" in sample_note(5000)
    assert sample_note(ALL) == ""


def test_sides_and_splits_may_be_given_by_name() -> None:
    for side in SIDES:
        plain, named = (occurrences(STREAM, 2, *how) for how in ((side, Split.VALID), (side.label, "valid")))
        assert np.array_equal(plain.fact, named.fact)
        assert named.side is side
    assert np.array_equal(STREAM.prefix(2, ["train", "valid"]), STREAM.prefix(2, [Split.TRAIN, Split.VALID]))
    assert np.array_equal(STREAM.snapshots[1].facts("test"), STREAM.snapshots[1].test)
    kept = EvaluationFilter.through(STREAM, 1, ["train"])
    assert kept.on("head") is kept.on(Side.HEAD)
