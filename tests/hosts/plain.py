"""Margin hosts written once more, plainly: torch autograd and `torch.optim.Adam`, whole tensors at a time.

Nothing here is shared with `meor.hosts` but the batches, so that both see the same facts and negatives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import huber_loss, normalize

from meor.backbone import Model
from meor.training.host import Host, Stage, Update
from meor.training.loss import Batch, Embedding


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
            self.train_stage(host, number, stage)
        return Model(model.backbone, self.entity.detach(), self.relation.detach())

    def train_stage(self, host: Host, number: int, stage: Stage) -> None:
        self.stage, rows = number, [self.entity, self.relation]
        optimizer = torch.optim.Adam(rows, lr=stage.plan.learning_rate)
        host.update, host.stage = self.update, stage
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
                if self.settings.variant == "released":
                    averaged = torch.arange(len(new))[:, None] < (len(old) if s else len(new))
                    found.append(torch.where(averaged, (own + grown * s + 1) / (s + 2), own))
                else:
                    found.append((own + grown * (s + 1)) / (s + 2))
            self.fisher = found[0], found[1]
        else:
            self.fisher = model.entity[:0], model.relation[:0]
        super().open(model, update)
        self.sums = torch.zeros_like(model.entity), torch.zeros_like(model.relation)
        if self.settings.variant == "released":
            for total, fisher in zip(self.sums, self.fisher, strict=True):
                total[: len(fisher)] = fisher

    def extra(self) -> Tensor | float:
        assert self.fisher is not None
        total: Tensor | float = 0.0
        held = self.sums if self.settings.variant == "released" else self.fisher
        for now, old, fisher in zip((self.entity, self.relation), self.old, held, strict=True):
            total = total + (fisher[: len(old)].clone() * (now[: len(old)] - old) ** 2).sum()
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
        every, known = [torch.zeros(size, dtype=torch.float64)], 0
        for train in (*self.update.past, self.update.train):
            named = torch.from_numpy(train[:, columns].ravel())
            known = max(known, int(named.max()) + 1)
            count = torch.zeros(size, dtype=torch.float64)
            count.index_add_(0, named, torch.ones(len(named), dtype=torch.float64))
            count[:known] += 1
            every.append(count)
        return torch.stack(every[:-1]).sum(0), every[-1]

    def predicted(self) -> tuple[Tensor, Tensor]:
        """Message by message along every edge."""
        width = self.entity.shape[1]
        vector = self.relation.reshape(-1, width)
        head, of, tail = torch.tensor(self.update.train).T
        sources, targets = torch.cat([head, tail]), torch.cat([tail, head])
        edges = torch.cat([2 * of, 2 * of + 1])
        one = torch.ones(len(edges), 1, dtype=torch.float64)
        total = self.entity.index_add(0, targets, self.entity[sources] + vector[edges])  # with self-loops
        count = torch.ones(len(total), 1, dtype=torch.float64).index_add(0, targets, one)
        along = torch.zeros_like(vector).index_add(0, edges, self.entity[targets] - self.entity[sources])
        facts = torch.zeros(len(vector), 1, dtype=torch.float64).index_add(0, edges, one)
        self.told = facts[:, 0] > 0
        if self.update.number and self.settings.variant == "clean":
            past = [counts[0][: len(old), None] for counts, old in self.counted()]
            old = self.old[1].reshape(-1, width)
            total = torch.cat([total[: len(past[0])] + past[0] * self.old[0], total[len(past[0]) :]])
            count = torch.cat([count[: len(past[0])] + past[0], count[len(past[0]) :]])
            twice = past[1].repeat_interleave(2, 0)
            along = torch.cat([along[: len(old)] + twice * old, along[len(old) :]])
            facts = torch.cat([facts[: len(old)] + twice, facts[len(old) :]])
        relation = torch.where(self.told[:, None], along / facts.clamp_min(1), vector.detach())
        return torch.relu(total / count), relation.reshape(self.relation.shape)

    def counted(self) -> list[tuple[tuple[Tensor, Tensor], Tensor]]:
        return [(self.entity_counts, self.old[0]), (self.relation_counts, self.old[1])]

    def extra(self) -> Tensor | float:
        entity, relation = self.predicted()
        apart = (relation - self.relation).reshape(len(self.told), -1)[self.told]
        total = ((entity - self.entity) ** 2).sum() / len(entity) + (apart**2).sum() / len(self.told)
        held: Tensor | float = 0.0
        for now, (counts, old) in zip((self.entity, self.relation), self.counted(), strict=True):
            before, new = (count[: len(old), None] for count in counts)
            held = held + ((before / (before + new) * (now[: len(old)] - old)) ** 2).sum()
        return self.settings.beta * total + self.settings.alpha * held


@dataclass
class PlainIncDE(Plain):
    def open(self, model: Model, update: Update) -> None:
        super().open(model, update)
        between, degree = self.central(update)
        self.between, self.degree = (
            torch.tensor(
                [found.get(k, 0.0) for k in range(update.n_old, model.n_entities)], dtype=torch.float64
            )
            for found in (between, degree)
        )
        self.forget(0)

    def central(self, update: Update) -> tuple[dict[int, float], dict[int, float]]:
        graph = nx.Graph()
        graph.add_nodes_from(update.train[:, [0, 2]].ravel().tolist())
        graph.add_edges_from((int(h), int(t)) for h, _, t in update.train if h != t)
        return nx.betweenness_centrality(graph), nx.degree_centrality(graph)

    def forget(self, stage: int) -> None:
        self.teacher, self.last_stage = self.entity.detach().clone(), stage
        self.seen = torch.zeros(len(self.between), dtype=torch.float64)

    def extra(self) -> Tensor | float:
        n_old, released = self.update.n_old, self.settings.variant == "released"
        if self.stage != self.last_stage:
            self.forget(self.stage)
        if not self.update.number or (self.settings.schedule == "source" and self.stage == 0):
            return 0.0
        if released:  # as their code does, batch by batch
            self.teacher = torch.cat([self.teacher[:n_old], self.entity.detach()[n_old:].clone()])
        old = huber_loss(self.entity[:n_old], self.teacher[:n_old], reduction="sum")
        weight = self.between + self.degree
        new = huber_loss(self.entity[n_old:], self.teacher[n_old:], reduction="none")
        self.now = self.entity.detach()[n_old:].clone()
        is_last = self.update.number == 2  # of the stream that tests use
        factor = (10 if released and is_last else 1) * self.settings.weight
        return factor * (old + ((weight * self.seen)[:, None] * new).sum())

    def stepped(self, batch: Batch) -> None:
        if self.update.number and (self.settings.schedule == "paper" or self.stage):
            n_old = self.update.n_old
            self.teacher[n_old:] = self.now
            named = torch.from_numpy(np.concatenate([batch.fact[:, [0, 2]].ravel(), batch.negative.ravel()]))
            self.seen[named[named >= n_old] - n_old] = 1


@dataclass
class PlainFastKGE(Plain):
    """Two products per table instead of one leaf; groups and normal rows are those of the host."""

    def train(self, host: Host, model: Model, update: Update) -> Model:
        if not update.number:
            return super().train(host, model, update)
        self.open(model, update)
        (stage,) = host.stages(update)
        host.begin(
            update,
            stage,
            model.backbone,
            Embedding.of(model.entity, update.n_old),
            Embedding.of(model.relation, update.m_old),
        )
        groups = [
            (
                group.table is host.entity,
                group.member,
                group.left.detach().clone(),
                group.right.detach().clone(),
            )
            for group in host.groups.values()  # type: ignore[attr-defined]
        ]
        leaves = [part.requires_grad_() for _, _, *both in groups for part in both]
        optimizer = torch.optim.Adam(leaves, lr=stage.plan.learning_rate)
        for pass_number in range(stage.plan.passes):
            steps = host.steps(pass_number)
            for index in range(len(steps)):
                self.grow(model, groups)
                optimizer.zero_grad()
                self.link(steps[index].batch).backward()
                optimizer.step()
        self.grow(model, groups)
        return Model(model.backbone, self.entity.detach(), self.relation.detach())

    def grow(self, model: Model, groups: list[tuple[bool, Tensor, Tensor, Tensor]]) -> None:
        tables = [model.relation, model.entity]
        for of_entities, member, left, right in groups:
            first = self.update.n_old if of_entities else self.update.m_old
            tables[of_entities] = tables[of_entities].index_add(0, first + member, left @ right / len(right))
        self.relation, self.entity = tables


PLAIN: dict[str, type[Plain]] = {
    "fine-tune": Plain,
    "emr": Plain,
    "ewc": PlainEWC,
    "lkge": PlainLKGE,
    "incde": PlainIncDE,
    "fastkge": PlainFastKGE,
}
