"""Which newcomers push down which answers, and how far.

An answer of a historical query is displaced when newcomers stand ahead of it: `cur - old` of them, by the
rank identity. The cost is the lost reciprocal rank, 1/old - 1/cur; its mean over a cell is the D_MCI of that
cell. Ranks suffice for all of this. Naming the newcomers needs their scores too: see `blame.py`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meor.cohort.matching import degree_bins
from meor.evaluation.rank import Ranks
from meor.stream.snapshot import Stream
from meor.typing import Floats, Ids, Role, Side, Split


@dataclass(frozen=True, slots=True)
class Tally:
    """What a set of historical queries lost."""

    queries: int
    displaced: int
    places: int  # newcomers ahead, summed over queries
    lost: float  # reciprocal rank lost, summed over queries

    @property
    def mean_lost(self) -> float | None:
        return self.lost / self.queries if self.queries else None

    def to_json(self) -> dict[str, Any]:
        return {
            "queries": self.queries,
            "displaced": self.displaced,
            "places": self.places,
            "mean_reciprocal_rank_lost": self.mean_lost,
        }


@dataclass(frozen=True, slots=True)
class Loss:
    """Mean reciprocal rank of old facts at one update: among old entities, and with the newcomers."""

    update: int
    old: float
    cur: float


@dataclass(frozen=True, slots=True)
class Displaced:
    """One answer and the newcomers that came to stand before it, strongest first."""

    update: int
    side: Side
    snapshot: int  # that introduced the fact
    fact: tuple[int, int, int]
    old: int
    cur: int
    newcomers: tuple[int, ...] = ()

    @property
    def answer(self) -> int:
        return self.fact[self.side.answer_column]

    @property
    def lost(self) -> float:
        return 1 / self.old - 1 / self.cur

    @property
    def share(self) -> float:
        """What each newcomer ahead is charged with."""
        return self.lost / (self.cur - self.old)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Tallies by a key: relation id, admission snapshot of the answer, or degree bin of the answer."""

    name: str
    rows: tuple[tuple[int, Tally], ...]


def tally(ranks: Iterable[Ranks]) -> Tally:
    """What the historical queries among these lost."""
    return _tally_of(*_historical(ranks))


def same_facts(ranks: Iterable[Ranks]) -> tuple[Loss, ...]:
    """The facts of snapshot 0 at each update: of the same facts only candidates and model change."""
    old: dict[int, list[Floats]] = defaultdict(list)
    cur: dict[int, list[Floats]] = defaultdict(list)
    for each in ranks:
        asked = each.occurrences
        chosen = (asked.snapshot == 0) & (asked.role == Role.HISTORICAL)
        if chosen.any():
            old[asked.update].append(1 / each.old[chosen])
            cur[asked.update].append(1 / each.cur[chosen])
    means = {
        update: [float(np.mean(np.concatenate(part[update]))) for part in (old, cur)]
        for update in sorted(old)
    }
    return tuple(Loss(update, *levels) for update, levels in means.items())


def worst(ranks: Iterable[Ranks], limit: int = 10) -> tuple[Displaced, ...]:
    """The answers that lost most reciprocal rank; equals by places lost, then in order of the queries."""
    found: list[Displaced] = []
    for each in ranks:
        asked = each.occurrences
        rows = np.flatnonzero((asked.role == Role.HISTORICAL) & (each.cur > each.old))
        old, cur = each.old[rows], each.cur[rows]
        order = np.lexsort((rows, old - cur, 1 / cur - 1 / old))[:limit]
        found.extend(displaced_at(each, int(row)) for row in rows[order])
    return tuple(sorted(found, key=lambda each: (-each.lost, each.old - each.cur))[:limit])


def tables(stream: Stream, ranks: Sequence[Ranks]) -> tuple[Breakdown, ...]:
    """Tallies by relation, by the answer's admission snapshot, and by its degree bin in its role.

    Degree bin 0 is degree 0; bin b is a degree from 2^(b-1) to 2^b - 1 in the training prefix of the update.
    """
    admitted = np.asarray(stream.entities.admitted_at, dtype=np.int64)
    keys: dict[str, list[Ids]] = {"relation": [], "admitted_at": [], "degree_bin": []}
    for each in ranks:
        asked = each.occurrences
        answers = stream.prefix(asked.update, [Split.TRAIN])[:, asked.side.answer_column]
        degree = np.bincount(answers, minlength=stream.entity_counts[asked.update])
        keys["relation"].append(asked.relation)
        keys["admitted_at"].append(admitted[asked.answer])
        keys["degree_bin"].append(degree_bins(degree[asked.answer]))
    return tuple(Breakdown(name, _tally_by(ranks, columns)) for name, columns in keys.items())


def displaced_at(ranks: Ranks, row: int) -> Displaced:
    """The answer of one query."""
    asked = ranks.occurrences
    head, relation, tail = (int(part) for part in asked.fact[row])
    return Displaced(
        asked.update,
        asked.side,
        int(asked.snapshot[row]),
        (head, relation, tail),
        int(ranks.old[row]),
        int(ranks.cur[row]),
    )


def _historical(ranks: Iterable[Ranks]) -> tuple[Ids, Ids]:
    """Old and current ranks."""
    chosen = [each.select(each.occurrences.role == Role.HISTORICAL) for each in ranks]
    old = np.concatenate([np.empty(0, dtype=np.int64), *(each.old for each in chosen)])
    return old, np.concatenate([np.empty(0, dtype=np.int64), *(each.cur for each in chosen)])


def _tally_by(ranks: Sequence[Ranks], columns: Sequence[Ids]) -> tuple[tuple[int, Tally], ...]:
    roles = (each.occurrences.role for each in ranks)
    keys = [column[role == Role.HISTORICAL] for column, role in zip(columns, roles, strict=True)]
    key = np.concatenate([np.empty(0, dtype=np.int64), *keys])
    old, cur = _historical(ranks)
    order = np.argsort(key, kind="stable")
    values, first = np.unique(key[order], return_index=True)
    parts = np.split(order, first[1:])[: len(values)]
    return tuple(
        (int(value), _tally_of(old[mine], cur[mine])) for value, mine in zip(values, parts, strict=True)
    )


def _tally_of(old: Ids, cur: Ids) -> Tally:
    lost = math.fsum((1 / old - 1 / cur).tolist())
    return Tally(len(old), int(np.count_nonzero(cur > old)), int((cur - old).sum()), lost)
