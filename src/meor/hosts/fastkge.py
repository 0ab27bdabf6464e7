"""FastKGE: old rows stay, and new rows are a frozen start plus a product of two small matrices (LoRA).

    new rows of a group = W_0 + C B / rank,   L = L_new

- New entities are sorted by their distance from the old graph, then by degree, and cut into groups of equal
  size. A group's rank is `entity_rank`, or a twentieth of the group where that is more, times its share of
  the degrees, but at least nine tenths of it. New relations are one group of `relation_rank`.
- W_0 is the row an entity was admitted with. C begins at 0 and B is standard normal; both are trained. With
  200 columns and a rank of 150 this is hardly less than the rows themselves.
- The base is trained as by fine-tuning, at the rate of .1 that updates have too. Facts between old entities
  are not learned. `variant=released` changes nothing: their loader reads validation facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from meor.backbone.base import Backbone
from meor.hosts.margin import MarginHost, MarginSettings
from meor.random import generator
from meor.training.host import Stage, Update
from meor.training.loss import Embedding
from meor.typing import Facts, Floats, Ids

Count = Annotated[int, Field(ge=1)]


class FastKGESettings(MarginSettings):
    entity_rank: Count = 150
    relation_rank: Count = 20
    groups: Count = 2


@dataclass(slots=True)
class Group:
    """Some new rows of a table as W_0 + C B / rank."""

    table: Embedding
    member: Tensor  # [n] rows of table.trained
    start: Tensor  # [n, W] W_0
    left: nn.Parameter  # [n, rank] C
    right: nn.Parameter  # [rank, W] B

    @classmethod
    def of(cls, table: Embedding, member: Ids, rank: int, right: Floats) -> Group:
        chosen = torch.from_numpy(member)
        start = table.data[table.first :][chosen].clone()
        return cls(
            table,
            chosen,
            start,
            nn.Parameter(start.new_zeros(len(member), rank)),
            nn.Parameter(torch.from_numpy(right).to(start)),
        )

    def place(self) -> None:
        """Write the rows."""
        with torch.no_grad(), _one_thread():
            self.table.data[self.table.first + self.member] = self.start + self.left @ self.right / len(
                self.right
            )

    def pull(self) -> None:
        """The gradient of the rows becomes that of both matrices."""
        of_rows = self.table.trained.grad
        if of_rows is not None:
            mine = of_rows[self.member] / len(self.right)
            with torch.no_grad(), _one_thread():
                self.left.grad, self.right.grad = mine @ self.right.T, self.left.T @ mine


class FastKGE(MarginHost):
    name = "fastkge"
    Settings = FastKGESettings
    settings: FastKGESettings
    batch_facts = 512
    learning_rate = 0.1
    selects_on_test = False

    def stages(self, update: Update) -> Iterator[Stage]:
        yield Stage(self.plan_of(update), update.n_old, update.m_old)

    def begin(
        self, update: Update, stage: Stage, backbone: Backbone, entity: Embedding, relation: Embedding
    ) -> None:
        super().begin(update, stage, backbone, entity, relation)
        self.groups: dict[str, Group] = {}
        if not update.number:
            return
        columns = entity.data.shape[1]
        for number, (member, rank) in enumerate(self._cut()):
            self._add(f"entity {number}", entity, member, rank, columns)
        if update.m_relations > update.m_old:
            member = np.arange(update.m_relations - update.m_old)
            self._add("relation", relation, member, self.settings.relation_rank, relation.data.shape[1])
        # A method's penalty adds to the gradient of the rows, so both matrices get theirs when that is whole.
        for table in (entity, relation):
            table.trained.register_post_accumulate_grad_hook(lambda _, of=table: self._pull(of))  # type: ignore[no-untyped-call]

    def _add(self, name: str, table: Embedding, member: Ids, rank: int, columns: int) -> None:
        right = generator("adapter", self.stage.plan.seed, self.update.number, name)
        self.groups[name] = Group.of(table, member, rank, right.standard_normal((rank, columns)))

    def _pull(self, table: Embedding) -> None:
        for group in self.groups.values():
            if group.table is table:
                group.pull()
        table.trained.grad = None  # the optimizer does not know these rows, so nobody else would clear it

    def _cut(self) -> list[tuple[Ids, int]]:
        """Members and rank of each group of new entities."""
        update, settings = self.update, self.settings
        degree = degree_centrality(update.train, update.n_entities)[update.n_old :]
        order = np.lexsort((degree, distances(update.train, update.n_old, update.n_entities)[update.n_old :]))
        parts = [part for part in np.array_split(order, settings.groups) if len(part)]
        share = np.array([degree[part].sum() for part in parts])
        found = []
        for part, own in zip(parts, share / max(share.mean(), 1e-300) if parts else share, strict=True):
            rank = max(settings.entity_rank, len(part) // 20)
            found.append((part, int(max(0.9 * rank, rank * own, 1))))
        return found

    def parameters(self, entity: Embedding, relation: Embedding) -> dict[str, nn.Parameter]:
        if not self.update.number:
            return super().parameters(entity, relation)
        return {
            f"{name} {side}": parameter
            for name, group in self.groups.items()
            for side, parameter in (("left", group.left), ("right", group.right))
        }

    def stepped(self) -> None:
        for group in self.groups.values():
            group.place()

    end = stepped

    def tensors(self) -> dict[str, Tensor]:
        starts = {f"{name} start": group.start for name, group in self.groups.items()}
        trained = self.parameters(self.entity, self.relation) if self.update.number else {}
        return {**starts, **{name: value.data for name, value in trained.items()}}

    def load(self, tensors: dict[str, Tensor]) -> None:
        for name, value in self.tensors().items():
            value.copy_(tensors[name])


@contextmanager
def _one_thread() -> Iterator[None]:
    """A matrix product may add in another order on other numbers of threads, and results must not."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def degree_centrality(train: Facts, n_entities: int) -> Floats:
    """Neighbours of each entity over all others in the graph of the facts."""
    ends = np.sort(train[:, [0, 2]], axis=1)
    pair = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    return np.bincount(pair.ravel(), minlength=n_entities) / max(len(np.unique(ends)) - 1, 1)


def distances(train: Facts, n_old: int, n_entities: int) -> Ids:
    """Facts between each entity and the nearest old one; more than all others where nothing connects them."""
    found = np.where(np.arange(n_entities) < n_old, 0, n_entities)
    while True:
        before = found.copy()
        for one, other in ((0, 2), (2, 0)):
            np.minimum.at(found, train[:, one], before[train[:, other]] + 1)
        found = np.minimum(found, before)
        if (found == before).all():
            return found
