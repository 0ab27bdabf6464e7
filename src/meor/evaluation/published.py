"""The figures that other papers print, from our models: protocols A and B, and forgetting.

`A` ranks the test facts of snapshot j among E_j, `B` among all that the last model knows; both pool every
test query. Forgetting needs the model after each update, so a single embedding has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from meor.backbone.base import Model
from meor.errors import MeorError
from meor.evaluation import forgetting
from meor.evaluation.endpoints import METRICS
from meor.evaluation.protocols import FilterPrefix, SetRanks, Ties, set_ranks, weighted_mean
from meor.evaluation.rank import DEFAULT_MEMORY
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Side, Split

UNIVERSES = {"A": False, "B": True}
MEASURES: dict[str, Callable[[forgetting.Retention], float]] = {
    "ACF": forgetting.average_forgetting,
    "BWT": forgetting.backward_transfer,
    "Omega_new": forgetting.acquisition,
    "Base": forgetting.base_kept,
    "New": forgetting.new_learned,
}


def published(
    stream: Stream,
    model_of: Callable[[int], Model],
    updates: Sequence[int],
    *,
    split: Split = Split.TEST,
    sides: Sequence[Side] = SIDES,
    ties: Ties = Ties.ID,
    filter_prefix: FilterPrefix = FilterPrefix.INTRODUCED,
    filter_splits: Sequence[Split] = SPLITS,
    memory: int = DEFAULT_MEMORY,
) -> dict[str, Any]:
    """Figures of the model after the last of `updates`; forgetting where they run from 0 without a gap."""
    sets: list[SetRanks] = []
    for update in updates:
        sets.extend(
            set_ranks(
                stream,
                model_of(update),
                update,
                split=split,
                sides=sides,
                ties=ties,
                filter_prefix=filter_prefix,
                filter_splits=filter_splits,
                memory=memory,
            )
        )
    last = [each for each in sets if each.model == max(updates)]
    found: dict[str, Any] = {"update": max(updates), "filter_prefix": filter_prefix.value}
    for name, full in UNIVERSES.items():
        found[name] = {metric: weighted_mean(last, full=full, metric=metric) for metric in METRICS}
    if len(updates) > 1 and list(updates) == list(range(len(updates))):
        found["forgetting"] = {name: _measures(sets, full) for name, full in UNIVERSES.items()}
    return found


def _measures(sets: Sequence[SetRanks], full: bool) -> dict[str, dict[str, float | None]]:
    """Measure -> metric -> value; null where it is undefined."""
    tables = {metric: forgetting.retention(sets, full=full, metric=metric) for metric in METRICS}
    return {
        name: {metric: _or_none(measure, table) for metric, table in tables.items()}
        for name, measure in MEASURES.items()
    }


def _or_none(measure: Callable[[forgetting.Retention], float], table: forgetting.Retention) -> float | None:
    try:
        return measure(table)
    except MeorError:
        return None
