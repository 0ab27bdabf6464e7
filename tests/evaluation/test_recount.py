"""Queries that are counted again and again have the counts of a fresh count, whatever newcomers do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.evaluation.test_rank import EVERY, frozen_models, lively_stream

from meor.backbone import BACKBONES, Backbone, Geometry, Model
from meor.errors import NonFiniteError
from meor.evaluation.rank import count, universes_of
from meor.evaluation.recount import Recount
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.search.ordered import Ordered
from meor.stream.occurrence import EvaluationFilter, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Side, Split

SPLITS = (Split.TRAIN, Split.VALID)


def recount(
    stream: Stream, update: int, side: Side, *, n_relations: int | None = None, room: int = 2**20
) -> Recount:
    asked = occurrences(stream, update, side, Split.VALID)
    known = EvaluationFilter.through(stream, update, SPLITS)
    old = stream.relation_counts[update - 1] if n_relations is None else n_relations
    return Recount(asked, known, universes_of(stream, update), old, DEFAULT_MEMORY, room)


def moved(model: Model, first: int, seed: int) -> Model:
    """Newcomers elsewhere; coarse rows, so that scores tie."""
    entity = model.entity.clone()
    rows = np.random.default_rng(seed).integers(-2, 3, entity[first:].shape)
    entity[first:] = torch.from_numpy(rows).to(entity)
    return replace(model, entity=entity)


@EVERY
@pytest.mark.parametrize("room", [2**20, 0])
@pytest.mark.parametrize("narrow", [False, True])
def test_it_counts_what_a_fresh_count_counts(backbone: Backbone, room: int, narrow: bool) -> None:
    ties = 0
    for seed in range(4):
        stream = lively_stream(seed)
        models = frozen_models(stream, backbone, seed)
        for update in stream.updates:
            whole = models[update]
            model = replace(whole, entity=whole.entity.float()) if narrow else whole
            for side in SIDES:
                kept = recount(stream, update, side, room=room)
                for turn in range(3):
                    now = moved(model, kept.universes[0], turn)
                    found, fresh = kept(now), count(now, kept.asked, kept.known, kept.universes)
                    np.testing.assert_array_equal(found.old, fresh.old)
                    np.testing.assert_array_equal(found.new, fresh.new)
                    ties += int(fresh.old[kept.asked.answer >= kept.universes[0], 1:].sum())
    assert ties > 0  # some old candidate ties with a newcomer's answer


@EVERY
def test_old_scores_are_kept_in_order_where_they_are_inner_products(backbone: Backbone) -> None:
    stream = lively_stream(2)
    kept = recount(stream, 3, Side.TAIL)
    kept(frozen_models(stream, backbone, 2)[3])
    ordered = [part for part in kept._standing if isinstance(part.old, Ordered)]
    assert bool(ordered) == (backbone.geometry is Geometry.DOT)


def test_a_relation_that_is_new_moves_its_queries() -> None:
    stream = lively_stream(1)
    model = frozen_models(stream, BACKBONES["complex"], 1)[3]
    kept = recount(stream, 3, Side.HEAD, n_relations=1)
    kept(model)
    model.relation[1:] += 1.0
    found, fresh = kept(model), count(model, kept.asked, kept.known, kept.universes)
    np.testing.assert_array_equal(found.old, fresh.old)
    np.testing.assert_array_equal(found.new, fresh.new)
    assert (kept.asked.relation[kept._moving] >= 1).any()


def test_room_for_some_queries_keeps_those() -> None:
    stream = lively_stream(1)
    model = frozen_models(stream, BACKBONES["complex"], 1)[3]
    kept = recount(stream, 3, Side.HEAD, room=600)
    found, fresh = kept(model), count(model, kept.asked, kept.known, kept.universes)
    np.testing.assert_array_equal(found.old, fresh.old)
    np.testing.assert_array_equal(found.new, fresh.new)
    newcomers = int((kept.asked.answer >= kept.universes[0]).sum())
    ordered = sum(len(part.place) for part in kept._standing if isinstance(part.old, Ordered))
    assert 0 < ordered < newcomers


def test_a_newcomer_that_is_no_number_is_refused() -> None:
    stream = lively_stream(1)
    model = frozen_models(stream, BACKBONES["complex"], 1)[3]
    kept = recount(stream, 3, Side.HEAD)
    kept(model)
    model.entity[-1, 0] = float("nan")
    with pytest.raises(NonFiniteError, match=f"candidate {len(model.entity) - 1}|a score is NaN"):
        kept(model)
