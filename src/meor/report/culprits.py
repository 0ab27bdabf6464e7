"""Naming them: the newcomers before a displaced answer, and those that cost most in all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from meor.evaluation.audit import Newcomer
from meor.evaluation.blame import blame, name_newcomers
from meor.evaluation.displacement import Displaced, displaced_at
from meor.evaluation.rank import Ranks, Rules
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.typing import Floats, Role, Split

CHARGED = 40_000
"""Displaced queries whose newcomers are counted; beyond, those that lost most."""


def named(view: RunView, stream: Stream, found: Sequence[Displaced]) -> tuple[Displaced, ...]:
    rules = _rules(view)
    named = list(found)
    for update in sorted({each.update for each in found}):
        place = [index for index, each in enumerate(found) if each.update == update]
        told = name_newcomers(stream, view.model(update), [found[i] for i in place], rules=rules)
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


@dataclass(frozen=True, slots=True)
class Culprit:
    """A newcomer, and the one old answer that it costs most."""

    newcomer: Newcomer
    harm: Displaced


def culprits(
    view: RunView, stream: Stream, ranks: Sequence[Ranks], limit: int
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
        told = blame(
            stream,
            view.model(each.occurrences.update),
            chosen,
            rules=_rules(view),
        )
        for index in np.flatnonzero(told.displaced):
            entity = told.first + int(index)
            seen = Newcomer(entity, told.update, int(told.displaced[index]), float(told.charge[index]))
            harm = displaced_at(chosen, int(told.dearest[index]))
            found[entity] = _together(found.get(entity), Culprit(seen, harm))
    most = sorted(
        found.values(), key=lambda each: (-each.newcomer.charge, -each.newcomer.displaced, each.newcomer.id)
    )
    return tuple(most[:limit]), (charged, displaced)


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


def _rules(view: RunView) -> Rules:
    return Rules(filter_splits=tuple(Split(name) for name in view.config.evaluation.filter_splits))
