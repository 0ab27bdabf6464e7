"""Degree and betweenness of the graph of an update, exactly, and the order in which IncDE learns its facts.

The graph is undirected and simple: facts between the same two entities are one edge, and loops are none.
Values are scaled as networkx scales them; tests compare with it. networkx itself takes minutes for what
Brandes' algorithm, compiled, does in seconds, so nothing needs to be cached on disk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meor.compiled import kernel
from meor.typing import Facts, Floats, Ids


@kernel
def _walk(source, start, neighbour, queue, away, paths):  # type: ignore[no-untyped-def]
    """Breadth first: who is reached, in order; how far away, and by how many shortest paths."""
    away[source], paths[source], queue[0] = 0, 1.0, source
    found, taken = 1, 0
    while taken < found:
        here = queue[taken]
        taken += 1
        for k in range(start[here], start[here + 1]):
            there = neighbour[k]
            if away[there] < 0:
                away[there] = away[here] + 1
                queue[found] = there
                found += 1
            if away[there] == away[here] + 1:
                paths[there] += paths[here]
    return found


@kernel
def _brandes(start, neighbour, edge, node_sum, edge_sum):  # type: ignore[no-untyped-def]
    """Sums over all sources, in order: what shortest paths from each source pass through."""
    n = start.shape[0] - 1
    queue, away = np.empty(n, np.int64), np.empty(n, np.int64)
    paths, passed = np.empty(n), np.empty(n)
    for source in range(n):
        away[:] = -1
        paths[:] = 0.0
        passed[:] = 0.0
        found = _walk(source, start, neighbour, queue, away, paths)
        for place in range(found - 1, 0, -1):
            here = queue[place]
            for k in range(start[here], start[here + 1]):
                there = neighbour[k]
                if away[there] == away[here] - 1:
                    part = paths[there] / paths[here] * (1.0 + passed[here])
                    passed[there] += part
                    edge_sum[edge[k]] += part
            node_sum[here] += passed[here]


@dataclass(frozen=True, slots=True)
class Centrality:
    """Of every entity id (0 where it is not in the graph), and of the edge of every fact (0 for a loop)."""

    degree: Floats  # neighbours / (nodes - 1)
    node: Floats  # betweenness of entities
    edge: Floats  # betweenness of facts' edges

    @classmethod
    def of(cls, train: Facts, n_entities: int) -> Centrality:
        ends = np.sort(train[:, [0, 2]], axis=1)
        is_loop = ends[:, 0] == ends[:, 1]
        pair, edge_of = np.unique(ends[~is_loop], axis=0, return_inverse=True)
        node = np.unique(ends)
        low, high = np.searchsorted(node, pair).T
        n, edges = len(node), np.arange(len(pair))
        begin, end = np.concatenate([low, high]), np.concatenate([high, low])
        order = np.lexsort((end, begin))
        start = np.concatenate([[0], np.cumsum(np.bincount(begin, minlength=n))]).astype(np.int64)
        through, along = np.zeros(n), np.zeros(len(pair))
        _brandes(start, end[order], np.concatenate([edges, edges])[order], through, along)
        every = [np.zeros(n_entities) for _ in range(2)]
        every[0][node] = np.diff(start) / max(n - 1, 1)
        every[1][node] = through / max((n - 1) * (n - 2), 1)
        of_fact = np.zeros(len(train))
        of_fact[~is_loop] = along[edge_of.ravel()] / max(n * (n - 1), 1)
        return cls(every[0], every[1], of_fact)


def layers(train: Facts, n_old: int, n_entities: int) -> Ids:
    """[F] the layer of each fact: 0 touches an old entity, 1 touches an entity of layer 0, and so on.

    Facts that nothing connects with old entities form the last layer.
    """
    seen = np.arange(n_entities) < n_old
    layer = np.full(len(train), -1)
    number = 0
    while True:
        touching = (layer < 0) & (seen[train[:, 0]] | seen[train[:, 2]])
        if not touching.any():
            break
        layer[touching] = number
        seen[train[touching][:, [0, 2]].ravel()] = True
        number += 1
    layer[layer < 0] = number
    return layer


def learning_order(train: Facts, n_old: int, n_entities: int, found: Centrality) -> Ids:
    """Rows of `train`: layer by layer, the most central facts of a layer first.

    In an update a fact counts max(degree of its ends) + betweenness of its edge; at the base, that alone.
    """
    importance = found.edge
    if n_old:
        importance = np.maximum(found.degree[train[:, 0]], found.degree[train[:, 2]]) + found.edge
    return np.lexsort((-importance, layers(train, n_old, n_entities)))
