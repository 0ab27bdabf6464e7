"""What a sequence of models forgets and learns, as other papers measure it.

All of it comes from a table a[i, j]: a metric (MRR or Hits@k) of the model after update i on the test facts
that snapshot j introduced (`protocols.py`). The diagonal is what was reached when a snapshot was learned;
below it lies what became of that. It needs the model after each update, so a single embedding has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meor.backbone.base import Model
from meor.errors import EmptyCellError, MeorError, NonFiniteError
from meor.evaluation.endpoints import METRICS, MRR, measure
from meor.evaluation.protocols import FIELD, UNIVERSES, SetRanks, set_ranks, weighted_mean
from meor.evaluation.rank import Rules
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Floats, Ids, Side, Split


@dataclass(frozen=True, slots=True)
class Retention:
    """`value[i, j]`, NaN where model i was not ranked on set j; `size[j]` queries of set j."""

    value: Floats
    size: Ids

    @property
    def last(self) -> int:
        return len(self.size) - 1

    def at(self, model: int, introduced: int) -> float:
        found = float(self.value[model, introduced])
        if math.isnan(found):
            raise EmptyCellError(
                f"a[{model}, {introduced}] is undefined: update {model}'s model was not ranked on the "
                f"test facts of snapshot {introduced}, or there are none. Rank it on them."
            )
        return found


def retention(sets: Iterable[SetRanks], *, full: bool, metric: str = MRR) -> Retention:
    """The table of protocol B (`full`) or A. Entries above the diagonal may be given: they are for FWT."""
    chosen = tuple(sets)
    if not chosen:
        raise EmptyCellError("no test set was ranked, so there is nothing to tabulate.")
    n = 1 + max(max(each.model, each.introduced) for each in chosen)
    value = np.full((n, n), np.nan)
    size = np.zeros(n, dtype=np.int64)
    for each in chosen:
        rank = each.full if full else each.restricted
        size[each.introduced] = len(rank)
        if len(rank):
            value[each.model, each.introduced] = measure(rank, metric)
    return Retention(value, size)


def average_forgetting(table: Retention) -> float:
    """ACF: relative change of each earlier set since it was learned, per update, weighted by set size.

    With n the last update: sum over i < n of |T_i| / sum |T| * (a[n,i] - a[i,i]) / ((n - i) a[i,i]).
    Negative means forgetting. On a full-universe table it holds drift and displacement together, on a
    restricted one drift alone.
    """
    last = table.last
    _needs_updates(table, "ACF")
    total = int(table.size[:last].sum())
    if not total:
        raise EmptyCellError("ACF is undefined: no snapshot before the last one has test facts.")
    terms = []
    for learned in np.flatnonzero(table.size[:last]):
        i = int(learned)
        reached = table.at(i, i)
        if reached == 0:
            raise NonFiniteError(
                f"ACF is undefined: the model reached 0 on snapshot {i}, which cannot shrink."
            )
        change = (table.at(last, i) - reached) / ((last - i) * reached)
        terms.append(change * int(table.size[i]) / total)
    return math.fsum(terms)


def backward_transfer(table: Retention) -> float:
    """BWT: mean over i < n of a[n,i] - a[i,i]."""
    _needs_updates(table, "BWT")
    last = table.last
    return math.fsum(table.at(last, i) - table.at(i, i) for i in range(last)) / last


def forward_transfer(table: Retention) -> float:
    """FWT: mean over i >= 1 of a[i-1,i], the figure on set i before snapshot i is learned.

    Defined only where a model has rows for entities it was not trained on (initialised newcomers).
    """
    _needs_updates(table, "FWT")
    return math.fsum(table.at(i - 1, i) for i in range(1, table.last + 1)) / table.last


def acquisition(table: Retention) -> float:
    """Omega_new: a[i,i] over i >= 1, weighted by set size."""
    _needs_updates(table, "Omega_new")
    sizes = table.size[1:]
    if not sizes.sum():
        raise EmptyCellError("Omega_new is undefined: no snapshot after the base has test facts.")
    terms = (table.at(int(i), int(i)) * int(table.size[i]) for i in 1 + np.flatnonzero(sizes))
    return math.fsum(terms) / int(sizes.sum())


def base_kept(table: Retention) -> float:
    """Base: mean over i >= 1 of min(1, a[i,0] / a[0,0])."""
    _needs_updates(table, "Base")
    reached = table.at(0, 0)
    if reached == 0:
        raise NonFiniteError("Base is undefined: the base model reached 0 on its own test facts.")
    return math.fsum(min(1.0, table.at(i, 0) / reached) for i in range(1, table.last + 1)) / table.last


def new_learned(table: Retention) -> float:
    """New: mean over i >= 1 of a[i,i], each snapshot weighing the same."""
    _needs_updates(table, "New")
    return math.fsum(table.at(i, i) for i in range(1, table.last + 1)) / table.last


def _needs_updates(table: Retention, name: str) -> None:
    if table.last < 1:
        raise EmptyCellError(f"{name} is undefined: the table has no update after the base.")


MEASURES: dict[str, Callable[[Retention], float]] = {
    "ACF": average_forgetting,
    "BWT": backward_transfer,
    "Omega_new": acquisition,
    "Base": base_kept,
    "New": new_learned,
}


def published(
    stream: Stream,
    model_of: Callable[[int], Model],
    updates: Sequence[int],
    *,
    split: Split = Split.TEST,
    sides: Sequence[Side] = SIDES,
    rules: Rules = FIELD,
    memory: int = DEFAULT_MEMORY,
) -> dict[str, Any]:
    """Figures of the model after the last of `updates`; forgetting where they run from 0 without a gap."""
    sets: list[SetRanks] = []
    for update in updates:
        model = model_of(update)
        sets.extend(set_ranks(stream, model, update, split=split, sides=sides, rules=rules, memory=memory))
    last = [each for each in sets if each.model == max(updates)]
    found: dict[str, Any] = {"update": max(updates), "filter_prefix": rules.filter_prefix.value}
    for name, full in UNIVERSES.items():
        found[name] = {metric: weighted_mean(last, full=full, metric=metric) for metric in METRICS}
    if len(updates) > 1 and list(updates) == list(range(len(updates))):
        found["forgetting"] = {name: _measures(sets, full) for name, full in UNIVERSES.items()}
    return found


def _measures(sets: Sequence[SetRanks], full: bool) -> dict[str, dict[str, float | None]]:
    """Measure -> metric -> value; null where it is undefined."""
    tables = {metric: retention(sets, full=full, metric=metric) for metric in METRICS}
    return {
        name: {metric: _or_none(measure, table) for metric, table in tables.items()}
        for name, measure in MEASURES.items()
    }


def _or_none(measure: Callable[[Retention], float], table: Retention) -> float | None:
    try:
        return measure(table)
    except MeorError:
        return None
