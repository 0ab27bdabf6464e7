"""PyKEEN with our weights: the peer that evaluation and training are timed against."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import torch

from meor.backbone import Model
from meor.stream.snapshot import Stream

warnings.filterwarnings("ignore")
logging.getLogger("pykeen").setLevel(logging.ERROR)


def factory(stream: Stream):  # type: ignore[no-untyped-def]
    """Snapshot 0's training facts as PyKEEN sees them."""
    from pykeen.triples import CoreTriplesFactory

    return CoreTriplesFactory(
        torch.from_numpy(np.array(stream.snapshots[0].train)),
        num_entities=stream.entity_counts[0],
        num_relations=stream.relation_counts[0],
    )


def peer_model(name: str, triples, model: Model):  # type: ignore[no-untyped-def]
    """PyKEEN's model of the same name holding our rows, in float64."""
    from pykeen import models

    width = model.entity.shape[1]
    options: dict[str, object] = {"triples_factory": triples, "loss": "softplus", "embedding_dim": width}
    if name in ("complex", "rotate"):
        options["embedding_dim"] = width // 2
        peer = (models.ComplEx if name == "complex" else models.RotatE)(**options)
    elif name == "distmult":
        peer = models.DistMult(**options, entity_constrainer=None, regularizer=None)
    else:
        norm = 1 if name == "transe" else 2
        peer = models.TransE(
            **options, scoring_fct_norm=norm, entity_constrainer=None, relation_constrainer=None
        )
    peer = peer.double()
    for representation, rows in (
        (peer.entity_representations[0], model.entity),
        (peer.relation_representations[0], model.relation),
    ):
        weight = representation._embeddings.weight
        values = rows
        if name in ("complex", "rotate"):  # PyKEEN interleaves real and imaginary parts
            real, imaginary = rows.chunk(2, dim=1)
            if name == "rotate" and rows is model.relation:  # where PyKEEN keeps moduli of 1
                real, imaginary = (part / torch.hypot(real, imaginary) for part in (real, imaginary))
            values = torch.stack([real, imaginary], dim=2).reshape(len(rows), -1)
        with torch.no_grad():
            weight.copy_(values.reshape(weight.shape))
    return peer
