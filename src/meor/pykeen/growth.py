"""A PyKEEN model that grows: triples in the ids of a stream, and rows for those that are admitted."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from pykeen.nn.representation import Embedding
from pykeen.triples import TriplesFactory
from torch import Tensor

from meor.errors import InputError, ModelError
from meor.pykeen.held import keep_weights
from meor.stream.snapshot import Stream
from meor.typing import Split

KINDS = ("entity", "relation")
COUNTS = {"entity": "num_entities", "relation": "num_relations"}


def triples_of(
    stream: Stream,
    update: int,
    split: Split | str = Split.TRAIN,
    *,
    since: int | None = None,
    create_inverse_triples: bool = False,
) -> TriplesFactory:
    """The facts that an update brings (all from the snapshot `since` on, if it is named), for PyKEEN.

    Ids are the stream's, and everything that is admitted by then has one.
    """
    counts = stream.entity_counts[update], stream.relation_counts[update]
    snapshots = stream.snapshots[update if since is None else since : update + 1]
    entity_to_id, relation_to_id = (
        {known.label(id): id for id in range(count)}
        for known, count in zip((stream.entities, stream.relations), counts, strict=True)
    )
    return TriplesFactory(
        torch.from_numpy(np.concatenate([each.facts([split]) for each in snapshots])),
        entity_to_id=entity_to_id,
        relation_to_id=relation_to_id,
        create_inverse_triples=create_inverse_triples,
    )


def grow(model: Any, factory: Any, grown: Any, *, frozen: bool = True) -> Any:
    """A copy of a PyKEEN model with a row for every label of `grown`; rows of `factory`'s labels are kept.

    New rows are drawn as the model draws its rows. Training begins with these weights, and where `frozen`
    it moves the new rows alone. The model that is given stays as it is.
    """
    if bool(model.use_inverse_triples) != bool(grown.create_inverse_triples):
        raise InputError(
            "one of the model and the grown factory has inverse triples, and the other has not",
            remedy="Use the same create_inverse_triples for both",
        )
    larger = copy.deepcopy(model)
    new: dict[str, Tensor] = {}
    for kind in KINDS:
        rows = getattr(grown, COUNTS[kind])
        old, kept_in = _places(kind, factory, grown, inverse=model.use_inverse_triples)
        fresh = torch.ones(rows, dtype=torch.bool)
        fresh[kept_in] = False
        for name, table in _tables(larger, kind):
            _enlarge(table, rows, old, kept_in)
            new[f"{name}._embeddings.weight"] = torch.nonzero(fresh)[:, 0]
        setattr(larger, COUNTS[kind], rows)
    return keep_weights(larger, new if frozen else None)


def _places(kind: str, factory: Any, grown: Any, *, inverse: bool) -> tuple[Tensor, Tensor]:
    """Where the rows that are kept lie now, and where they will."""
    now, then = (getattr(each, f"{kind}_to_id") for each in (factory, grown))
    missing = [label for label in now if label not in then]
    if missing:
        raise InputError(
            f"the grown factory has no {kind} {missing[0]!r}, nor {len(missing) - 1} others of the model",
            remedy="A grown factory has all labels of the one before, such as triples_of(stream, update)",
        )
    pairs = torch.tensor([(now[label], then[label]) for label in now], dtype=torch.long).reshape(-1, 2)
    if kind == "relation" and inverse:  # relation i is row 2i, and its inverse row 2i + 1
        pairs = torch.cat([2 * pairs, 2 * pairs + 1])
    return pairs[:, 0], pairs[:, 1]


def _tables(model: Any, kind: str) -> Iterator[tuple[str, Embedding]]:
    what = f"{kind}_representations"
    for at, table in enumerate(getattr(model, what, ())):
        if not isinstance(table, Embedding):
            raise ModelError(
                f"{kind} rows of {type(model).__name__} are computed by {type(table).__name__}",
                remedy="Grow one whose rows are embeddings, or train a model for all labels from the start",
            )
        yield f"{what}.{at}", table


def _enlarge(table: Embedding, rows: int, old: Tensor, kept_in: Tensor) -> None:
    """In place of the parameter's numbers, not of the parameter: regularizers hold on to it."""
    weight = table._embeddings.weight
    before = weight.data
    weight.data = before.new_empty(rows, before.shape[1])
    table.max_id = table._embeddings.num_embeddings = rows
    try:
        table.reset_parameters()
    except ValueError as error:  # rows made elsewhere, of which there are no more
        raise ModelError(
            f"its initializer draws no rows for newcomers ({error})",
            remedy="Give the representation an initializer such as xavier_normal_",
        ) from None
    table.post_parameter_update()
    weight.data[kept_in.to(weight.device)] = before[old.to(weight.device)]
