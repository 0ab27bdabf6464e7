"""Every point of the dial is what a fresh evaluation of scaled rows gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests import oracle

from meor.backbone import BACKBONES, ComplEx, Model
from meor.errors import InputError, MemoryBudgetError, ModelError
from meor.evaluation.dial import (
    Asking,
    checked,
    dial_update,
    require_bilinear,
    require_room,
    scaled,
    spread,
)
from meor.evaluation.rank import Rules, rank_update
from meor.stream.registry import open_stream
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Split

SCALES = np.array([0.5, 0.8, 1.0, 1.3, 2.0])


def random_model(name: str, stream: Stream, seed: int = 3, dim: int = 8) -> Model:
    rng = np.random.default_rng(seed)
    width = BACKBONES[name].width(dim)
    sizes = len(stream.entities), len(stream.relations)
    return Model(BACKBONES[name], *(torch.from_numpy(rng.normal(size=(n, width))) for n in sizes))


def medium_stream(seed: int = 4) -> Stream:
    rng = np.random.default_rng(seed)
    return oracle.small_stream(rng, snapshots=4, base=90, admitted=60, facts=500, relations=3)


@pytest.mark.parametrize("name", ["complex", "distmult"])
@pytest.mark.parametrize("split", [Split.VALID, Split.TEST])
def test_ranks_at_each_scale_equal_those_of_scaled_rows(name: str, split: Split) -> None:
    stream = medium_stream()
    model, n_base = random_model(name, stream), stream.entity_counts[0]
    filters = (Split.TRAIN, Split.VALID)
    moved = 0
    for update in range(1, 4):
        found = dial_update(stream, model, update, SCALES, Asking(split, filter_splits=filters))
        for point, scale in enumerate(SCALES):
            other = scaled(model, n_base, scale)
            fresh = rank_update(stream, other, update, split=split, rules=Rules(filter_splits=filters))
            for ours, theirs in zip(found, fresh, strict=True):
                assert ours.at(point).cur.tolist() == theirs.cur.tolist()
                assert ours.at(point).old.tolist() == theirs.old.tolist()
        moved += sum(int((each.old[0] != each.old[-1]).sum()) for each in found) if update > 1 else 0
    assert moved > 50  # H_old depends on the scale from update 2 on


@pytest.mark.parametrize("name", ["complex", "distmult"])
def test_carried_ranks_are_those_made_anew(name: str) -> None:
    stream = medium_stream(9)
    model = random_model(name, stream)
    last = ()
    for update in range(1, 4):
        last = dial_update(stream, model, update, SCALES, previous=last)
        anew = dial_update(stream, model, update, SCALES)
        for one, other in zip(last, anew, strict=True):
            assert (one.cur == other.cur).all()
            assert (one.old == other.old).all()


def test_sides_samples_and_a_tight_budget_change_no_rank() -> None:
    stream, scales = medium_stream(), spread(points=9)
    model = random_model("complex", stream)
    whole = dial_update(stream, model, 3, scales, Asking(sample=40))
    tight = dial_update(stream, model, 3, scales, Asking(sample=40, memory=5 << 20))
    alone = dial_update(stream, model, 3, scales, Asking(sample=40, sides=SIDES[1:]))
    narrow = dial_update(
        stream, Model(model.backbone, model.entity.float(), model.relation.float()), 3, scales, Asking()
    )
    for one, other in zip((*whole, whole[1]), (*tight, *alone), strict=True):
        assert (one.cur == other.cur).all()
        assert (one.old == other.old).all()
    assert len(whole[0].occurrences) < len(narrow[0].occurrences)


def test_at_scale_one_a_tie_is_decided_by_id_and_elsewhere_it_is_none() -> None:
    """Equal rows: a newcomer ties with an old answer and stands after it; a larger scale puts it before."""
    rows = torch.ones(4, 1, dtype=torch.float64)
    stream = oracle.build_stream(
        "pair",
        [
            {Split.TRAIN: [("a", "r", "b")], Split.VALID: [("b", "r", "a")], Split.TEST: []},
            {
                Split.TRAIN: [("c", "r", "d")],
                Split.VALID: [("a", "r", "c")],
                Split.TEST: [],
            },
        ],
    )
    model = Model(BACKBONES["distmult"], rows, torch.ones(1, 1, dtype=torch.float64))
    _, tail = dial_update(stream, model, 1, np.array([0.5, 1.0, 2.0]))
    # (b, r, a): the candidates are a, b, c and d. (a, r, c): b is known, so a and d compete with c.
    assert tail.cur[:, 0].tolist() == [1, 1, 3]
    assert tail.cur[:, 1].tolist() == [2, 2, 1]
    below = Model(model.backbone, rows, -model.relation)
    _, tail = dial_update(stream, below, 1, np.array([0.5, 1.0, 2.0]))
    assert tail.cur[:, 0].tolist() == [3, 1, 1]
    assert tail.cur[:, 1].tolist() == [1, 2, 2]


def test_the_default_scales_hold_one() -> None:
    scales = spread()
    assert len(scales) == 50
    assert scales[0] == 0.5
    assert scales[-1] == pytest.approx(2.0)
    assert np.count_nonzero(scales == 1.0) == 1
    assert (np.diff(scales) > 0).all()
    assert 1.0 not in spread(1.5, 2.0, 5)


def test_scales_are_sorted_and_those_that_are_none_refused() -> None:
    assert checked([2, 1, 2, 0.5]).tolist() == [0.5, 1, 2]
    for wrong in ([], [0.0], [-1.0], [float("nan")], [float("inf")], [1, 1e4]):
        with pytest.raises(InputError, match=r"between 0\.001 and 1000"):
            checked(wrong)


def test_only_scores_that_are_linear_in_both_rows_can_be_dialled() -> None:
    stream = medium_stream()
    require_bilinear(random_model("complex", stream))
    with pytest.raises(ModelError, match="no inner product"):
        require_bilinear(random_model("transe", stream))

    class Bent(ComplEx):
        name = "bent"
        geometry = ComplEx.geometry

        def query(self, anchor_QW, relation_QW, side):
            return super().query(torch.tanh(anchor_QW), relation_QW, side)

    model = random_model("complex", stream)
    with pytest.raises(ModelError, match="not linear"):
        require_bilinear(Model(Bent(), model.entity, model.relation))


def test_a_budget_that_cannot_hold_the_curve_is_refused_before_anything_is_ranked() -> None:
    stream = medium_stream()
    assert require_room(stream, [1, 2], 50, Asking()) < Asking().memory
    with pytest.raises(MemoryBudgetError, match="fewer --scales"):
        require_room(stream, [1, 2], 50, Asking(memory=10_000))


def test_on_the_world_five_scales_equal_fresh_evaluations() -> None:
    stream = open_stream("world")
    model, n_base = random_model("complex", stream, dim=16), stream.entity_counts[0]
    scales = spread()[[3, 14, 25, 33, 48]]
    for update in (1, 3):
        found = dial_update(stream, model, update, scales)
        for point, scale in enumerate(scales):
            fresh = rank_update(stream, scaled(model, n_base, scale), update, split=Split.VALID)
            for ours, theirs in zip(found, fresh, strict=True):
                assert ours.at(point).cur.tolist() == theirs.cur.tolist()
                assert ours.at(point).old.tolist() == theirs.old.tolist()
