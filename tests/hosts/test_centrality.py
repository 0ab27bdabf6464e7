"""Betweenness is that of networkx, and facts come in layers, the central ones first."""

from __future__ import annotations

import networkx as nx
import numpy as np

from meor.hosts.centrality import Centrality, layers, learning_order


def facts(seed: int, n: int = 40, many: int = 70) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = np.stack([rng.integers(0, n, many), rng.integers(0, 3, many), rng.integers(0, n, many)], 1)
    found[0, 2] = found[0, 0]  # a loop
    found[1] = found[2]  # an edge twice
    return found


def test_degree_and_betweenness_are_those_of_networkx() -> None:
    for seed in range(5):
        train = facts(seed)
        graph = nx.Graph()
        graph.add_nodes_from(train[:, [0, 2]].ravel().tolist())
        graph.add_edges_from((int(h), int(t)) for h, _, t in train if h != t)
        found = Centrality.of(train, 45)
        degree, node = nx.degree_centrality(graph), nx.betweenness_centrality(graph)
        edge = nx.edge_betweenness_centrality(graph)
        np.testing.assert_allclose(found.degree, [degree.get(k, 0.0) for k in range(45)], atol=1e-14)
        np.testing.assert_allclose(found.node, [node.get(k, 0.0) for k in range(45)], atol=1e-14)
        wanted = [edge.get((int(h), int(t)), edge.get((int(t), int(h)), 0.0)) for h, _, t in train]
        np.testing.assert_allclose(found.edge, wanted, atol=1e-14)
        assert len(set(found.edge)) > 10


def test_layers_lead_away_from_old_entities() -> None:
    train = np.array([[5, 0, 6], [0, 0, 3], [3, 0, 4], [7, 0, 8], [4, 0, 5], [1, 0, 2]])
    assert layers(train, 3, 9).tolist() == [3, 0, 1, 4, 2, 0]
    assert layers(train, 0, 9).tolist() == [0] * 6  # at the base nobody is old


def test_central_facts_of_a_layer_come_first() -> None:
    train = facts(3)
    found = Centrality.of(train, 40)
    order = learning_order(train, 10, 40, found)
    assert sorted(order) == list(range(len(train)))
    layer = layers(train, 10, 40)[order]
    ends = np.maximum(found.degree[train[:, 0]], found.degree[train[:, 2]])
    importance = (ends + found.edge)[order]
    assert (np.diff(layer) >= 0).all()
    assert (np.diff(importance)[np.diff(layer) == 0] <= 0).all()
    base = found.edge[learning_order(train, 0, 40, found)]
    assert (np.diff(base) <= 0).all()
