"""The figures that other papers print, so that ours can be compared with their tables.

Two protocols of the field, both with the filter of snapshot j (`Rules.filter_prefix`):

- A, restricted: the test facts of snapshot j are ranked among E_j, whatever the model has seen since;
- B, full: the same facts among E_i, all that the model after update i knows.

One counting pass gives both: E_j is the "old" and E_i the "current" universe of that pass. What either says
too much or too little shows beside `current`: the same facts among E_i with the filter of update i. A run has
ranked that already, and the facts of snapshot i count alike under all three.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from meor.backbone.base import Model
from meor.evaluation.endpoints import METRICS, MRR, measure
from meor.evaluation.rank import FilterPrefix, RankArray, Ranks, Rules, count
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.stream.occurrence import ALL, EvaluationFilter, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Side, Split

FIELD = Rules(filter_prefix=FilterPrefix.INTRODUCED)
"""What the field does; a true answer admitted later then counts as an error."""

UNIVERSES = {"A": False, "B": True}
CURRENT = "current"


@dataclass(frozen=True, slots=True)
class SetRanks:
    """One test set under the field's protocols: model after `model`, facts introduced at `introduced`."""

    model: int
    introduced: int
    restricted: RankArray  # protocol A: among E_j
    full: RankArray  # protocol B: among E_i


def set_ranks(
    stream: Stream,
    model: Model,
    update: int,
    *,
    split: Split = Split.TEST,
    sides: Sequence[Side] = SIDES,
    rules: Rules = FIELD,
    sample: int = ALL,
    last: bool = True,
    memory: int = DEFAULT_MEMORY,
) -> tuple[SetRanks, ...]:
    """Protocols A and B for a model after `update`: one entry for each snapshot 0..update, sides pooled.

    `last=False` leaves snapshot `update` out: all rules rank it alike.
    """
    found = []
    every = [occurrences(stream, update, side, split, sample=sample) for side in sides]
    for introduced in range(update + last):
        prefix = update if rules.filter_prefix is FilterPrefix.CURRENT else introduced
        known = EvaluationFilter.through(stream, prefix, rules.filter_splits)
        universes = stream.entity_counts[introduced], stream.entity_counts[update]
        asked = [each.select(each.snapshot == introduced) for each in every]
        counts = [count(model, each, known, universes, memory=memory) for each in asked]
        ranks = [each.ranks(rules.ties) for each in counts]
        restricted, full = (np.concatenate(part) for part in zip(*ranks, strict=True))
        found.append(SetRanks(update, introduced, restricted, full))
    return tuple(found)


def weighted_mean(sets: Iterable[SetRanks], *, full: bool, metric: str = MRR) -> float:
    """The field's headline figure: a metric over all test queries at once, so that big sets weigh more."""
    return measure(np.concatenate([each.full if full else each.restricted for each in sets]), metric)


def beside_current(
    stream: Stream,
    model: Model,
    ranks: Sequence[Ranks],
    *,
    filter_splits: Sequence[Split],
    sample: int = ALL,
    memory: int = DEFAULT_MEMORY,
) -> dict[str, dict[str, float]]:
    """A, B and `current` -> metric -> value, of a model whose `ranks` (one per side) are there already."""
    update, sides = ranks[0].occurrences.update, [each.occurrences.side for each in ranks]
    rules = Rules(filter_prefix=FilterPrefix.INTRODUCED, filter_splits=tuple(filter_splits))
    asked = {"sides": sides, "rules": rules, "sample": sample, "memory": memory}
    earlier = set_ranks(stream, model, update, last=False, **asked)  # type: ignore[arg-type]
    own = np.concatenate([each.cur[each.occurrences.snapshot == update] for each in ranks])
    sets = [*earlier, SetRanks(update, update, own, own)]
    now = np.concatenate([each.cur for each in ranks])
    found = {CURRENT: {metric: measure(now, metric) for metric in METRICS}}
    for name, full in UNIVERSES.items():
        found[name] = {metric: weighted_mean(sets, full=full, metric=metric) for metric in METRICS}
    return found
