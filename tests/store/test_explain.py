"""Explanations, against scores of every entity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from meor.errors import InputError
from meor.store.admit import Request, admit
from meor.store.answers import Query
from meor.store.explain import Subject, explain
from meor.stream.occurrence import EvaluationFilter
from meor.typing import Side


@pytest.fixture
def subject(store: Path, batch: Path) -> Subject:
    admit(store, Request(batch, budget=1.0))
    return Subject.of(store)


@pytest.mark.parametrize("side", [Side.HEAD, Side.TAIL])
def test_ranks_displacers_and_shares_add_up(subject: Subject, side: Side) -> None:
    stream, model = subject.stream, subject.model
    known = EvaluationFilter.through(stream, 2)
    fallen = 0
    for fact in stream.prefix(1, ["test"]):
        anchor, relation, answer = int(fact[side.anchor_column]), int(fact[1]), int(fact[side.answer_column])
        query = Query(stream.entities.label(anchor), stream.relations.label(relation), side)
        told = explain(subject, query, answer=stream.entities.label(answer))
        score = model.score(np.array([anchor]), np.array([relation]), side)[0].numpy()
        ahead = score > score[answer]
        ahead[known.on(side).of(anchor, relation)] = False
        counts = stream.entity_counts
        assert told["rank_old"] == 1 + ahead[: counts[1]].sum()
        assert told["rank_current"] == 1 + ahead.sum()
        first = stream.entities.admitted_at[answer]
        wanted = [1 + int(ahead[: counts[at]].sum()) for at in range(first, 3)]
        assert [each["rank"] for each in told["rank_by_admission"]] == wanted
        displacers = [stream.entities.label(e) for e in np.flatnonzero(ahead) if e >= counts[1]]
        assert sorted(each["newcomer"] for each in told["displacers"]) == sorted(displacers)
        gaps = [each["gap"] for each in told["displacers"]]
        assert gaps == sorted(gaps, reverse=True)
        assert all(gap > 0 for gap in gaps)
        assert sum(each["share"] for each in told["displacers"]) == pytest.approx(told["lost"])
        for each in told["displacers"]:
            assert each["rank_without"] == told["rank_current"] - 1
            assert each["facts"]
            assert all(each["newcomer"] in (head, tail) for head, _, tail in each["facts"])
        fallen += bool(displacers)
        pressure = told["pressure"]
        assert (pressure["newcomers"] > 0) == bool(displacers)
        assert pressure["excess"] == max(pressure["newcomers"] - pressure["matched_old"], 0)
    assert fallen > 2


def test_a_run_is_explained_at_each_of_its_updates(finished: Path) -> None:
    for update in (0, 1, 2):
        subject = Subject.of(finished / "run", update=update)
        assert len(subject.stream.snapshots) == update + 1
        told = explain(subject, Query.of("e0", "r0"), update=update)
        assert told["update"] == update
        assert told["known"]
        assert told["answer_chosen"] == "the best known answer"
    assert Subject.of(finished / "run").name == "update-2"
    with pytest.raises(InputError, match="no update 9"):
        Subject.of(finished / "run", update=9)


def test_a_newcomers_own_rank_is_explained(subject: Subject) -> None:
    stream = subject.stream
    fact = next(f for f in stream.snapshots[2].train.tolist() if f[2] >= stream.entity_counts[1])
    labels = stream.entities.label(fact[0]), stream.relations.label(fact[1])
    told = explain(subject, Query.of(*labels), answer=stream.entities.label(fact[2]))
    assert told["rank_old"] is None
    assert told["pressure"] is None
    assert told["admitted_at"] == 2
    with pytest.raises(InputError, match="no update 7"):
        explain(subject, Query.of(*labels), update=7)
    with pytest.raises(InputError, match="no entity 'x'"):
        explain(subject, Query.of(*labels), answer="x")
