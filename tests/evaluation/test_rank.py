"""Ranks from one pass, and the shortcut for models whose old rows stand still."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from meor.backbone import BACKBONES, Backbone, Model
from meor.errors import ConfigError, MemoryBudgetError, NonFiniteError
from meor.evaluation.rank import (
    FilterPrefix,
    Ranks,
    Rules,
    Ties,
    plain_rank,
    rank_update,
    rank_update_incrementally,
)
from meor.stream.snapshot import Stream, build_stream
from meor.typing import Role, Side, Split

EVERY = pytest.mark.parametrize("backbone", BACKBONES.values(), ids=BACKBONES.keys())


def lively_stream(seed: int) -> Stream:
    """Four snapshots with newcomers, facts between old entities, and one update without newcomers."""
    rng = np.random.default_rng(seed)
    sizes = (12, 16, 16, 21)
    seen: set[tuple[str, str, str]] = set()
    snapshots = []
    for index, size in enumerate(sizes):
        before = sizes[index - 1] if index else 0
        splits: dict[Split, list[tuple[str, str, str]]] = {split: [] for split in Split}
        linked = [(f"e{new}", "r0", f"e{rng.integers(max(before, 1))}") for new in range(before, size)]
        random = [
            (f"e{rng.integers(size)}", f"r{rng.integers(3)}", f"e{rng.integers(size)}") for _ in range(40)
        ]
        for place, fact in enumerate([*linked, ("e0", "r1", "e1"), ("e1", "r2", "e0"), *random]):
            if fact not in seen:
                seen.add(fact)
                train = place < len(linked) + 2 or place % 3 == 0
                splits[Split.TRAIN if train else (Split.VALID, Split.TEST)[place % 2]].append(fact)
        snapshots.append(splits)
    return build_stream("lively", snapshots)


def frozen_models(stream: Stream, backbone: Backbone, seed: int) -> list[Model]:
    """A model for each update, each keeping the rows of the one before; coarse rows, so that scores tie."""
    rng = np.random.default_rng(seed)
    width = backbone.width(3)
    entity = torch.from_numpy(rng.integers(-2, 3, (stream.entity_counts[-1], width)).astype(np.float64))
    shape = stream.relation_counts[-1], backbone.relation_columns(width)
    relation = torch.from_numpy(rng.integers(-2, 3, shape).astype(np.float64))
    sizes = zip(stream.entity_counts, stream.relation_counts, strict=True)
    return [Model(backbone, entity[:n], relation[:m]) for n, m in sizes]


@EVERY
def test_a_sample_carried_over_has_the_ranks_of_all_facts(backbone: Backbone) -> None:
    stream = lively_stream(3)
    models = frozen_models(stream, backbone, 3)
    previous = rank_update(stream, models[0], 0, sample=5)
    for update in stream.updates:
        previous = rank_update_incrementally(stream, models[update], update, previous, sample=5)
        for some, whole in zip(previous, rank_update(stream, models[update], update), strict=True):
            at = {tuple(fact): row for row, fact in enumerate(whole.occurrences.fact.tolist())}
            rows = [at[tuple(fact)] for fact in some.occurrences.fact.tolist()]
            assert len(rows) < len(whole)
            assert np.array_equal(some.old, whole.old[rows])
            assert np.array_equal(some.cur, whole.cur[rows])


@EVERY
def test_ranks_carried_over_equal_ranks_computed_anew(backbone: Backbone) -> None:
    met = 0
    for seed in range(15):
        stream = lively_stream(seed)
        models = frozen_models(stream, backbone, seed)
        previous = rank_update(stream, models[0], 0)
        for update in stream.updates:
            full = rank_update(stream, models[update], update)
            previous = rank_update_incrementally(stream, models[update], update, previous)
            for mine, whole in zip(previous, full, strict=True):
                np.testing.assert_array_equal(mine.old, whole.old)
                np.testing.assert_array_equal(mine.cur, whole.cur)
                np.testing.assert_array_equal(mine.occurrences.fact, whole.occurrences.fact)
                met += int((whole.occurrences.role == Role.SETTLED).sum())
    assert met > 50  # the streams do hold what the shortcut must correct for


@EVERY
def test_the_old_universe_of_an_update_is_the_current_one_of_the_last(backbone: Backbone) -> None:
    """H_old(u + 1) = H_cur(u) to the bit where rows are frozen and the filter is held fixed."""
    stream = lively_stream(3)
    models = frozen_models(stream, backbone, 3)
    for update in (1, 3):
        unfiltered = Rules(filter_splits=())
        last = rank_update(stream, models[update - 1], update - 1, rules=unfiltered)
        now = rank_update(stream, models[update], update, rules=unfiltered)
        for before, after in zip(last, now, strict=True):
            np.testing.assert_array_equal(after.old[: len(before)], before.cur)


@EVERY
def test_the_memory_budget_does_not_change_a_rank(backbone: Backbone) -> None:
    stream = lively_stream(5)
    model = frozen_models(stream, backbone, 5)[-1]
    wide = rank_update(stream, model, 3, memory=2**30)
    tight = rank_update(stream, model, 3, memory=5 * 2**20)
    assert all(np.array_equal(one.cur, other.cur) for one, other in zip(wide, tight, strict=True))


def test_a_budget_below_one_tile_is_refused_with_the_need() -> None:
    stream = lively_stream(0)
    model = frozen_models(stream, BACKBONES["complex"], 0)[-1]
    with pytest.raises(MemoryBudgetError, match="Raise --memory"):
        rank_update(stream, model, 3, memory=1000)


@EVERY
def test_a_row_that_is_no_number_names_a_query(backbone: Backbone) -> None:
    stream = lively_stream(1)
    model = frozen_models(stream, backbone, 1)[-1]
    model.entity[[7, 9], 0] = float("nan")
    with pytest.raises(NonFiniteError, match=r"fact \(head \d+, relation \d+, tail \d+\)") as raised:
        rank_update(stream, model, 3)
    assert "candidate 7 has" in str(raised.value)
    assert "as have 1 others" in str(raised.value)


def test_a_score_that_overflows_names_its_query() -> None:
    stream = lively_stream(1)
    model = frozen_models(stream, BACKBONES["distmult"], 1)[-1]
    model.entity[:] = 1e200
    model.relation[:] = 1e200
    with pytest.raises(NonFiniteError, match="score is NaN or infinite"):
        rank_update(stream, model, 3)


def test_an_answer_that_is_a_newcomer_has_no_old_rank() -> None:
    stream = lively_stream(2)
    ranks: tuple[Ranks, ...] = rank_update(stream, frozen_models(stream, BACKBONES["complex"], 2)[3], 3)
    for one in ranks:
        newcomer = one.occurrences.role == Role.TARGET_NEWCOMER
        assert newcomer.any()
        assert (one.old[newcomer] == 0).all()
        assert (one.old[~newcomer] >= 1).all()
        assert (one.cur >= one.old).all()


def test_sides_splits_and_rules_are_known_by_name() -> None:
    stream = lively_stream(3)
    model = frozen_models(stream, BACKBONES["distmult"], 3)[1]
    rules = Rules("realistic", "introduced", ["train", "valid"])  # type: ignore[arg-type]
    (named,) = rank_update(stream, model, 1, split="valid", sides="tail", rules=rules)
    exact = Rules(Ties.REALISTIC, FilterPrefix.INTRODUCED, (Split.TRAIN, Split.VALID))
    (meant,) = rank_update(stream, model, 1, split=Split.VALID, sides=[Side.TAIL], rules=exact)
    assert named.cur.tolist() == meant.cur.tolist()
    for wrong in ({"sides": ["hed"]}, {"split": "tset"}):
        with pytest.raises(ConfigError, match=r"there is no (side|split)"):
            rank_update(stream, model, 1, **wrong)  # type: ignore[arg-type]


def test_the_plain_rank_counts_who_is_ahead_and_never_the_answer_itself() -> None:
    score = np.array([[3.0, 1.0, 2.0, 2.0, 2.0, 9.0]])
    nobody = np.zeros((1, 6), np.bool_)
    first = nobody.copy()
    first[0, 0] = True
    for answer, left_out, universe, wanted in (
        (3, nobody, 5, 3),  # 0 is higher, 2 is equal with a smaller id
        (3, nobody, 6, 4),
        (3, first, 5, 2),
        (5, nobody, 6, 1),
    ):
        assert plain_rank(score, np.array([answer]), left_out, universe).tolist() == [wanted]
