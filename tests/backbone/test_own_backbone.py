"""A backbone from one short file: the very block of docs/extend.md trains, ranks exactly, audits, reports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.extend import document, invoke
from tests.tiny_run import SETTINGS, tiny_stream

from meor import METHODS, Comparison, Embedding, Penalty
from meor.backbone import BACKBONES, Backbone, ComplEx, DistMult, Geometry, Model, TransE
from meor.errors import ConfigError
from meor.evaluation.audit import Question, audit, displacement_json
from meor.evaluation.rank import rank_update
from meor.methods.dense import table_scores
from meor.stream.files import write_stream
from meor.stream.occurrence import EvaluationFilter
from meor.stream.snapshot import Stream
from meor.training.host import Update
from meor.training.initialise import grow
from meor.typing import SIDES, Side, Split


@pytest.fixture
def l2(monkeypatch: pytest.MonkeyPatch) -> Backbone:
    monkeypatch.setitem(BACKBONES, "l2", None)  # so that it is gone after the test
    document("backbone", lines=40)
    return BACKBONES["l2"]


def random_model(backbone: Backbone, stream: Stream, seed: int = 0) -> Model:
    rng = np.random.default_rng(seed)
    n, m = len(stream.entities), len(stream.relations)
    entity = rng.normal(size=(n, 5))
    entity[3::7] = entity[2]  # real ties, between old entities and newcomers alike
    return Model(backbone, torch.from_numpy(entity), torch.from_numpy(rng.normal(size=(m, 5))))


def sorted_ranks(stream: Stream, model: Model, update: int, side: Side) -> tuple[list[int], list[int]]:
    """Old and current rank by sorting all candidates by score, then by id."""
    asked = rank_update(stream, model, update, sides=[side])[0].occurrences
    known = EvaluationFilter.through(stream, update).on(side)
    old, cur = [], []
    for anchor, relation, answer in zip(asked.anchor, asked.relation, asked.answer, strict=True):
        for found, n in ((old, stream.entity_counts[update - 1]), (cur, stream.entity_counts[update])):
            left_out = set(known.of(anchor, relation).tolist()) - {answer}
            fact = np.array([[e, relation, anchor][:: 1 if side is Side.HEAD else -1] for e in range(n)])
            score = model.score_facts(fact).tolist()
            order = sorted((e for e in range(n) if e not in left_out), key=lambda e: (-score[e], e))
            found.append(order.index(answer) + 1 if answer < n else 0)
    return old, cur


@pytest.mark.parametrize("side", SIDES)
def test_ranks_are_those_of_a_sort(l2: Backbone, side: Side) -> None:
    stream = tiny_stream()
    model = random_model(l2, stream)
    for update in stream.updates:
        (ranks,) = rank_update(stream, model, update, sides=[side])
        assert (ranks.old.tolist(), ranks.cur.tolist()) == sorted_ranks(stream, model, update, side)


def test_a_plain_function_has_the_ranks_of_its_model() -> None:
    stream = tiny_stream()
    for backbone in (TransE(), DistMult()):
        model = random_model(backbone, stream)
        for ours, theirs in zip(
            rank_update(stream, model, 2), rank_update(stream, model.score, 2), strict=True
        ):
            assert (ours.old == theirs.old).all()
            assert (ours.cur == theirs.cur).all()


def test_a_plain_function_is_audited_like_its_model() -> None:
    stream = tiny_stream()
    model = random_model(DistMult(), stream)
    question = Question(updates=(1, 2))
    ours, theirs = (
        audit(stream, lambda _, given=given: given, question)[Split.TEST] for given in (model, model.score)
    )
    assert displacement_json(stream, ours) == displacement_json(stream, theirs)
    assert ours.endpoints == theirs.endpoints
    assert ours.total.displaced > 0


def test_newcomers_cannot_start_at_a_query_row_of_another_width() -> None:
    class Wider(TransE):
        def query(self, anchor_QW, relation_QW, side):
            return torch.cat([anchor_QW, relation_QW], dim=-1)

    stream = tiny_stream()
    n, m = stream.entity_counts[0], stream.relation_counts[0]
    whole = random_model(Wider(), stream)
    base = Model(whole.backbone, whole.entity[:n], whole.relation[:m])
    with pytest.raises(ConfigError, match="another width"):
        grow(base, Update.of(stream, 1), seed=0, scheme="neighbours")


def test_the_gradient_of_the_penalty_is_that_of_autograd(l2: Backbone) -> None:
    stream = tiny_stream()
    fact = stream.snapshots[0].train[:20]
    comparison = Comparison.build(stream, 1, fact, run=3)
    n, m = stream.entity_counts[1], stream.relation_counts[1]
    whole = random_model(l2, stream)
    first = stream.entity_counts[0]
    entity = Embedding.of(whole.entity[:n].clone(), first)
    relation = Embedding.of(whole.relation[:m].clone(), stream.relation_counts[0])
    replay = np.arange(len(fact))
    loss = Penalty(comparison, l2)(entity, relation, replay)
    (gradient,) = torch.autograd.grad(loss, entity.trained)
    rows = entity.trained.detach().clone().requires_grad_()
    scores = table_scores(l2, torch.cat([entity.data[:first], rows]), relation.data)
    plain = Penalty(comparison).of_scores(scores, replay)
    (expected,) = torch.autograd.grad(plain, rows)
    assert loss.item() > 0
    torch.testing.assert_close(loss.detach(), plain.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", sorted(name for name in METHODS if not METHODS[name].capped))
def test_it_runs_audits_and_reports(l2: Backbone, method: str, tmp_path: Path) -> None:
    stream, run = tmp_path / "ring", tmp_path / "run"
    write_stream(tiny_stream(), stream)
    small = [part for text in (*SETTINGS, "coefficient=3") for part in ("--set", text)]
    chosen = ["--backbone", "l2", "--method", method]
    told = invoke("run", "--stream", stream, *chosen, *small, "--out", run, "--quiet")
    audited = json.loads(invoke("audit", run, "--json"))
    if METHODS[method].kind != "transform":
        assert audited["disagreements"] == [], told
    assert audited["endpoints.json"]["test"]["H_cur"]["value"] > 0
    if method == "meor":
        invoke("report", run)
        assert list(run.glob("**/*.html"))


class Changed(ComplEx):
    name = "changed"

    def compare(self, query_QW: torch.Tensor, candidate_QW: torch.Tensor) -> torch.Tensor:
        return -(query_QW - candidate_QW).square().sum(-1)


def test_who_changes_the_formula_loses_what_was_declared_about_it() -> None:
    class Mixed(type("Mixin", (), {"compare_all": Changed.compare}), TransE): ...

    class OtherQuery(DistMult):
        def query(self, anchor_QW, relation_QW, side):
            return -anchor_QW * relation_QW

    class Declared(Changed):
        geometry = Geometry.L1

    assert (Changed.geometry, Changed.fused_form) == (None, None)
    assert (Mixed.geometry, Mixed.fused_form) == (None, None)
    assert (OtherQuery.geometry, OtherQuery.fused_form) == (Geometry.DOT, None)
    assert (Declared.geometry, Declared.fused_form) == (Geometry.L1, None)
    assert (ComplEx.geometry, ComplEx.fused_form) == (Geometry.DOT, 0)


def test_ranks_follow_a_changed_formula() -> None:
    stream = tiny_stream()
    rng = np.random.default_rng(5)
    tables = (rng.normal(size=(n, 4)) for n in (len(stream.entities), len(stream.relations)))
    model = Model(Changed(), *(torch.from_numpy(table) for table in tables))
    (ranks,) = rank_update(stream, model, 1, sides=[Side.TAIL])
    assert ranks.cur.tolist() == sorted_ranks(stream, model, 1, Side.TAIL)[1]


def test_a_score_that_nobody_would_call_is_refused() -> None:
    with pytest.raises(TypeError, match="compare"):
        type("Wrong", (ComplEx,), {"score": lambda self: 0})


def test_a_backbone_without_a_formula_says_so() -> None:
    class Empty(TransE):
        geometry = None

    with pytest.raises(TypeError, match="declare its geometry"):
        Empty().compare(torch.zeros(2), torch.zeros(2))
