from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from meor.errors import ConfigError
from meor.stream.snapshot import Stream, build_stream
from meor.training.draws import Policy, admit_to_reservoir, draw_buffer, empty_buffer
from meor.typing import Split

POLICIES: tuple[Policy, ...] = ("uniform", "reservoir")


@pytest.mark.parametrize("policy", POLICIES)
def test_it_holds_distinct_training_facts_of_earlier_snapshots_only(stream: Stream, policy: Policy) -> None:
    past = stream.prefix(1, [Split.TRAIN])
    buffer = draw_buffer(stream, 2, seed=0, size=20, policy=policy)
    assert len(buffer) == len(set(buffer.row.tolist())) == 20
    np.testing.assert_array_equal(past[buffer.row], buffer.fact)
    assert buffer.row.dtype == np.int64


@pytest.mark.parametrize("policy", POLICIES)
def test_a_short_history_is_taken_whole(stream: Stream, policy: Policy) -> None:
    past = stream.prefix(1, [Split.TRAIN])
    assert sorted(draw_buffer(stream, 2, seed=0, policy=policy).row) == list(range(len(past)))


def test_the_base_has_nothing_to_replay(stream: Stream) -> None:
    assert len(draw_buffer(stream, 0, seed=0)) == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_the_draw_is_addressed_by_run_and_update(stream: Stream, policy: Policy) -> None:
    def rows(seed: int, update: int) -> list[int]:
        return draw_buffer(stream, update, seed=seed, size=20, policy=policy).row.tolist()

    assert rows(0, 2) == rows(0, 2)
    assert rows(0, 2) != rows(1, 2)
    assert rows(0, 2) != rows(0, 1)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_earlier_fact_is_equally_likely(stream: Stream, policy: Policy) -> None:
    n = len(stream.prefix(1, [Split.TRAIN]))
    count = np.zeros(n)
    for seed in range(1500):
        count[draw_buffer(stream, 2, seed=seed, size=30, policy=policy).row] += 1
    assert count.sum() == 1500 * 30
    # Draws without replacement vary less than independent ones, so this test is on the safe side.
    assert stats.chisquare(count).pvalue > 1e-3


def test_a_reservoir_needs_only_what_it_kept_and_how_many_came() -> None:
    kept = admit_to_reservoir(np.empty(0, np.int64), 0, 50, seed=3, snapshot=0, size=8)
    later = admit_to_reservoir(kept, 50, 40, seed=3, snapshot=1, size=8)
    assert len(kept) == len(later) == 8
    assert kept.max() < 50
    assert 0 < (later >= 50).sum() < 8
    assert set(later[later < 50]) <= set(kept)


def test_the_vectorised_reservoir_equals_one_fact_at_a_time() -> None:
    from meor.random import generator

    kept = admit_to_reservoir(np.empty(0, np.int64), 0, 500, seed=1, snapshot=0, size=5)
    slot = generator("reservoir", 1, 0).integers(0, np.arange(5, 500) + 1)
    plain = list(range(5))
    for fact, place in zip(range(5, 500), slot, strict=True):
        if place < 5:
            plain[place] = fact
    assert kept.tolist() == plain


def test_an_unknown_policy_is_refused(stream: Stream) -> None:
    with pytest.raises(ConfigError, match="uniform, reservoir"):
        draw_buffer(stream, 1, seed=0, policy="newest")  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_buffer_of_nothing_has_the_shape_of_facts(stream: Stream, policy: Policy) -> None:
    for empty in (empty_buffer(), draw_buffer(stream, 0, seed=0, policy=policy)):
        assert (empty.fact.shape, empty.fact.dtype) == ((0, 3), np.int64)
        assert (empty.row.shape, empty.row.dtype) == ((0,), np.int64)
        assert len(empty) == 0


def test_a_buffer_holds_2048_facts_unless_told() -> None:
    facts = [(f"e{index}", "r", f"e{index + 1}") for index in range(3000)]
    stream = build_stream("long", [{Split.TRAIN: facts}, {Split.TRAIN: [("n", "r", "e0")]}])
    assert all(len(draw_buffer(stream, 1, seed=0, policy=policy)) == 2048 for policy in POLICIES)
