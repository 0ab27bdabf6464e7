"""What changed for protected queries between two versions of a store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meor.errors import StoreError
from meor.evaluation.rank import rank
from meor.store.protect import Asked, Protected, protected
from meor.store.verdict import named_query
from meor.store.version import Version
from meor.stream.occurrence import EvaluationFilter
from meor.stream.snapshot import Stream
from meor.typing import Facts, Floats, Ids


@dataclass(frozen=True, slots=True)
class Changes:
    """Ranks of the same queries, each among all entities of its version."""

    first: str
    second: str
    source: str
    queries: list[dict[str, str]]
    weight: Floats
    before: Ids
    after: Ids

    def to_json(self) -> dict[str, Any]:
        """Those that changed, the greatest loss first."""
        lost = 1 / self.before - 1 / self.after
        order = np.lexsort((np.arange(len(lost)), -self.weight * lost))
        changed = [q for q in order.tolist() if self.before[q] != self.after[q]]
        return {
            "from": self.first,
            "to": self.second,
            "protected": self.source,
            "queries": len(self.queries),
            "worse": int((self.after > self.before).sum()),
            "better": int((self.after < self.before).sum()),
            "mean_reciprocal_rank": [float((self.weight / each).sum()) for each in (self.before, self.after)],
            "changed": [
                {**self.queries[q], "before": int(self.before[q]), "after": int(self.after[q])}
                for q in changed
            ],
        }


def changes(first: Version, second: Version, golden: Path | None, *, memory: int) -> Changes:
    """Queries that both versions can be asked; they are chosen in the version with the smaller graph."""
    streams = first.stream(), second.stream()
    smaller = min(streams, key=lambda each: len(each.entities))
    given: Protected = protected(smaller, first.gate().sample, golden)
    ranks = []
    for version, stream in zip((first, second), streams, strict=True):
        model, update = version.model(), len(stream.snapshots) - 1
        known, size = EvaluationFilter.through(stream, update), len(stream.entities)
        found = []
        for each in given.sides:
            fact = _in_ids_of(stream, smaller, each.fact, version.name)
            asked = Asked(each.side, fact, each.keep, each.weight, each.cluster).occurrences(update)
            found.append(rank(model, asked, known, (size, size), memory=memory).cur)
        ranks.append(np.concatenate(found))
    queries = [named_query(smaller, fact, int(each.side)) for each in given.sides for fact in each.fact]
    weight = np.concatenate([each.weight for each in given.sides])
    return Changes(first.name, second.name, given.source, queries, weight, *ranks)


def _in_ids_of(stream: Stream, of: Stream, fact: Facts, name: str) -> Facts:
    """The same facts by the ids of another version: after a rollback, newcomers may have other ids."""
    found = fact.copy()
    for column, known, other in (
        (0, of.entities, stream.entities),
        (1, of.relations, stream.relations),
        (2, of.entities, stream.entities),
    ):
        for id in np.unique(fact[:, column]).tolist():
            label = known.label(id)
            if label not in other:
                raise StoreError(f"version {name} does not know {label!r}, which a protected query names.")
            found[fact[:, column] == id, column] = other.id(label)
    return found
