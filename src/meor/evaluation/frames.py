"""Ranks, endpoints, displaced answers and the newcomers before them, as tables with labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from meor.evaluation.displacement import Displaced
from meor.evaluation.endpoints import MEANING, Content, Endpoint, Overall, Undefined, by_update, overall
from meor.evaluation.rank import Ranks
from meor.stream.snapshot import Stream
from meor.tabular import Rows, Tabular
from meor.typing import Role, Split

Labels = Callable[[str], Sequence[str]]
"""The labels of `entity` or of `relation`, in id order."""


def labels_of(stream: Stream) -> Labels:
    return lambda kind: (stream.entities if kind == "entity" else stream.relations).labels


class RanksBySplit(Tabular, dict[Split, tuple[Ranks, ...]]):
    """The ranks of an update, one `Ranks` per side; `to_frame()` has one row per query."""

    def __init__(self, ranks: Mapping[Split, tuple[Ranks, ...]], labels: Labels) -> None:
        super().__init__(ranks)
        self._labels = labels

    def columns(self) -> Mapping[str, Sequence[Any]]:
        entity, relation = (np.array(self._labels(kind), object) for kind in ("entity", "relation"))
        parts = [(split, each, each.occurrences) for split, ranks in self.items() for each in ranks]
        facts = np.concatenate([asked.fact for _, _, asked in parts]) if parts else np.empty((0, 3), np.int64)
        old = _joined([each.old for _, each, _ in parts])
        return {
            "update": _repeated([(asked.update, len(asked)) for _, _, asked in parts]),
            "snapshot": _joined([asked.snapshot for _, _, asked in parts]),
            "split": _repeated([(split.value, len(asked)) for split, _, asked in parts]),
            "role": [Role(role).label for _, _, asked in parts for role in asked.role],
            "side": _repeated([(asked.side.label, len(asked)) for _, _, asked in parts]),
            "head": entity[facts[:, 0]].tolist(),
            "relation": relation[facts[:, 1]].tolist(),
            "tail": entity[facts[:, 2]].tolist(),
            "rank_old": [rank or None for rank in old],  # a newcomer has none
            "rank_cur": _joined([each.cur for _, each, _ in parts]),
        }

    def __repr__(self) -> str:
        told = ", ".join(f"{sum(map(len, ranks)):,} {split.value} queries" for split, ranks in self.items())
        return f"Ranks of {told or 'no query'}"


def _joined(parts: Sequence[Any]) -> list[Any]:
    return [value for part in parts for value in part.tolist()]


def _repeated(counts: Sequence[tuple[Any, int]]) -> list[Any]:
    return [value for value, count in counts for _ in range(count)]


class Endpoints(Tabular, dict[str, Endpoint | Undefined]):
    """Endpoints by name; `to_frame()` has one row per endpoint: over all cells, and at each update."""

    def columns(self) -> Mapping[str, Sequence[Any]]:
        return endpoint_columns({"": {name: found.to_json() for name, found in self.items()}})

    def __repr__(self) -> str:
        return f"Endpoints: {told({name: found.to_json() for name, found in self.items()})}"


class StoredEndpoints(Tabular, dict[str, Any]):
    """The content of endpoints.json: endpoints by split and name, and `control`."""

    def columns(self) -> Mapping[str, Sequence[Any]]:
        return endpoint_columns(self.by_split)

    @property
    def by_split(self) -> dict[str, Mapping[str, Content]]:
        return {split.value: self[split.value] for split in Split if split.value in self}

    def __repr__(self) -> str:
        return "; ".join(f"Endpoints of {split} facts: {told(each)}" for split, each in self.by_split.items())


def endpoint_columns(by_split: Mapping[str, Mapping[str, Content]]) -> dict[str, list[Any]]:
    rows = [(split, name, found) for split, named in by_split.items() for name, found in named.items()]
    updates = sorted({update for _, _, found in rows for update in by_update(found)})
    nothing = Overall(None, 0, 0)
    return {
        **({"split": [split for split, _, _ in rows]} if len(by_split) > 1 else {}),
        "endpoint": [name for _, name, _ in rows],
        "all": [overall(found).value for _, _, found in rows],
        **{
            f"update {update}": [by_update(found).get(update, nothing).value for _, _, found in rows]
            for update in updates
        },
    }


def told(endpoints: Mapping[str, Content]) -> str:
    """The five endpoints on one line."""
    means = {name: overall(endpoints[name]) for name in MEANING if name in endpoints}
    return ", ".join(f"{name} {_shown(mean)}" for name, mean in means.items())


def _shown(mean: Overall) -> str:
    return "-" if mean.value is None else f"{mean.value:.4f}{mean.mark}"


def displaced_rows(stream: Stream, answers: Sequence[Displaced]) -> Rows:
    """Old answers that newcomers have passed, with the names of those newcomers."""
    entity, relation = stream.entities.label, stream.relations.label
    return Rows(
        "old answers that lost rank to newcomers",
        (
            {
                "update": each.update,
                "snapshot": each.snapshot,
                "side": each.side.label,
                "head": entity(each.fact[0]),
                "relation": relation(each.fact[1]),
                "tail": entity(each.fact[2]),
                "rank_old": each.old,
                "rank_cur": each.cur,
                "reciprocal_rank_lost": each.lost,
                "newcomers": [entity(id) for id in each.newcomers],
            }
            for each in answers
        ),
    )
