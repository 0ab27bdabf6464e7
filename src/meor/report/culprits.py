"""Naming them: the newcomers before a displaced answer, and those that cost most in all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meor.evaluation.audit import Newcomer
from meor.evaluation.blame import blame, name_newcomers
from meor.evaluation.displacement import Displaced
from meor.evaluation.endpoints import select
from meor.evaluation.rank import Ranks
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.typing import Floats, Role, Side, Split

HARMS = 2
"""Questions named beside a newcomer."""

CHARGED = 40_000
"""Displaced queries whose newcomers are counted; beyond, those that lost most."""


@dataclass(frozen=True, slots=True)
class Harm:
    """One old query that a newcomer passed."""

    fact: tuple[int, int, int]
    side: Side
    old: int
    cur: int

    @property
    def answer(self) -> int:
        return self.fact[self.side.answer_column]


def named(view: RunView, stream: Stream, found: Sequence[Displaced]) -> tuple[Displaced, ...]:
    splits = _filter_splits(view)
    named = list(found)
    for update in sorted({each.update for each in found}):
        place = [index for index, each in enumerate(found) if each.update == update]
        told = name_newcomers(stream, view.model(update), [found[i] for i in place], filter_splits=splits)
        for index, each in zip(place, told, strict=True):
            named[index] = each
    return tuple(named)


def varied(found: Sequence[Displaced], limit: int) -> tuple[Displaced, ...]:
    """The worst cases, an answer at most twice: a list of one answer teaches nothing."""
    chosen: list[Displaced] = []
    seen: dict[int, int] = defaultdict(int)
    for each in found:
        seen[each.answer] += 1
        if seen[each.answer] <= 2 and len(chosen) < limit:
            chosen.append(each)
    return tuple(chosen)


def harms_of(newcomers: Sequence[Newcomer], found: Sequence[Displaced]) -> dict[int, tuple[Harm, ...]]:
    harms: dict[int, list[Harm]] = {each.id: [] for each in newcomers}
    for each in found:
        for entity in each.newcomers:
            mine = harms.get(entity)
            if mine is not None and len(mine) < HARMS:
                mine.append(Harm(each.fact, each.side, each.old, each.cur))
    return {entity: tuple(mine) for entity, mine in harms.items()}


def newcomers_of(
    view: RunView, stream: Stream, ranks: Sequence[Ranks], limit: int
) -> tuple[tuple[Newcomer, ...], tuple[int, int]]:
    """The newcomers that stand before most old answers, and how many queries that was counted on."""
    lost = [np.where(each.occurrences.role == Role.HISTORICAL, _lost(each), 0.0) for each in ranks]
    everything = np.concatenate(lost)
    displaced = int(np.count_nonzero(everything > 0))
    least = 0.0
    if displaced > CHARGED:
        least = float(np.partition(everything, len(everything) - CHARGED)[len(everything) - CHARGED])
    found: dict[int, Newcomer] = {}
    charged = 0
    for each, mine in zip(ranks, lost, strict=True):
        chosen = (mine > 0) & (mine >= least)
        charged += int(np.count_nonzero(chosen))
        update = each.occurrences.update
        told = blame(stream, view.model(update), select(each, chosen), filter_splits=_filter_splits(view))
        for index in np.flatnonzero(told.displaced):
            entity = told.first + int(index)
            before = found.get(entity, Newcomer(entity, update, 0, 0.0))
            found[entity] = Newcomer(
                entity,
                update,
                before.displaced + int(told.displaced[index]),
                before.charge + float(told.charge[index]),
            )
    most = sorted(found.values(), key=lambda each: (-each.charge, -each.displaced, each.id))[:limit]
    return tuple(most), (charged, displaced)


def _lost(ranks: Ranks) -> Floats:
    """Reciprocal rank lost to newcomers; 0 where the answer is one."""
    old = np.where(ranks.old > 0, ranks.old, ranks.cur)
    return np.asarray(1 / old - 1 / ranks.cur)


def _filter_splits(view: RunView) -> tuple[Split, ...]:
    return tuple(Split(name) for name in view.config.evaluation.filter_splits)
