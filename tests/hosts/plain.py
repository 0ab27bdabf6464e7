"""Margin hosts written once more, plainly: torch autograd, `torch.optim.Adam`, a loop for each sum.

Nothing here is shared with `meor.hosts` but the batches, so that both see the same facts and negatives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import torch
from torch import Tensor
from torch.nn.functional import huber_loss, normalize

from meor.backbone import Model
from meor.training.host import Host, Update
from meor.training.loss import Batch


@dataclass
class Plain:
    """Fine-tuning; other learners override `extra`."""

    settings: Any
    entity: Tensor = field(init=False)
    relation: Tensor = field(init=False)
    update: Update = field(init=False)

    def open(self, model: Model, update: Update) -> None:
        self.update = update
        self.entity = model.entity.clone().requires_grad_()
        self.relation = model.relation.clone().requires_grad_()
        self.old = model.entity[: update.n_old].clone(), model.relation[: update.m_old].clone()

    def link(self, batch: Batch) -> Tensor:
        def distance(head: Tensor, of: Tensor, tail: Tensor) -> Tensor:
            return (unit[head] + vector[of] - unit[tail]).abs().sum(-1)

        unit = normalize(self.entity, dim=1)
        vector = normalize(self.relation.reshape(-1, unit.shape[1]), dim=1)
        head, of, tail = torch.from_numpy(batch.fact).T
        put_in, on_tail = torch.from_numpy(batch.negative), torch.from_numpy(batch.replaced == 1)
        heads = torch.where(on_tail, head[:, None], put_in)
        tails = torch.where(on_tail, put_in, tail[:, None])
        negative = distance(heads, of[:, None].expand_as(heads), tails)
        hinge = torch.relu(distance(head, of, tail) - negative.mean(1) + self.settings.margin)
        return hinge.sum() / (len(batch) * (1 + negative.shape[1]))

    def extra(self) -> Tensor | float:
        return 0.0

    def stepped(self, batch: Batch) -> None:
        pass

    def train(self, host: Host, model: Model, update: Update) -> Model:
        """The stages of the host, with its batches."""
        self.open(model, update)
        for number, stage in enumerate(host.stages(update)):
            self.stage = number
            rows = [self.entity, self.relation]
            optimizer = torch.optim.Adam(rows, lr=stage.plan.learning_rate)
            host.update, host.stage = update, stage
            for pass_number in range(stage.plan.passes):
                steps = host.steps(pass_number)
                for index in range(len(steps)):
                    batch = steps[index].batch
                    optimizer.zero_grad()
                    (self.link(batch) + self.extra()).backward()
                    for table, first in zip(rows, (stage.entity_from, stage.relation_from), strict=True):
                        assert table.grad is not None
                        table.grad[:first] = 0  # moments are 0, so these rows stay
                    optimizer.step()
                    self.stepped(batch)
        return Model(model.backbone, self.entity.detach(), self.relation.detach())


@dataclass
class PlainEWC(Plain):
    fisher: tuple[Tensor, Tensor] | None = None

    def open(self, model: Model, update: Update) -> None:
        if self.fisher is not None:
            s, found = self.update.number, []
            for new, old in zip(self.sums, self.fisher, strict=True):
                grown = torch.zeros_like(new)
                grown[: len(old)] = old
                own = new / len(self.update.train)
                released = self.settings.variant == "released"
                found.append(
                    (own + grown * s + 1) / (s + 2) if released else (own + grown * (s + 1)) / (s + 2)
                )
            self.fisher = found[0], found[1]
        else:
            self.fisher = model.entity[:0], model.relation[:0]
        super().open(model, update)
        self.sums = torch.zeros_like(model.entity), torch.zeros_like(model.relation)

    def extra(self) -> Tensor | float:
        assert self.fisher is not None
        total: Tensor | float = 0.0
        for now, old, fisher in zip((self.entity, self.relation), self.old, self.fisher, strict=True):
            total = total + (fisher * (now[: len(old)] - old) ** 2).sum()
        return self.settings.alpha * total

    def stepped(self, batch: Batch) -> None:
        for total, table in zip(self.sums, (self.entity, self.relation), strict=True):
            assert table.grad is not None
            total.add_(len(batch) * (1 + batch.negative.shape[1]) * table.grad**2)


@dataclass
class PlainLKGE(Plain):
    def open(self, model: Model, update: Update) -> None:
        super().open(model, update)
        self.entity_counts = self.counts(model.n_entities, [0, 2])
        self.relation_counts = self.counts(model.n_relations, [1])
        if update.number and self.settings.variant == "clean":
            with torch.no_grad():
                entity, relation = self.predicted()
                self.entity[update.n_old :] = entity[update.n_old :]
                self.relation[update.m_old :] = relation[update.m_old :]

    def counts(self, size: int, columns: list[int]) -> tuple[Tensor, Tensor]:
        every = []
        known = 0
        for train in (*self.update.past, self.update.train):
            count = torch.zeros(size, dtype=torch.float64)
            for fact in train:
                for column in columns:
                    count[fact[column]] += 1
                    known = max(known, int(fact[column]) + 1)
            count[:known] += 1
            every.append(count)
        return torch.stack([torch.zeros(size, dtype=torch.float64), *every[:-1]]).sum(0), every[-1]

    def predicted(self) -> tuple[Tensor, Tensor]:
        """Edge by edge, as the formula says."""
        width = self.entity.shape[1]
        vector = self.relation.reshape(-1, width)
        into: list[list[Tensor]] = [[row] for row in self.entity]  # self-loops
        along: list[list[Tensor]] = [[] for _ in vector]
        for head, of, tail in self.update.train:
            into[tail].append(self.entity[head] + vector[2 * of])
            into[head].append(self.entity[tail] + vector[2 * of + 1])
            along[2 * of].append(self.entity[tail] - self.entity[head])
            along[2 * of + 1].append(self.entity[head] - self.entity[tail])
        uses_past = bool(self.update.number) and self.settings.variant == "clean"
        entity = []
        for row, edges in enumerate(into):
            past = self.entity_counts[0][row] if uses_past and row < len(self.old[0]) else 0.0
            old = past * self.old[0][row] if past else 0.0
            entity.append(torch.relu((old + torch.stack(edges).sum(0)) / (past + len(edges))))
        relation = []
        olds = self.old[1].reshape(-1, width)
        for row, edges in enumerate(along):
            if not edges:
                relation.append(vector[row].detach())
                continue
            past = self.relation_counts[0][row // 2] if uses_past and row < len(olds) else 0.0
            old = past * olds[row] if past else 0.0
            relation.append((old + torch.stack(edges).sum(0)) / (past + len(edges)))
        self.told = [bool(edges) for edges in along]
        return torch.stack(entity), torch.stack(relation).reshape(self.relation.shape)

    def extra(self) -> Tensor | float:
        entity, relation = self.predicted()
        apart = (relation - self.relation).reshape(len(self.told), -1)[torch.tensor(self.told)]
        total = ((entity - self.entity) ** 2).sum() / len(entity) + (apart**2).sum() / len(self.told)
        held: Tensor | float = 0.0
        for now, old, counts in (
            (self.entity, self.old[0], self.entity_counts),
            (self.relation, self.old[1], self.relation_counts),
        ):
            before, new = (count[: len(old), None] for count in counts)
            held = held + ((before / (before + new) * (now[: len(old)] - old)) ** 2).sum()
        return self.settings.beta * total + self.settings.alpha * held


@dataclass
class PlainIncDE(Plain):
    def open(self, model: Model, update: Update) -> None:
        super().open(model, update)
        graph = nx.Graph()
        graph.add_nodes_from(update.train[:, [0, 2]].ravel().tolist())
        graph.add_edges_from((int(h), int(t)) for h, _, t in update.train if h != t)
        self.between, self.degree = nx.betweenness_centrality(graph), nx.degree_centrality(graph)
        self.teacher, self.seen, self.last_stage = model.entity.clone(), set[int](), 0

    def extra(self) -> Tensor | float:
        n_old, released = self.update.n_old, self.settings.variant == "released"
        if self.stage != self.last_stage:
            self.teacher, self.seen, self.last_stage = self.entity.detach().clone(), set(), self.stage
        if not self.update.number or (self.settings.schedule == "source" and self.stage == 0):
            return 0.0
        new = range(n_old, len(self.entity))
        between = torch.tensor([self.between.get(k, 0.0) for k in new], dtype=torch.float64)
        inside = float((1e-3 * (between + torch.softmax(between, 0))).sum())
        total: Tensor | float = 0.0
        for k, row in enumerate(self.entity):
            teacher = self.teacher[k]
            if k < n_old:
                total = total + huber_loss(row, teacher, reduction="sum")
            elif k in self.seen and released:
                total = total + huber_loss(inside * row, inside * teacher, reduction="sum")
            elif k in self.seen:
                weight = self.between.get(k, 0.0) + self.degree.get(k, 0.0)
                total = total + weight * huber_loss(row, teacher, reduction="sum")
        self.now = self.entity.detach()[n_old:].clone()
        is_last = self.update.number == 2  # of the stream that tests use
        return (10 if released and is_last else 1) * self.settings.weight * total

    def stepped(self, batch: Batch) -> None:
        if self.update.number and (self.settings.schedule == "paper" or self.stage):
            self.teacher[self.update.n_old :] = self.now
            self.seen |= {
                *batch.fact[:, 0].tolist(),
                *batch.fact[:, 2].tolist(),
                *batch.negative.ravel().tolist(),
            }


PLAIN: dict[str, type[Plain]] = {
    "fine-tune": Plain,
    "emr": Plain,
    "ewc": PlainEWC,
    "lkge": PlainLKGE,
    "incde": PlainIncDE,
}
