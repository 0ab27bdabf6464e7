"""The field's measures of what a model keeps and what it learns, from a table a[i, j].

a[i, j] is a metric (MRR or Hits@k) of the model after update i on the test facts that snapshot j introduced.
The diagonal is what was reached when a snapshot was learned; below it lies what became of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from meor.errors import EmptyCellError, NonFiniteError
from meor.evaluation.endpoints import MRR, measure
from meor.evaluation.protocols import SetRanks
from meor.typing import Floats, Ids


@dataclass(frozen=True, slots=True)
class Retention:
    """`value[i, j]`, NaN where model i was not asked about set j; `size[j]` queries of set j."""

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
