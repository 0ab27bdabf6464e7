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


def peer_model(triples, model: Model):  # type: ignore[no-untyped-def]
    """PyKEEN's model of the same name holding our rows, in their dtype."""
    from meor.pykeen.export import as_pykeen

    return as_pykeen(model, triples)
