"""What pinned addresses draw. Every run and every published result rests on these ids.

`python -m tests.golden.drawn` writes the files again: for a draw that was changed on purpose, and then every
result made before it is of another draw, which README has to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.growth import growing
from tests.tiny_run import tiny_stream

from meor.cohort.draw import block, key_words, occurrence_key
from meor.cohort.matching import Structure, build_references, shuffled_partners
from meor.cohort.newcomers import Cohort, build_cohort
from meor.hosts.replay import ReplayPass
from meor.methods.comparison import sample_records
from meor.random import generator, key
from meor.stream.snapshot import Stream
from meor.training.draws import draw_buffer, draw_negatives
from meor.training.host import Plan, Update

FOLDER = Path(__file__).parent


def _grown() -> tuple[Stream, Cohort]:
    """More newcomers than some cells have members, so that exhausted cells are among what is pinned."""
    stream = growing(3, n_old=30, n_new=17, density=2)
    return stream, build_cohort(stream, 1, stream.snapshots[0].train[:8], run="pinned", scale_sample=6)


def addresses() -> dict[str, Any]:
    first, second = key_words("references", 4, 2)
    own = occurrence_key(11, 2, 7, 1, first, second)
    counters = [(3, 1, 0, 2), (3, 2, 0, 1), (4, 1, 0, 0)]
    return {
        "key": list(key("negatives", 0, 1, 2)),
        "key_words": [int(first), int(second)],
        "generator": generator("order", 5, 1, 0).integers(0, 1 << 40, 4).tolist(),
        "occurrence_key": [int(word) for word in own],
        "blocks": [
            [int(word) for word in block(*(np.uint64(part) for part in (*counter, *own)))]
            for counter in counters
        ],
    }


def scale_samples() -> dict[str, Any]:
    _, cohort = _grown()
    return {
        "sample": cohort.scale.tolist(),
        "newcomers": cohort.n_newcomers.tolist(),
        "pool": cohort.n_pool.tolist(),
    }


def references() -> dict[str, Any]:
    stream, cohort = _grown()
    structure = Structure.through(stream, 1)
    index = np.arange(0, len(cohort), 3)
    found: dict[str, Any] = {"occurrence": index.tolist()}
    for rule in ("matched", "role"):
        drawn = build_references(cohort, structure, draws=3, rule=rule).draw(index)  # type: ignore[arg-type]
        found[rule] = {"id": drawn.id.tolist(), "level": drawn.level.tolist()}
    found["shuffled_partner"] = shuffled_partners(cohort).tolist()
    found["records"] = sample_records(cohort, 7).tolist()
    return found


def buffers() -> dict[str, Any]:
    stream = tiny_stream()
    return {
        policy: {
            str(update): draw_buffer(stream, update, seed=6, size=9, policy=policy).row.tolist()  # type: ignore[arg-type]
            for update in (0, 1, 2)
        }
        for policy in ("uniform", "reservoir")
    }


def negatives() -> dict[str, Any]:
    fact = tiny_stream().snapshots[0].train[:5]
    drawn = draw_negatives(fact, 24, 4, "negatives", 6, 0, 1)
    return {"entity": drawn.entity.tolist(), "replaced": drawn.replaced.tolist()}


def steps() -> dict[str, Any]:
    """Order, replayed facts and negatives of the steps of a permuted pass."""
    stream = tiny_stream()
    update = Update.of(stream, 1, draw_buffer(stream, 1, seed=6, size=7))
    made = ReplayPass(update, Plan(seed=6, batch_size=12, negatives=2, order="permuted"), 1)
    return {
        str(index): {
            "fact": made[index].batch.fact.tolist(),
            "negative": made[index].batch.negative.tolist(),
            "replay": made[index].replay.tolist(),
        }
        for index in range(len(made))
    }


DRAWN: dict[str, Callable[[], dict[str, Any]]] = {
    made.__name__: made for made in (addresses, scale_samples, references, buffers, negatives, steps)
}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


if __name__ == "__main__":
    for name, made in DRAWN.items():
        path_of(name).write_text(json.dumps(made(), sort_keys=True) + "\n")
        print(path_of(name))
