"""One contract for every score function.

A backbone turns the known half of a fact into a *query row* and compares it with candidate rows. That is
enough for scoring triples, for ranking against a universe in either direction, and for the penalty. One
whose comparison is an inner product or an L1 distance declares that geometry and is searched by fast
kernels; any other is asked through `compare_all`, tile by tile, and trained by autograd.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from meor.errors import ModelError
from meor.typing import Facts, Floats, Ids, Side


class Geometry(Enum):
    """How a query row meets a candidate row."""

    DOT = "dot"
    L1 = "l1"


GAMMA = 9.0
"""TransE's constant: s = gamma - |h + r - t|_1 (decision 38). It never changes a rank or a gap."""


class Backbone(ABC):
    """A score function without state. Another one takes a short file, and a line in `BACKBONES`."""

    name: ClassVar[str]
    geometry: ClassVar[Geometry | None] = None
    """What `compare` computes, declared for the fast kernels; None: whatever `compare` says."""
    fused_form: ClassVar[int | None] = None
    """The number of this backbone's form in `kernels.py`; None trains through torch autograd."""

    def __init_subclass__(cls, **options: Any) -> None:
        """What a parent declared about its formula does not hold for a child that changes the formula."""
        super().__init_subclass__(**options)
        if "score" in vars(cls):
            raise TypeError(f"{cls.__name__}.score would never be called. A backbone's score is `compare`.")
        if not declared_after(cls, "geometry", ("compare", "compare_all", "candidate")):
            cls.geometry = None
        if not declared_after(cls, "candidate_gradient", ("candidate",)):
            cls.candidate_gradient = Backbone.candidate_gradient  # type: ignore[method-assign]
        formula = ("query", "compare", "compare_all", "candidate", "geometry")
        if not declared_after(cls, "fused_form", formula):
            cls.fused_form = None

    @abstractmethod
    def width(self, dim: int) -> int:
        """Columns of an embedding row for `dim` coordinates."""

    def relation_columns(self, columns: int) -> int:
        """Columns of a relation row beside entity rows of so many. A row may hold its inverse as well."""
        return columns

    @abstractmethod
    def query(self, anchor_QW: Tensor, relation_QW: Tensor, side: Side) -> Tensor:
        """The row that candidates for the missing `side` are compared with."""

    def candidate(self, row_EW: Tensor) -> Tensor:
        """What a query row is compared with, of stored rows: the rows themselves, or e.g. unit rows."""
        return row_EW

    def candidate_gradient(self, row_EW: Tensor, gradient_EW: Tensor) -> Tensor:
        """The gradient by stored rows, given that by what `candidate` makes of them; it may be overwritten.

        Whoever declares a candidate may declare this too: autograd takes several times as long.
        """
        if self.compares_stored_rows:
            return gradient_EW
        with torch.enable_grad():
            own = row_EW.detach().requires_grad_()
            (found,) = torch.autograd.grad(self.candidate(own), own, gradient_EW)
        return found

    @property
    def compares_stored_rows(self) -> bool:
        """Is `candidate` the identity? Then kernels may form the gradient of a stored row themselves."""
        return type(self).candidate is Backbone.candidate

    def compare(self, query_QW: Tensor, candidate_QW: Tensor) -> Tensor:
        """Scores of aligned rows (any leading shape that broadcasts)."""
        candidate_QW = self.candidate(candidate_QW)
        if self.geometry is Geometry.DOT:
            return (query_QW * candidate_QW).sum(-1)
        if self.geometry is Geometry.L1:
            return GAMMA - (query_QW - candidate_QW).abs().sum(-1)
        raise TypeError(f"{type(self).__name__} has no score: declare its geometry, or define `compare`.")

    def compare_all(self, query_QW: Tensor, candidate_EW: Tensor) -> Tensor:
        """[Q, E] scores of every query against every candidate."""
        candidate_EW = candidate_EW.to(query_QW.dtype)  # stored rows may be narrower than scores
        if self.geometry is Geometry.DOT:
            return query_QW @ self.candidate(candidate_EW).T
        if self.geometry is Geometry.L1:
            return GAMMA - torch.cdist(query_QW, self.candidate(candidate_EW), p=1.0)
        return self.compare(query_QW[:, None], candidate_EW)

    def position(self, query: Floats) -> Floats:
        """Where query rows place their answers: newcomers may start there."""
        return query

    @property
    def scoring(self) -> Scoring:
        """What `search` needs to know: the declared geometry, else the backbone itself."""
        return self.geometry or self


Scoring = Geometry | Backbone
"""How rows are scored: by a geometry that kernels know, or by whatever a backbone computes."""


def declared_after(cls: type, name: str, formula: tuple[str, ...]) -> bool:
    """Is an attribute declared by the same class as the formula it speaks about, or by one that knows it?"""
    order = cls.__mro__
    declared = next(place for place, each in enumerate(order) if name in vars(each))
    return all(declared <= place for place, each in enumerate(order) if vars(each).keys() & set(formula))


ScoreFunction = Callable[[Ids, Ids, Side, Ids], Any]
"""(anchor ids [Q], relation ids [Q], missing side, candidate ids [E]) -> scores [Q, E]; see `Model.score`."""


class _OfIds(Backbone):
    """A score function of ids as a backbone: rows hold ids. It can be ranked, not trained."""

    name = "function"

    def __init__(self, score: ScoreFunction) -> None:
        self.function = score

    def width(self, dim: int) -> int:
        return 1

    def query(self, anchor_QW: Tensor, relation_QW: Tensor, side: Side) -> Tensor:
        return torch.cat([anchor_QW, relation_QW, torch.full_like(anchor_QW, side)], dim=-1)

    def compare_all(self, query_QW: Tensor, candidate_EW: Tensor) -> Tensor:
        anchor, relation, side = query_QW.long().numpy().T
        candidate = candidate_EW[:, 0].long().numpy()
        return torch.as_tensor(self.function(anchor, relation, Side(int(side[0])), candidate))


@dataclass(slots=True)
class Model:
    """A backbone and its tables: `entity` [n, W], `relation` [m, W]. Row numbers are ids.

    `kept` is what a host must know of this model at the next update beside its rows (a Fisher diagonal).
    """

    backbone: Backbone
    entity: Tensor
    relation: Tensor
    kept: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shapes = tuple(self.entity.shape), tuple(self.relation.shape)
        if len(shapes[0]) == 2 and shapes[1][1:] == (self.backbone.relation_columns(shapes[0][1]),):
            return
        equal = self.backbone.relation_columns(1) == 1
        raise ModelError(
            f"entity rows {shapes[0]} and relation rows {shapes[1]} do not have "
            + ("the same width" if equal else f"the widths of {self.backbone.name}"),
            remedy=f"Give two tables [rows, width]{' of equal width' if equal else ''}",
        )

    @classmethod
    def of_function(cls, score: ScoreFunction, n_entities: int, n_relations: int) -> Model:
        """Any score function as a model that can be ranked and audited."""
        entity, relation = (torch.arange(n, dtype=torch.float64)[:, None] for n in (n_entities, n_relations))
        return cls(_OfIds(score), entity, relation)

    @property
    def n_entities(self) -> int:
        return self.entity.shape[0]

    @property
    def n_relations(self) -> int:
        return self.relation.shape[0]

    def query(self, anchor: Ids, relation: Ids, side: Side | str) -> Tensor:
        """[Q, W] query rows."""
        return self.backbone.query(*self._asked(anchor, relation, side))

    def query_array(self, anchor: Ids, relation: Ids, side: Side | str) -> Floats:
        """Query rows as a contiguous numpy array on the host, for the counting kernels."""
        anchor_QW, relation_QW, missing = self._asked(anchor, relation, side)
        if not self.backbone.compares_stored_rows:  # candidates are then made in float64, so queries are too
            anchor_QW, relation_QW = anchor_QW.double(), relation_QW.double()
        with torch.no_grad():
            return np.ascontiguousarray(self.backbone.query(anchor_QW, relation_QW, missing).cpu().numpy())

    def _asked(self, anchor: Ids, relation: Ids, side: Side | str) -> tuple[Tensor, Tensor, Side]:
        """Anchor rows, relation rows and the missing side of queries: every query is formed from these."""
        return self.entity[_index(anchor)], self.relation[_index(relation)], Side.of(side)

    def score_facts(self, fact: Facts) -> Tensor:
        """[F] scores of whole facts."""
        query = self.query(fact[:, 0], fact[:, 1], Side.TAIL)
        return self.backbone.compare(query, self.entity[_index(fact[:, 2])])

    def score(self, anchor: Ids, relation: Ids, side: Side | str, candidates: Ids | None = None) -> Tensor:
        """[Q, E] scores of queries against all entities, or the given ones."""
        rows = self.entity if candidates is None else self.entity[_index(candidates)]
        return self.backbone.compare_all(self.query(anchor, relation, side), rows)

    def grow(self, new_entity: Tensor, new_relation: Tensor) -> Model:
        """A model with rows appended; the old rows are copied bit for bit."""
        return Model(
            self.backbone,
            torch.cat([self.entity.detach(), new_entity.to(self.entity)]),
            torch.cat([self.relation.detach(), new_relation.to(self.relation)]),
            self.kept,
        )


def _index(ids: Ids) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64))
