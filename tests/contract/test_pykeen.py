"""The same weights give the same scores in PyKEEN (extra `pykeen`; skipped where it is not installed)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from meor.backbone.base import GAMMA
from meor.stream.world import world
from meor.typing import Side

pytest.importorskip("pykeen", reason="PyKEEN comes with the extra `pykeen`: make setup-bench")

from benchmarks.evaluation import random_model
from benchmarks.peer import factory, peer_model


@pytest.mark.parametrize("name", ["complex", "distmult", "rotate", "transe", "transe-l2"])
def test_scores_agree_with_pykeen_for_the_same_weights(name: str) -> None:
    stream = world(seed=0)
    model = random_model(name, stream.entity_counts[0], stream.relation_counts[0], dim=40)
    peer = peer_model(factory(stream), model)
    fact = np.array(stream.snapshots[0].train[:200])
    constant = GAMMA if name in ("rotate", "transe", "transe-l2") else 0.0
    with torch.no_grad():
        whole = peer.score_hrt(torch.from_numpy(fact))[:, 0]
        tails = peer.score_t(torch.from_numpy(fact[:, :2]))
        heads = peer.score_h(torch.from_numpy(fact[:, 1:]))
    assert float((model.score_facts(fact) - constant - whole).abs().max()) < 1e-10
    ours = model.score(fact[:, 0], fact[:, 1], Side.TAIL) - constant
    assert float((ours - tails).abs().max()) < 1e-10
    ours = model.score(fact[:, 2], fact[:, 1], Side.HEAD) - constant
    assert float((ours - heads).abs().max()) < 1e-10
