"""A training epoch against PyKEEN's SLCWA loop, and its distance to the machine's limits."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.evaluation import random_model
from benchmarks.peer import factory, peer_model
from benchmarks.timing import seconds
from meor.backbone import BACKBONES
from meor.hosts.replay import Replay
from meor.stream.snapshot import Stream
from meor.training.host import Plan, Update
from meor.training.initialise import base_model
from meor.training.refine import refine
from meor.training.training import Training


def epoch_against_pykeen(stream: Stream, name: str) -> dict[str, object]:
    """Snapshot 0, dimension 200, float64, batch 2,048, 10 negatives, Adam and sampling included."""
    from pykeen.training import SLCWATrainingLoop

    n_entities, n_relations = stream.entity_counts[0], stream.relation_counts[0]
    epochs = 6
    plan = Plan(passes=epochs, order="permuted")
    model = base_model(BACKBONES[name], 200, n_entities, n_relations, seed=0, std=0.05)

    def ours() -> None:
        refine(Training.begin(Replay(plan), model, Update.of(stream, 0)))

    triples = factory(stream)
    peer = peer_model(triples, random_model(name, n_entities, n_relations))

    def theirs() -> None:
        # A loop counts its epochs over calls, so each measurement has a new one.
        loop = SLCWATrainingLoop(
            model=peer,
            triples_factory=triples,
            optimizer=torch.optim.Adam(peer.parameters(), lr=1e-4),
            negative_sampler="basic",
            negative_sampler_kwargs={"num_negs_per_pos": 10},
        )
        loop.train(
            triples_factory=triples, num_epochs=2, batch_size=2048, use_tqdm=False, use_tqdm_batch=False
        )

    ours()
    mine = [seconds(ours) / epochs for _ in range(3)]
    if name != "complex":  # its warm-up is a small part of its seconds
        theirs()
    peers = seconds(theirs) / 2
    mine += [seconds(ours) / epochs for _ in range(3)]
    ours_seconds = float(np.median(mine))
    return {
        "what": f"one epoch, ENTITY snapshot 0, {name} 200, float64, batch 2,048, 10 negatives",
        "meor_seconds": ours_seconds,
        "pykeen_seconds": peers,
        "times_faster": peers / ours_seconds,
        **limits(stream, BACKBONES[name].width(200), ours_seconds),
    }


def limits(stream: Stream, width: int, epoch_seconds: float) -> dict[str, object]:
    """What an epoch must move and compute at least, and the share of its time that would take alone.

    Rows: every negative is read once to score it and its query row once to form its gradient; Adam
    reads value, gradient and two moments and writes three. Bandwidth is that of a copy measured here.
    """
    n_facts, n_rows = len(stream.snapshots[0].train), stream.entity_counts[0] + stream.relation_counts[0]
    steps = -(-n_facts // 2048)
    row = width * 8
    moved = n_facts * (10 + 13) * row + steps * n_rows * row * 7
    flops = n_facts * 10 * width * 6
    source, target = torch.rand(2**24, dtype=torch.float64), torch.empty(2**24, dtype=torch.float64)
    target.copy_(source)
    bandwidth = 2 * source.nbytes / min(seconds(lambda: target.copy_(source)) for _ in range(5))
    matrix = torch.rand(2048, 2048, dtype=torch.float64)
    matrix @ matrix
    peak = 2 * 2048**3 / min(seconds(lambda: matrix @ matrix) for _ in range(3))
    return {
        "copy_bandwidth_gb_s": bandwidth / 1e9,
        "share_of_time_at_copy_bandwidth": moved / bandwidth / epoch_seconds,
        "matmul_gflops": peak / 1e9,
        "share_of_time_at_matmul_speed": flops / peak / epoch_seconds,
    }
