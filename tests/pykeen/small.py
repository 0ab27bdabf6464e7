"""Small PyKEEN models of the ring in the ids of the stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tests.pykeen_models import labelled

from meor.stream.snapshot import Stream

SMALL_MODELS = ("ComplEx", "DistMult", "TransE", "RotatE", "TuckER", "TransH", "SimplE")


def labelled_factory(stream: Stream, update: int) -> Any:
    """All training facts through an update, numbered by PyKEEN."""
    from pykeen.triples import TriplesFactory

    facts = np.concatenate([snapshot.train for snapshot in stream.snapshots[: update + 1]])
    return TriplesFactory.from_labeled_triples(labelled(stream, facts))


def trained(name: str, factory: Any, **options: Any) -> Any:
    from pykeen.models import model_resolver

    options = {"embedding_dim": 6, "random_seed": 3, **options}
    return train(model_resolver.make(name, triples_factory=factory, **options), factory).eval()


def train(model: Any, factory: Any, *, epochs: int = 2, **options: Any) -> Any:
    """As PyKEEN does it by default: it draws all parameters anew before the first epoch."""
    from pykeen.training import SLCWATrainingLoop

    kept = {name: options.pop(name) for name in ("callbacks",) if name in options}
    torch.manual_seed(5)
    loop = SLCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer="adam",
        **{"optimizer_kwargs": {"lr": 0.05}, **options},
    )
    loop.train(
        triples_factory=factory,
        num_epochs=epochs,
        batch_size=16,
        use_tqdm=False,
        use_tqdm_batch=False,
        **kept,
    )
    return model
