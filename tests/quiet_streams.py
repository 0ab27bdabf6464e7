"""Streams with updates that admit no entity: facts between known entities, or a relation between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from meor.stream.files import write_stream
from meor.stream.snapshot import LabelFact, Stream, build_stream
from meor.typing import Split

GROWS, FACTS, RELATION = "grows", "facts", "relation"
"""What an update brings: newcomers, new facts between known entities, or a new relation between them."""

QUIET: dict[str, tuple[str, ...]] = {
    "no newcomers at the start": (FACTS, GROWS, GROWS),
    "no newcomers in the middle": (GROWS, FACTS, GROWS),
    "no newcomers at the end": (GROWS, GROWS, FACTS),
    "no newcomers anywhere": (FACTS, FACTS),
    "a new relation only, at the start": (RELATION, GROWS),
    "a new relation only, at the end": (GROWS, RELATION),
    "new relations only": (RELATION, RELATION),
}

N_BASE, N_NEW, N_HELD = 24, 8, 12


def quiet_stream(kinds: tuple[str, ...], name: str = "quiet") -> Stream:
    """A base of 24 entities and 3 relations, and one update for each of `kinds`."""
    draw = np.random.default_rng(11)
    n_entities, n_relations = N_BASE, 3
    seen: set[LabelFact] = set()
    snapshots = [_snapshot(draw, seen, (0, n_entities), n_entities, (0, n_relations))]
    for kind in kinds:
        first, lowest = 0, 0
        if kind == GROWS:
            first, n_entities = n_entities, n_entities + N_NEW
        if kind == RELATION:
            lowest, n_relations = n_relations, n_relations + 1
        snapshots.append(_snapshot(draw, seen, (first, n_entities), n_entities, (lowest, n_relations)))
    return build_stream(name, snapshots)


def written(kinds: tuple[str, ...], folder: Path) -> Path:
    write_stream(quiet_stream(kinds), folder)
    return folder


def _snapshot(
    draw: np.random.Generator,
    seen: set[LabelFact],
    chosen: tuple[int, int],
    n_entities: int,
    relations: tuple[int, int],
) -> dict[Split, list[LabelFact]]:
    """Every chosen entity and relation has a training fact; one end of each fact is a chosen entity."""

    def fresh(one: int, relation: int) -> LabelFact:
        while True:
            other = int(draw.integers(n_entities))
            pair = (one, other) if draw.integers(2) else (other, one)
            fact = (f"e{pair[0]}", f"r{relation}", f"e{pair[1]}")
            if one != other and fact not in seen:
                seen.add(fact)
                return fact

    kinds = np.arange(*relations)
    train = [fresh(one, int(kinds[index % len(kinds)])) for index, one in enumerate(range(*chosen))]
    train += [fresh(int(draw.integers(*chosen)), int(draw.choice(kinds))) for _ in range(2 * N_NEW)]
    held = [fresh(int(draw.integers(*chosen)), int(draw.choice(kinds))) for _ in range(2 * N_HELD)]
    return {Split.TRAIN: train, Split.VALID: held[:N_HELD], Split.TEST: held[N_HELD:]}
