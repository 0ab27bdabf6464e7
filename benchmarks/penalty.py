"""What the penalty adds to a refinement pass, against the bare product of its scores."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.timing import alternate, seconds
from meor.backbone import BACKBONES, Model
from meor.hosts.replay import Replay
from meor.methods.comparison import Comparison
from meor.methods.penalty import Penalty
from meor.stream.snapshot import Stream
from meor.training.draws import draw_buffer
from meor.training.host import Plan, Update
from meor.training.initialise import base_model, grow
from meor.training.refine import refine
from meor.training.training import Training

SEED = 0


def trained_base(stream: Stream, epochs: int = 100) -> Model:
    """A base that ranks well above chance: an untrained one has no answers to outrank."""
    plan = Plan(seed=SEED, passes=epochs, order="permuted", learning_rate=1e-3)
    model = base_model(
        BACKBONES["complex"], 200, stream.entity_counts[0], stream.relation_counts[0], seed=SEED
    )
    return refine(Training.begin(Replay(plan), model, Update.of(stream, 0)))


def refinement_pass(stream: Stream) -> dict[str, object]:
    """ENTITY update 1, ComplEx 200, float64, 2,048 replay facts in both directions, J = 4."""
    buffer = draw_buffer(stream, 1, seed=SEED)
    update = Update.of(stream, 1, buffer)
    warm = Plan(seed=SEED, passes=3, learning_rate=1e-2)
    grown = grow(trained_base(stream), update, seed=SEED)
    # A few passes first, so that newcomers compete as they do in the middle of a refinement.
    model = refine(Training.begin(Replay(warm), grown, update, warm))
    plan = Plan(seed=SEED, passes=1, learning_rate=1e-3)
    found: dict[str, Penalty] = {}

    def construct() -> None:
        comparison = Comparison.build(stream, 1, buffer.fact, run=SEED)
        found["penalty"] = Penalty(comparison, model.backbone, beside=True)
        opened = Training.begin(Replay(plan), model, update)
        found["penalty"].frozen(opened.entity, opened.relation)

    construct()
    construction = seconds(construct)
    penalty = found["penalty"]

    def one_pass(coefficient: float) -> float:
        opened = Training.begin(Replay(plan), model, update)
        penalty.frozen(opened.entity, opened.relation)  # constants of the update, made once
        return seconds(lambda: refine(opened, penalty=penalty, coefficient=coefficient))

    query = torch.rand(2 * len(buffer.fact), 400, dtype=torch.float64)
    newcomer = torch.rand(400, len(stream.newcomers(1)), dtype=torch.float64)
    out = torch.empty(len(query), newcomer.shape[1], dtype=torch.float64)
    one_pass(0.0), one_pass(1e-2)
    added, replay = [], []
    product = alternate({"product": lambda: torch.mm(query, newcomer, out=out)}, repeats=10)["product"]
    for _ in range(31):  # differences of two passes: one is small beside the noise of either
        plain = one_pass(0.0)
        added.append(one_pass(1e-2) - plain)
        replay.append(plain)
    product = min(
        product, alternate({"product": lambda: torch.mm(query, newcomer, out=out)}, repeats=10)["product"]
    )
    extra, base = float(np.median(added)), float(np.median(replay))
    return {
        "what": "what MEOR adds to a pass, ENTITY update 1, ComplEx 200, float64, 4,096 occurrences, J = 4",
        "added_seconds": extra,
        "product_seconds": product,
        "ratio_to_product": extra / product,
        "replay_pass_seconds": base,
        "ratio_to_replay_pass": extra / base,
        "construction_seconds": construction,
    }
