from __future__ import annotations

import numpy as np
import pytest

from meor.stream.snapshot import LabelFact, Stream, build_stream
from meor.typing import Split

N_ENTITIES = (24, 32, 40)
N_RELATIONS = (3, 4, 4)


def _facts(rng: np.random.Generator, snapshot: int, count: int) -> list[LabelFact]:
    """Facts of a ring: relation r leads from e to e + 2r + 1, so there is something to learn."""
    n, first = N_ENTITIES[snapshot], N_ENTITIES[snapshot - 1] if snapshot else 0
    chosen: dict[LabelFact, None] = {}
    newcomers = iter(range(first, n))
    while len(chosen) < count:
        head = next(newcomers, None)
        head = int(rng.integers(n)) if head is None else head
        relation = int(rng.integers(N_RELATIONS[snapshot]))
        if snapshot and not chosen:
            relation = N_RELATIONS[snapshot] - 1
        chosen[(f"e{head}", f"r{relation}", f"e{(head + 2 * relation + 1) % n}")] = None
    return list(chosen)


@pytest.fixture(scope="session")
def stream() -> Stream:
    """Base and two updates; update 1 brings newcomers and a relation, update 2 newcomers only."""
    rng = np.random.default_rng(7)
    snapshots = []
    for index, count in enumerate((60, 30, 25)):
        train = _facts(rng, index, count)
        snapshots.append({Split.TRAIN: train, Split.VALID: [], Split.TEST: []})
    return build_stream("ring", snapshots)
