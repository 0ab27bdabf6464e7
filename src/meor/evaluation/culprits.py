"""The newcomers that cost old answers most over all updates, each with the answer that it harms most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from meor.backbone.base import Model
from meor.evaluation.audit import Newcomer
from meor.evaluation.blame import blame, name_newcomers
from meor.evaluation.displacement import Displaced, displaced_at
from meor.evaluation.rank import PAPER, Ranks, Rules
from meor.stream.snapshot import Stream
from meor.typing import Floats, Role

CHARGED = 40_000
"""Displaced queries whose newcomers are counted; beyond, those that lost most."""

ModelOf = Callable[[int], Model]


@dataclass(frozen=True, slots=True)
class Culprit:
    """A newcomer, and the one old answer that it costs most."""

    newcomer: Newcomer
    harm: Displaced


def culprits(
    stream: Stream, model_of: ModelOf, ranks: Sequence[Ranks], limit: int, *, rules: Rules = PAPER
) -> tuple[tuple[Culprit, ...], tuple[int, int]]:
    """The newcomers that cost most, and how many displaced queries that was counted on, of how many."""
    lost = [np.where(each.occurrences.role == Role.HISTORICAL, _lost(each), 0.0) for each in ranks]
    everything = np.concatenate(lost)
    displaced = int(np.count_nonzero(everything > 0))
    least = 0.0
    if displaced > CHARGED:
        least = float(np.partition(everything, len(everything) - CHARGED)[len(everything) - CHARGED])
    found: dict[int, Culprit] = {}
    charged = 0
    for each, mine in zip(ranks, lost, strict=True):
        chosen = each.select((mine > 0) & (mine >= least))
        charged += len(chosen.cur)
        told = blame(stream, model_of(each.occurrences.update), chosen, rules=rules)
        for index in np.flatnonzero(told.displaced):
            entity = told.first + int(index)
            seen = Newcomer(entity, told.update, int(told.displaced[index]), float(told.charge[index]))
            harm = displaced_at(chosen, int(told.dearest[index]))
            found[entity] = _together(found.get(entity), Culprit(seen, harm))
    most = sorted(
        found.values(), key=lambda each: (-each.newcomer.charge, -each.newcomer.displaced, each.newcomer.id)
    )
    return tuple(most[:limit]), (charged, displaced)


def with_newcomers(
    stream: Stream, model_of: ModelOf, found: Sequence[Displaced], *, rules: Rules = PAPER
) -> tuple[Displaced, ...]:
    """The same answers, of any updates, with the newcomers ahead of them."""
    told = list(found)
    for update in sorted({each.update for each in found}):
        place = [index for index, each in enumerate(found) if each.update == update]
        named = name_newcomers(stream, model_of(update), [found[i] for i in place], rules=rules)
        for index, each in zip(place, named, strict=True):
            told[index] = each
    return tuple(told)


def varied(found: Sequence[Displaced], limit: int) -> tuple[Displaced, ...]:
    """The worst cases, an answer at most twice: a list of one answer teaches nothing."""
    chosen: list[Displaced] = []
    seen: dict[int, int] = defaultdict(int)
    for each in found:
        seen[each.answer] += 1
        if seen[each.answer] <= 2 and len(chosen) < limit:
            chosen.append(each)
    return tuple(chosen)


def _together(before: Culprit | None, now: Culprit) -> Culprit:
    """What a newcomer does on both sides, with the worse of its harms."""
    if before is None:
        return now
    one, two = before.newcomer, now.newcomer
    both = Newcomer(one.id, one.update, one.displaced + two.displaced, one.charge + two.charge)
    return replace(max(before, now, key=lambda each: each.harm.share), newcomer=both)


def _lost(ranks: Ranks) -> Floats:
    """Reciprocal rank lost to newcomers; 0 where the answer is one."""
    old = np.where(ranks.old > 0, ranks.old, ranks.cur)
    return np.asarray(1 / old - 1 / ranks.cur)
