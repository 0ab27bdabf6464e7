"""A run's model in PyKEEN: the same scores, frozen old rows, and weights that survive a training."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.pykeen.small import train
from tests.pykeen_models import save
from tests.tiny_run import each_step, tiny_config, tiny_stream

import meor
from meor.backbone.base import GAMMA
from meor.errors import ModelError, RunError
from meor.run.session import start
from meor.stream.files import write_stream
from meor.typing import Side

pytest.importorskip("pykeen", reason="PyKEEN comes with the extra `pykeen`: make setup-bench")

from meor.pykeen import grow, triples_of

BACKBONES = ("complex", "distmult", "transe", "transe-l2", "rotate")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run per backbone."""
    root = tmp_path_factory.mktemp("runs")
    write_stream(tiny_stream(), root / "ring")
    for name in (*BACKBONES, "transdot"):
        config = tiny_config(f"backbone={name}", stream=root / "ring")
        start(config, root / name, resources=each_step(root / "cache"))
    config = tiny_config("method=calibration", stream=root / "ring")
    start(config, root / "calibration", resources=each_step(root / "cache"))
    return root


def scores(model, fact: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        return model.predict_t(fact[:, :2]), model.predict_h(fact[:, 1:])


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("update", [0, 2])
def test_scores_are_equal(name: str, update: int, runs: Path) -> None:
    view = meor.RunView.open(runs / name)
    ours, fact = view.model(update), tiny_stream().prefix(update)
    constant = GAMMA if name in ("transe", "transe-l2", "rotate") else 0.0
    tails, heads = scores(meor.to_pykeen(view, update), torch.from_numpy(fact))
    tail = ours.score(fact[:, 0], fact[:, 1], Side.TAIL) - constant
    head = ours.score(fact[:, 2], fact[:, 1], Side.HEAD) - constant
    assert (tails - tail).abs().max() < 1e-10
    assert (heads - head).abs().max() < 1e-10


@pytest.mark.parametrize("name", BACKBONES)
def test_training_on_keeps_what_was_learned_and_moves_newcomers_alone(name: str, runs: Path) -> None:
    stream, model = tiny_stream(), meor.to_pykeen(runs / name)
    before = copy.deepcopy(model.state_dict())
    train(model, triples_of(stream, 2))
    after = model.state_dict()
    n_old = stream.entity_counts[1]
    entity = "entity_representations.0._embeddings.weight"
    assert torch.equal(before[entity][:n_old], after[entity][:n_old])
    assert not torch.equal(before[entity][n_old:], after[entity][n_old:])
    assert (before[entity] - after[entity]).abs().max() < 1  # from where they were, not from a new draw
    model.reset_parameters_()
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    stored = meor.RunView.open(runs / name).model(2)
    assert torch.equal(meor.to_pykeen(runs / name).state_dict()[entity], before[entity])
    assert stored.n_entities == len(before[entity])


@pytest.mark.parametrize("name", ["complex", "rotate"])
def test_saved_by_pykeen_it_is_read_back_without_pykeen(name: str, runs: Path, tmp_path: Path) -> None:
    stream = tiny_stream()
    save(meor.to_pykeen(runs / name), triples_of(stream, 2), tmp_path)
    found = meor.audit(meor.read_pykeen(tmp_path), stream, 2)
    expected = meor.audit(meor.RunView.open(runs / name).model(2), stream, 2)
    for mine, theirs in zip(found.ranks[2], expected.ranks[2], strict=True):
        assert np.array_equal(mine.cur, theirs.cur)
        assert np.array_equal(mine.old, theirs.old)


def test_it_grows_into_the_next_update(runs: Path) -> None:
    stream = tiny_stream()
    model = meor.to_pykeen(runs / "distmult", 1)
    larger = grow(model, triples_of(stream, 1), triples_of(stream, 2))
    before = copy.deepcopy(larger.state_dict())
    train(larger, triples_of(stream, 2))
    entity = "entity_representations.0._embeddings.weight"
    moved = torch.nonzero((before[entity] != larger.state_dict()[entity]).any(1))[:, 0]
    assert moved.min() >= stream.entity_counts[1]


def test_unfrozen_every_row_is_trained_and_options_reach_pykeen(runs: Path) -> None:
    model = meor.to_pykeen(runs / "distmult", 1, frozen=False, loss="nssa")
    assert type(model.loss).__name__ == "NSSALoss"
    entity = "entity_representations.0._embeddings.weight"
    before = copy.deepcopy(model.state_dict())
    train(model, triples_of(tiny_stream(), 1))
    assert (before[entity] != model.state_dict()[entity]).any(1)[:24].any()


def test_what_pykeen_cannot_hold_is_refused_with_a_sentence(runs: Path) -> None:
    with pytest.raises(ModelError, match="no model that scores as transdot"):
        meor.to_pykeen(runs / "transdot")
    with pytest.raises(ModelError, match="changes scores after training"):
        meor.to_pykeen(runs / "calibration")
    with pytest.raises(RunError, match="has no update 7"):
        meor.to_pykeen(runs / "complex", 7)
