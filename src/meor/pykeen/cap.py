"""The norm cap on rows of a PyKEEN model (`methods.cap`)."""

from __future__ import annotations

from typing import Any

import torch
from pykeen.nn.modules import ComplExInteraction, DistMultInteraction
from pykeen.nn.representation import Embedding

from meor.errors import ModelError
from meor.methods.cap import longest_newcomers
from meor.methods.registry import CAP_GROWTH
from meor.stream.snapshot import Stream
from meor.training.adam import Longest
from meor.typing import Ids


class RowCap:
    """Scales newcomers' rows back. How long they may be is fixed at the first call, by rows of snapshot 0."""

    def __init__(self, stream: Stream, update: int, entity: Ids) -> None:
        self.stream, self.update = stream, update
        self.row = torch.from_numpy(entity)  # of each id
        self.forget()

    def forget(self) -> None:
        """Another training begins, perhaps of another model."""
        self._longest: Longest | None = None

    def __call__(self, model: Any) -> None:
        weight = _table(model)._embeddings.weight.data
        row = self.row.to(weight.device)
        if self._longest is None:
            base = weight[row[: self.stream.entity_counts[0]]]
            self._longest = longest_newcomers(base, self.stream, self.update, growth=CAP_GROWTH)
        newcomers = row[list(self.stream.newcomers(self.update))]
        rows = weight[newcomers]
        self._longest.shorten(rows)
        weight[newcomers] = rows


def _table(model: Any) -> Embedding:
    """The one table of a model that scores by an inner product: elsewhere a longer row ranks no higher."""
    tables = tuple(getattr(model, "entity_representations", ()))
    by_product = isinstance(getattr(model, "interaction", None), ComplExInteraction | DistMultInteraction)
    if not by_product or len(tables) != 1 or not isinstance(tables[0], Embedding):
        raise ModelError(
            f"a cap on norms needs entity rows that meet in an inner product, and {type(model).__name__} has "
            "others",
            remedy="Use a method without cap, or ComplEx or DistMult",
        )
    return tables[0]
