"""Who stands ahead of whom, one by one, where scores are equal too."""

from __future__ import annotations

import numpy as np
import torch
from tests.tiny_run import tiny_stream

from meor.backbone import BACKBONES, Model
from meor.store.graph import through
from meor.store.judging import Lists, gained, judge
from meor.store.protect import protected
from meor.stream.occurrence import EvaluationFilter
from meor.typing import SIDES


def model_with_ties() -> Model:
    """Newcomers e32 to e39 of update 2 share three rows, and two old entities share one with them."""
    draw = np.random.default_rng(3)
    entity = draw.integers(-2, 3, size=(40, 4)).astype(np.float64)
    entity[33:36] = entity[32]
    entity[37:39] = entity[36]
    entity[5] = entity[32]
    relation = draw.integers(-2, 3, size=(4, 4)).astype(np.float64)
    return Model(BACKBONES["distmult"], torch.from_numpy(entity), torch.from_numpy(relation))


def plainly_ahead(
    model: Model, known: EvaluationFilter, fact: np.ndarray, side: int, first: int
) -> list[int]:
    """Candidates from `first` on that precede the answer: by score, and at equal scores by id."""
    which = SIDES[side]
    anchor, answer = int(fact[which.anchor_column]), int(fact[which.answer_column])
    score = model.score(np.array([anchor]), np.array([fact[1]]), which)[0].numpy()
    true = set(known.on(which).of(anchor, int(fact[1])).tolist()) | {answer}
    return [
        e
        for e in range(first, 40)
        if e not in true and (score[e] > score[answer] or (score[e] == score[answer] and e < answer))
    ]


def lists_of(lists: Lists, query: int) -> list[int]:
    return sorted(lists.id[lists.start[query] : lists.start[query + 1]].tolist())


def test_every_newcomer_ahead_is_named_also_at_equal_scores() -> None:
    stream, model = tiny_stream(), model_with_ties()
    known = EvaluationFilter.through(stream, 2)
    found = gained(stream, model, known, 1000, memory=2**30)
    assert found is not None
    assert found.held_out
    tied = 0
    for q in range(len(found.cur)):
        fact, side = found.fact[q], int(found.side[q])
        ahead = [e - 32 for e in plainly_ahead(model, known, fact, side, 32)]
        assert lists_of(found.ahead, q) == ahead
        assert found.cur[q] == 1 + len(plainly_ahead(model, known, fact, side, 0))
        assert found.others[q] + len(ahead) == found.cur[q]
        answer = fact[SIDES[side].answer_column]
        same = (model.entity[32:] == model.entity[answer]).all(1).numpy()
        tied += bool(same[: answer - 32].any())
    assert tied > 0
    np.testing.assert_allclose(found.weight.sum(), 1)


def test_protected_answers_and_the_newcomers_ahead_of_them() -> None:
    stream, model = tiny_stream(), model_with_ties()
    known = EvaluationFilter.through(stream, 2)
    before = protected(through(stream, 1), 1000)
    found = judge(stream, (model, None), known, before, memory=2**30)
    assert len(found.cur) == 24
    for q in range(len(found.cur)):
        fact, side = found.fact[q], int(found.side[q])
        everybody = plainly_ahead(model, known, fact, side, 0)
        assert found.cur[q] == 1 + len(everybody)
        assert found.old[q] == 1 + sum(e < 32 for e in everybody)
        assert lists_of(found.ahead, q) == [e - 32 for e in everybody if e >= 32]
