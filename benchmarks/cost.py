"""Seconds of a step against |N|, J and K, and how steeply they grow (Eq. complexity).

Eq. complexity is about a batch without score reuse: the general path, with draws, scale and backward pass
made anew at each step. A size is measured in turn with the smallest one, whose seconds are subtracted: what
a step costs however small that size is (scoring all old entities, the newcomers' own pressure, calling
torch) is no part of the growth. So a slope is that of the added seconds against the added size. The fast
path, which keeps draws and scale for an update, is told beside, in |N| alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from benchmarks.admission import slope
from benchmarks.timing import seconds
from meor.backbone import BACKBONES
from meor.methods.comparison import Comparison, Settings
from meor.methods.penalty import Penalty
from meor.random import generator
from meor.stream.snapshot import Snapshot, Stream, Vocabulary
from meor.training.loss import Embedding

N_OLD, N_RELATIONS, FACTS, DIM = 4_096, 20, 32, 32
NEWCOMERS = (256, 1_024, 2_048, 4_096, 8_192, 16_384)
DRAWS = (1, 4, 8, 16, 32)
SAMPLES = (1, 256, 512, 1_024, 2_048)


def admission(n_new: int) -> Stream:
    """Random facts among old entities, and `n_new` newcomers that come by one fact each."""
    draw = generator("cost", n_new)

    def facts(heads: np.ndarray) -> np.ndarray:
        n = len(heads)
        return np.stack([heads, draw.integers(0, N_RELATIONS, n), draw.integers(0, N_OLD, n)], 1)

    entities, relations = Vocabulary(), Vocabulary()
    for number in range(N_OLD + n_new):
        entities.admit(f"e{number}", 0)
    for number in range(N_RELATIONS):
        relations.admit(f"r{number}", 0)
    old = np.unique(facts(np.repeat(np.arange(N_OLD), 8)), axis=0)
    new = facts(np.arange(N_OLD, N_OLD + n_new))
    nothing = np.empty((0, 3), np.int64)
    snapshots = tuple(Snapshot(part, nothing, nothing) for part in (old, new))
    counts = (N_OLD, N_OLD + n_new), (N_RELATIONS, N_RELATIONS)
    return Stream("cost", entities, relations, snapshots, *counts)


def prepared(
    *, n_new: int = 1_024, draws: int = 4, sample: int = 256, fast: bool = False
) -> Callable[[], None]:
    """One step at given sizes, forward and backward, ready to be timed."""
    stream = admission(n_new)
    backbone = BACKBONES["complex"]
    draw = torch.Generator().manual_seed(0)
    entity = torch.randn(N_OLD + n_new, backbone.width(DIM), generator=draw, dtype=torch.float64)
    relation = torch.randn(N_RELATIONS, backbone.width(DIM), generator=draw, dtype=torch.float64)
    settings = Settings(draws=draws, scale_sample=sample)
    comparison = Comparison.build(stream, 1, stream.snapshots[0].train[:FACTS], run=0, settings=settings)
    penalty = Penalty(comparison, backbone)
    # The general path is that of a host that trains every row.
    first = (N_OLD, N_RELATIONS) if fast else (0, 0)
    tables = Embedding.of(entity, first[0]), Embedding.of(relation, first[1])

    def step() -> None:
        loss = penalty(*tables, np.arange(FACTS))
        if loss.requires_grad:
            loss.backward()

    return step


def growth(prepare: Callable[[int], Callable[[], None]], sizes: Sequence[int], repeats: int) -> float | None:
    """The slope of the seconds that each size adds to those of the smallest; None where noise hides them."""
    least = prepare(sizes[0])
    least()
    added = []
    for size in sizes[1:]:
        step = prepare(size)
        step()
        # The best of many: whatever else the machine does can only add seconds.
        pairs = [(seconds(least), seconds(step)) for _ in range(repeats)]
        smallest, larger = (min(column) for column in zip(*pairs, strict=True))
        added.append(larger - smallest)
    if min(added) <= 0:
        return None
    return slope([size - sizes[0] for size in sizes[1:]], added)


def against_sizes(
    newcomers: Sequence[int] = NEWCOMERS,
    draws: Sequence[int] = DRAWS,
    samples: Sequence[int] = SAMPLES,
    repeats: int = 9,
) -> dict[str, object]:
    return {
        "what": (
            f"log-log slope of the seconds a size adds to a step: {2 * FACTS} occurrences, "
            f"{N_OLD:,} old entities, ComplEx {DIM}, float64, general path"
        ),
        "slope_newcomers": growth(lambda n: prepared(n_new=n), newcomers, repeats),
        "slope_draws": growth(lambda j: prepared(draws=j), draws, repeats),
        "slope_scale_sample": growth(lambda k: prepared(sample=k), samples, repeats),
        "slope_newcomers_fast_path": growth(lambda n: prepared(n_new=n, fast=True), newcomers, repeats),
        "newcomers": list(newcomers),
        "draws": list(draws),
        "scale_samples": list(samples),
    }
