"""Small growing graphs and models for tests of cohorts and objectives."""

from __future__ import annotations

import numpy as np
import torch

from meor.backbone import BACKBONES, Model
from meor.stream.snapshot import Stream, build_stream
from meor.training.loss import Embedding
from meor.typing import Split


def growing(seed: int, n_old: int = 12, n_new: int = 6, n_relations: int = 3, density: int = 4) -> Stream:
    """A base and one update in which every newcomer has a training fact; some known answers are newcomers."""
    draw = np.random.default_rng(seed)
    entity = [f"e{i}" for i in range(n_old + n_new)]

    def facts(count: int, low: int, high: int) -> list[tuple[str, str, str]]:
        return [
            (entity[draw.integers(low, high)], f"r{draw.integers(n_relations)}", entity[draw.integers(high)])
            for _ in range(count)
        ]

    chain = [(entity[i], f"r{i % n_relations}", entity[(i + 1) % n_old]) for i in range(n_old)]
    base = list(dict.fromkeys(chain + facts(density * n_old, 0, n_old)))
    link = [(entity[n_old + i], f"r{i % n_relations}", entity[draw.integers(n_old)]) for i in range(n_new)]
    back = [(entity[draw.integers(n_old)], f"r{draw.integers(n_relations)}", one) for one in entity[n_old:]]
    later = dict.fromkeys(link + back + facts(n_new, n_old, n_old + n_new))
    new = [fact for fact in later if fact not in base]
    return build_stream("growing", [{Split.TRAIN: base}, {Split.TRAIN: new}])


def random_model(stream: Stream, name: str, seed: int, dim: int = 4, newcomers: float = 1.0) -> Model:
    """Random rows; those of newcomers are scaled, which decides how much they outrank."""
    draw = torch.Generator().manual_seed(seed)
    backbone = BACKBONES[name]
    width = backbone.width(dim)
    entity = torch.randn(stream.entity_counts[1], width, generator=draw, dtype=torch.float64)
    entity[stream.entity_counts[0] :] *= newcomers
    columns = backbone.relation_columns(width)
    relation = torch.randn(stream.relation_counts[1], columns, generator=draw, dtype=torch.float64)
    return Model(backbone, entity, relation)


def tables(model: Model, stream: Stream) -> tuple[Embedding, Embedding]:
    """Tables of a host that trains what is new."""
    return (
        Embedding.of(model.entity.clone(), stream.entity_counts[0]),
        Embedding.of(model.relation.clone(), stream.relation_counts[0]),
    )


DISTANCES = frozenset({"transe", "transe-l2", "rotate"})
"""Backbones under which a row scores high where it is near, not where it is long."""


def pressing(name: str) -> float:
    """Scale of newcomer rows with which they outrank a good deal: long for products, short for distances."""
    return 0.3 if name in DISTANCES else 2.0
