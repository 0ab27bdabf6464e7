"""Answers by label: exact, in either universe, with known facts or without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from meor.errors import InputError
from meor.store.answers import Answers, Query
from meor.store.folder import Store
from meor.typing import SIDES, Side


@pytest.fixture(scope="module")
def model(made: Path) -> Answers:
    return Answers.of(Store.open(made).version())


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("universe", ["old", "current"])
@pytest.mark.parametrize("known", ["include", "exclude"])
def test_the_best_answers_are_those_of_all_scores(
    model: Answers, side: Side, universe: str, known: str
) -> None:
    stream = model.stream
    size = model.n_old if universe == "old" else model.n_current
    assert model.n_old < model.n_current
    for anchor in range(0, model.n_current, 5):
        for relation in range(len(stream.relations)):
            score = model.model.score(np.array([anchor]), np.array([relation]), side)[0].numpy()
            true = set(model.known.on(side).of(anchor, relation).tolist())
            ids = [e for e in range(size) if known == "include" or e not in true]
            wanted = sorted(ids, key=lambda e: (-round(score[e], 9), e))[:7]
            labels = stream.entities.label(anchor), stream.relations.label(relation)
            query = Query(*labels, side)
            found = model.top_each([query], 7, universe=universe, known=known)[0]  # type: ignore[arg-type]
            assert [answer.label for answer in found] == [stream.entities.label(e) for e in wanted]
            assert [answer.rank for answer in found] == list(range(1, len(wanted) + 1))
            np.testing.assert_allclose([answer.score for answer in found], score[wanted], rtol=1e-9)
            for answer, e in zip(found, wanted, strict=True):
                assert answer.known == (e in true)
                assert answer.newcomer == (e >= model.n_old)
                assert answer.admitted_at == stream.entities.admitted_at[e]


def test_its_repr_names_the_version(model: Answers) -> None:
    assert repr(model) == f"Answers of {model.name}: {model.n_current} entities"


def test_many_queries_get_the_answers_of_each_alone(model: Answers) -> None:
    asked = [Query.of(f"e{e}", "r1") for e in range(9)] + [Query.of("?", "r2", f"e{e}") for e in range(9)]
    asked = asked[::2] + asked[1::2]
    together = model.top_each(asked, 4)
    for query, found in zip(asked, together, strict=True):
        head, relation, tail = query.parts
        assert found == model.top(head, relation, 4, tail=tail)


def test_more_answers_than_entities_are_all_of_them(model: Answers) -> None:
    assert len(model.top("e0", "r0", 10_000)) == model.n_current
    excluded = model.top("e0", "r0", 10_000, known="exclude")
    assert len(excluded) == model.n_current - len(model.known.on(Side.TAIL).of(0, 0))


@pytest.mark.parametrize(
    ("head", "relation", "tail", "match"),
    [
        ("e0", "r0", "e1", "exactly one end"),
        ("?", "r0", "?", "exactly one end"),
        ("e00", "r0", "?", "no entity 'e00'.*nearest"),
        ("e0", "unknown", "?", "no relation 'unknown'"),
        ("\x1b[31m" + "x" * 5000, "r0", "?", "no entity"),
    ],
)
def test_a_query_that_cannot_be_answered_says_why(
    model: Answers, head: str, relation: str, tail: str, match: str
) -> None:
    with pytest.raises(InputError, match=match) as error:
        model.top(head, relation, tail=tail)
    assert len(str(error.value)) < 600
    with pytest.raises(InputError, match="at least 1"):
        model.top("e0", "r0", 0)
    with pytest.raises(InputError, match="old or current"):
        model.top("e0", "r0", universe="new")  # type: ignore[arg-type]
