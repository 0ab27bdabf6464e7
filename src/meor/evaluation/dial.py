"""Ranks at many scales of newcomers' rows, from one pass over the scores.

Where a score is an inner product that is linear in both entity rows, multiplying the rows of all newcomers
(everybody after snapshot 0) by s > 0 multiplies every score of a query about a newcomer alike, which changes
no rank. What remains is the candidate against the answer: two entities of one kind keep their order at every
scale, and one of each kind changes places at one scale at most (`search.levels`). So nothing is trained, and
nothing is ranked twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from meor.backbone import Geometry, Model
from meor.errors import InputError, MemoryBudgetError, ModelError
from meor.evaluation.rank import Ranks, carried_over, universes_of
from meor.evaluation.tally import DEFAULT_MEMORY, Tile, tiles_of
from meor.search.counting import GREATER, TIED_BEFORE, count_range
from meor.search.levels import count_levels
from meor.stream.occurrence import ALL, EvaluationFilter, Occurrences, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Floats, Ids, Side, Split

LOW, HIGH, POINTS = 0.5, 2.0, 50
LEAST, MOST = 1e-3, 1e3
"""Scales beyond these are a mistake: newcomers would be nowhere, or everywhere."""

TRIED: Final = 64
"""Rows that a backbone is tried with before it is believed to be linear in them."""

Placed = NDArray[np.int32]


def spread(low: float = LOW, high: float = HIGH, points: int = POINTS) -> Floats:
    """Scales at equal ratios; the one nearest to 1 is 1, if the range holds it."""
    scales = np.geomspace(low, high, points)
    if low <= 1.0 <= high:
        scales[np.abs(np.log(scales)).argmin()] = 1.0
    return scales


def checked(scales: Iterable[float]) -> Floats:
    """Ascending, each once; a scale that is none is refused."""
    found = np.unique(np.asarray(list(scales), dtype=np.float64))
    wrong = found[~((found >= LEAST) & (found <= MOST))]
    if not len(found) or len(wrong):
        raise InputError(
            "no scale was given" if not len(found) else f"{wrong[0]:g} is no scale of newcomers' rows",
            remedy=f"Give numbers between {LEAST:g} and {MOST:g}; 1 leaves the rows as they are",
        )
    return found


def require_bilinear(model: Model) -> None:
    """Refuse a model whose scores a scale of rows does not simply multiply."""
    if model.backbone.geometry is not Geometry.DOT:
        raise ModelError(
            f"{model.backbone.name} scores by no inner product, so a multiple of a row is no multiple of its "
            "scores and there is nothing to dial",
            remedy="Dial a model such as complex or distmult",
        )
    rows = model.entity[-TRIED:]
    relation = model.relation[torch.arange(len(rows)) % model.n_relations]
    for side in SIDES:
        once, twice = (model.backbone.query(scale * rows, relation, side) for scale in (1.0, 2.0))
        if not torch.allclose(twice, 2.0 * once, rtol=1e-6, atol=0.0, equal_nan=True):
            raise ModelError(
                f"a query of {model.backbone.name} is not linear in its entity's row, so there is nothing to "
                "dial",
                remedy="Dial a model such as complex or distmult",
            )


def scaled(model: Model, n_base: int, scale: float) -> Model:
    """The model with the rows of all newcomers times a scale."""
    entity = model.entity.detach().clone()
    entity[n_base:] *= scale
    return Model(model.backbone, entity, model.relation)


@dataclass(frozen=True, slots=True)
class DialledRanks:
    """Ranks of one update and side at each of K scales. `old` is 0 where the answer is a newcomer."""

    occurrences: Occurrences
    old: Placed  # [K, Q]
    cur: Placed  # [K, Q]

    def at(self, point: int) -> Ranks:
        return Ranks(self.occurrences, self.old[point].astype(np.int64), self.cur[point].astype(np.int64))


@dataclass(frozen=True, slots=True)
class Asking:
    """Which queries are dialled, and by whose positives they are filtered."""

    split: Split = Split.VALID
    sides: tuple[Side, ...] = SIDES
    filter_splits: tuple[Split, ...] = SPLITS
    sample: int = ALL
    memory: int = DEFAULT_MEMORY


def dial_update(
    stream: Stream,
    model: Model,
    update: int,
    scales: Floats,
    asking: Asking | None = None,
    *,
    previous: Sequence[DialledRanks] = (),
) -> tuple[DialledRanks, ...]:
    """Ranks after an update at every scale, one `DialledRanks` per side: `rank_update` of scaled rows.

    `previous` are those of the update before, where no old row has moved since: then only newcomers are
    looked at for old queries, as in `rank_update_incrementally`.
    """
    asking = asking or Asking()
    known = EvaluationFilter.through(stream, update, asking.filter_splits)
    n_old, n_cur = universes_of(stream, update)
    found = []
    for at, side in enumerate(asking.sides):
        asked = occurrences(stream, update, side, asking.split, sample=asking.sample)
        old, cur = (np.zeros((len(scales), len(asked)), np.int32) for _ in range(2))
        carried = np.zeros(len(asked), np.bool_)
        if previous:
            last = previous[at]
            carried = carried_over(stream, asked, asking.filter_splits)
            # Historical facts come first by construction: oldest snapshot first.
            old[:, carried] = last.cur[:, carried[: last.cur.shape[1]]]
        for chosen, ranges in ((carried, ((n_old, n_cur),)), (~carried, ((0, n_old), (n_old, n_cur)))):
            some = asked.select(chosen)
            ahead = dialled_counts(model, some, known, ranges, stream, scales, asking.memory)
            if len(ranges) > 1:
                old[:, chosen] = 1 + ahead[0]
            cur[:, chosen] = old[:, chosen] + ahead[-1]
        old[:, asked.answer >= n_old] = 0
        found.append(DialledRanks(asked, old, cur))
    return tuple(found)


def dialled_counts(
    model: Model,
    asked: Occurrences,
    known: EvaluationFilter,
    ranges: Sequence[tuple[int, int]],
    stream: Stream,
    scales: Floats,
    memory: int = DEFAULT_MEMORY,
) -> list[Placed]:
    """[K, Q] candidates of each range that precede the answer at each scale."""
    n_base, n_cur = stream.entity_counts[0], stream.entity_counts[asked.update]
    ahead = [np.zeros((len(scales), len(asked)), np.int32) for _ in ranges]
    for newcomers in (
        False,
        True,
    ):  # answers of one kind at a time: for them, candidates of one kind are fixed
        chosen = np.flatnonzero((asked.answer >= n_base) == newcomers)
        for tile in tiles_of(model, asked.select(chosen), known, ranges, n_cur, memory):
            for found, (low, high) in zip(ahead, ranges, strict=True):
                own = chosen[tile.part]
                fixed, moving = (low, min(high, n_base)), (max(low, n_base), high)
                if newcomers:
                    fixed, moving = moving, fixed
                found[:, own] += _fixed(tile, fixed)[None]
                found[:, own] += _moving(tile, moving, scales, of_candidate=not newcomers).T
    return ahead


def _fixed(tile: Tile, candidates: tuple[int, int]) -> Ids:
    """[Q] at any scale: candidates and answers of one kind."""
    counted, healthy = count_range(tile.candidates, tile.queries, *tile.inside(*candidates))
    tile.require_finite(healthy)
    return np.asarray(counted[:, GREATER] + counted[:, TIED_BEFORE])


def _moving(tile: Tile, candidates: tuple[int, int], scales: Floats, *, of_candidate: bool) -> Ids:
    """[Q, K] candidates of the other kind than the answer."""
    inside = tile.inside(*candidates)
    counted, healthy = count_levels(tile.candidates, tile.queries, scales, *inside, of_candidate=of_candidate)
    tile.require_finite(healthy)
    return counted


def require_room(stream: Stream, updates: Sequence[int], n_scales: int, asking: Asking) -> int:
    """What is left of the budget for ranking once all ranks of the curve are held."""
    facts = sum(
        len(occurrences(stream, update, Side.TAIL, asking.split, sample=asking.sample)) for update in updates
    )
    held = facts * len(asking.sides) * n_scales * 2 * np.dtype(np.int32).itemsize
    if held >= asking.memory:
        raise MemoryBudgetError(
            f"A budget of {asking.memory:,} bytes is too small: the ranks of {n_scales} scales alone take "
            f"{held:,}. Raise --memory, or ask for fewer --scales."
        )
    return asking.memory - held
