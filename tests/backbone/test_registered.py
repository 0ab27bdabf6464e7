"""RotatE, TransE with L2 and TransDot train, rank exactly, and take every method."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.extend import invoke
from tests.tiny_run import SETTINGS, tiny_stream

from meor import METHODS, Comparison, Embedding, Penalty
from meor.backbone import BACKBONES, Model, RotatE
from meor.methods.dense import table_scores
from meor.stream.files import write_stream
from meor.typing import Side

NAMES = ("rotate", "transe-l2", "transdot")
WITHOUT_CAP = sorted(name for name in METHODS if not METHODS[name].capped)


@pytest.mark.parametrize("number", range(len(WITHOUT_CAP)), ids=WITHOUT_CAP)
def test_every_method_runs_and_its_ranks_follow_from_its_models(number: int, tmp_path: Path) -> None:
    """The backbones take turns, so that each meets several methods and each method one of them."""
    stream, run = tmp_path / "ring", tmp_path / "run"
    write_stream(tiny_stream(), stream)
    small = [part for text in (*SETTINGS, "coefficient=3") for part in ("--set", text)]
    chosen = ["--backbone", NAMES[number % len(NAMES)], "--method", WITHOUT_CAP[number]]
    invoke("run", "--stream", stream, *chosen, *small, "--out", run, "--quiet")
    audited = json.loads(invoke("audit", run, "--json"))
    if METHODS[WITHOUT_CAP[number]].kind != "transform":
        assert audited["disagreements"] == []
    assert audited["endpoints.json"]["test"]["H_cur"]["value"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_of_the_penalty_is_that_of_its_formula(name: str) -> None:
    stream, rng = tiny_stream(), np.random.default_rng(2)
    backbone = BACKBONES[name]
    fact = stream.snapshots[0].train[:20]
    comparison = Comparison.build(stream, 1, fact, run=3)
    n, m = stream.entity_counts[1], stream.relation_counts[1]
    rows = [torch.from_numpy(rng.normal(size=(count, backbone.width(3)))) for count in (n, m)]
    first = stream.entity_counts[0]
    entity, relation = Embedding.of(rows[0], first), Embedding.of(rows[1], stream.relation_counts[0])
    replay = np.arange(len(fact))
    loss = Penalty(comparison, backbone)(entity, relation, replay)
    (gradient,) = torch.autograd.grad(loss, entity.trained)
    free = entity.trained.detach().clone().requires_grad_()
    plain = Penalty(comparison).of_scores(
        table_scores(backbone, torch.cat([entity.data[:first], free]), relation.data), replay
    )
    (expected,) = torch.autograd.grad(plain, free)
    assert loss.item() > 0
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


def test_a_relation_of_rotate_turns_and_never_stretches() -> None:
    rng = np.random.default_rng(0)
    entity, relation = (torch.from_numpy(rng.normal(size=(4, 6))) for _ in range(2))
    ids = np.arange(4)
    long = Model(RotatE(), entity, 7.0 * relation).query(ids, ids, Side.TAIL)
    short = Model(RotatE(), entity, relation).query(ids, ids, Side.TAIL)
    torch.testing.assert_close(long, short)
    moduli = torch.hypot(*long.chunk(2, 1))
    torch.testing.assert_close(moduli, torch.hypot(*entity.chunk(2, 1)))


def test_a_relation_row_of_zeros_is_no_division_by_zero() -> None:
    relation = torch.zeros(1, 6, dtype=torch.float64, requires_grad=True)
    entity = torch.ones(2, 6, dtype=torch.float64)
    query = Model(RotatE(), entity, relation).query(np.array([0]), np.array([0]), Side.HEAD)
    assert bool(torch.isfinite(query).all())
