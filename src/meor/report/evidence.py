"""What the ranks of one run show: losses by update, the same facts over time, a question to draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meor.evaluation.displacement import Tally, tally
from meor.evaluation.overall import by_update
from meor.evaluation.rank import Ranks
from meor.report.drawings import SHOWN_AHEAD, Crowd
from meor.report.figures import Change, Loss
from meor.run.layout import RANKS, update_name
from meor.run.view import RunView
from meor.typing import Floats, Role, Split

SMALL = 5e-4
"""Changes among old entities below this are not drawn."""


@dataclass(frozen=True, slots=True)
class Example:
    """One old query through every update."""

    fact: tuple[int, int, int]
    head_missing: bool
    crowds: tuple[Crowd, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    ranks: tuple[Ranks, ...]
    total: Tally
    counts: tuple[int, ...]  # |E_u| by update
    steps: tuple[Change, ...]
    example: Example | None

    @property
    def admitted(self) -> int:
        return self.counts[-1] - self.counts[0]


def gather(view: RunView) -> Evidence | None:
    """None where the run has no ranks yet."""
    _, ranks = ranks_of(view)
    if not ranks:
        return None
    counts = entity_counts(view)
    return Evidence(ranks, tally(ranks), tuple(counts), _steps(ranks, counts), _example(ranks, counts))


def ranks_of(view: RunView) -> tuple[Split, tuple[Ranks, ...]]:
    """The test ranks of every evaluated update; another split where test was not ranked."""
    by_split: dict[Split, list[Ranks]] = defaultdict(list)
    for update in view.updates:
        if view.has(f"{update_name(update)}/{RANKS}"):
            for split, ranks in view.ranks(update).items():
                by_split[split].extend(ranks)
    split = Split.TEST if Split.TEST in by_split or not by_split else next(iter(by_split))
    return split, tuple(by_split.get(split, ()))


def entity_counts(view: RunView) -> list[int]:
    """|E_u| by update, from the vocabulary that the run carries; the last updates may admit nobody."""
    admitted = np.bincount(view.admitted_at(), minlength=len(view.updates))
    return [int(total) for total in np.cumsum(admitted)]


def losses(split: Mapping[str, Any]) -> tuple[Loss, ...]:
    """H_old and H_cur of each update, sides weighing the same, from the cells of endpoints.json."""
    old, cur = (by_update(split.get(name, {})) for name in ("H_old", "H_cur"))
    return tuple(
        Loss(update, before, after)
        for update in sorted(old.keys() & cur.keys())
        if (before := old[update].value) is not None and (after := cur[update].value) is not None
    )


def _steps(ranks: Sequence[Ranks], counts: Sequence[int]) -> tuple[Change, ...]:
    """The facts of snapshot 0 through all updates: which part of each change is whose."""
    old: dict[int, list[Floats]] = defaultdict(list)
    cur: dict[int, list[Floats]] = defaultdict(list)
    for each in ranks:
        asked = each.occurrences
        chosen = (asked.snapshot == 0) & (asked.role == Role.HISTORICAL)
        if chosen.any():
            old[asked.update].append(1 / each.old[chosen])
            cur[asked.update].append(1 / each.cur[chosen])
    steps: list[Change] = []
    level: float | None = None
    for update in sorted(old):
        before, after = (float(np.mean(np.concatenate(part[update]))) for part in (old, cur))
        if level is None:
            steps.append(Change("at the start", 0.0, before, ""))
        elif abs(before - level) >= SMALL:
            steps.append(Change(f"update {update}: old entities", level, before, "old"))
        if counts[update] > counts[update - 1]:
            steps.append(Change(f"update {update}: newcomers", before, after, "new"))
        level = after
    if level is not None:
        steps.append(Change("at the end", 0.0, level, ""))
    return tuple(steps)


def _example(ranks: Sequence[Ranks], counts: Sequence[int]) -> Example | None:
    """A query of snapshot 0 that newcomers pass at most updates; if there is, one that fits a drawing."""
    fitting = _passed_most(ranks, counts, SHOWN_AHEAD)
    return fitting if fitting is not None else _passed_most(ranks, counts, counts[-1])


def _passed_most(ranks: Sequence[Ranks], counts: Sequence[int], lowest: int) -> Example | None:
    """Of the queries that never rank below `lowest`."""
    series: dict[tuple[int, int, int, int], list[tuple[int, int, int]]] = defaultdict(list)
    updates = {each.occurrences.update for each in ranks}
    for each in ranks:
        asked = each.occurrences
        first = (asked.snapshot == 0) & (asked.role == Role.HISTORICAL)
        rows = np.flatnonzero(first & (each.cur <= lowest))
        for row in rows:
            head, relation, tail = (int(part) for part in asked.fact[row])
            place = (asked.update, int(each.old[row]), int(each.cur[row]))
            series[head, relation, tail, int(asked.side)].append(place)
    whole = {key: found for key, found in series.items() if len(found) == len(updates)}
    if not whole:
        return None

    def clearness(key: tuple[int, int, int, int]) -> tuple[float, ...]:
        found = whole[key]
        passed = sum(cur > old for _, old, cur in found)
        return (passed, 1 / found[0][1] - 1 / found[-1][2], *(-part for part in key))

    key = max(whole, key=clearness)
    crowds = tuple(
        Crowd(update, counts[update - 1], counts[update], int(old) - 1, int(cur - old))
        for update, old, cur in sorted(whole[key])
    )
    if not any(crowd.ahead_new for crowd in crowds):
        return None
    return Example(key[:3], key[3] == 0, crowds)
