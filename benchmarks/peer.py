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
    from pykeen.models import ComplEx, DistMult, TransE

    if name == "complex":
        peer = ComplEx(triples_factory=triples, embedding_dim=model.entity.shape[1] // 2, loss="softplus")
    elif name == "distmult":
        peer = DistMult(
            triples_factory=triples,
            embedding_dim=model.entity.shape[1],
            loss="softplus",
            entity_constrainer=None,
            regularizer=None,
        )
    else:
        peer = TransE(
            triples_factory=triples,
            embedding_dim=model.entity.shape[1],
            scoring_fct_norm=1,
            loss="softplus",
            entity_constrainer=None,
            relation_constrainer=None,
        )
    peer = peer.double()
    for representation, rows in (
        (peer.entity_representations[0], model.entity),
        (peer.relation_representations[0], model.relation),
    ):
        weight = representation._embeddings.weight
        values = rows
        if name == "complex":  # PyKEEN interleaves real and imaginary parts
            real, imaginary = rows.chunk(2, dim=1)
            values = torch.stack([real, imaginary], dim=2).reshape(len(rows), -1)
        with torch.no_grad():
            weight.copy_(values.reshape(weight.shape))
    return peer
