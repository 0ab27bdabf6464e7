"""Exact filtered ranks in both universes, in one pass and in bounded memory.

Ids are admission order, so the old universe is `0..n_old-1`, the newcomers are `n_old..n_cur-1`, and
`cur = old + newcomers ahead` holds by construction (Eq. rank-decomposition). Every rank is made here, from
where the candidates stand relative to the answer (`tally`), and `plain_rank` says what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from meor.backbone import Model
from meor.evaluation.labelled import Rateable, as_model
from meor.evaluation.tally import DEFAULT_MEMORY, tally
from meor.stream.occurrence import ALL, EvaluationFilter, Occurrences, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Floats, Ids, Role, Side, Split

RankArray = NDArray[np.int64] | NDArray[np.float64]
"""Ranks are integers; halves occur under the realistic tie rule only."""


class Ties(StrEnum):
    """Where an answer stands among candidates with exactly its score."""

    ID = "id"  # lower id first (the paper's rule, the default)
    OPTIMISTIC = "optimistic"  # before all of them
    PESSIMISTIC = "pessimistic"  # after all of them
    REALISTIC = "realistic"  # the mean of the two


_AHEAD = {
    Ties.ID: (1, 1, 0),
    Ties.OPTIMISTIC: (1, 0, 0),
    Ties.PESSIMISTIC: (1, 1, 1),
    Ties.REALISTIC: (1, 0.5, 0.5),
}
"""How much a candidate counts that scores higher, equal with a smaller id, equal with a larger id."""


class FilterPrefix(StrEnum):
    """Which positives are removed before ranking."""

    CURRENT = "current"  # those of every snapshot up to the update (the default)
    INTRODUCED = "introduced"  # those of the snapshots up to the one that introduced the fact


@dataclass(frozen=True, slots=True)
class Rules:
    """How queries are ranked; names are accepted. The defaults are the paper's."""

    ties: Ties = Ties.ID
    filter_prefix: FilterPrefix = FilterPrefix.CURRENT
    filter_splits: tuple[Split, ...] = SPLITS

    def __post_init__(self) -> None:
        object.__setattr__(self, "ties", Ties(self.ties))
        object.__setattr__(self, "filter_prefix", FilterPrefix(self.filter_prefix))
        object.__setattr__(self, "filter_splits", Split.each(self.filter_splits))

    def filters(self, stream: Stream, asked: Occurrences) -> Iterator[tuple[Ids, EvaluationFilter]]:
        """The queries that share a filter, and that filter."""
        if self.filter_prefix is FilterPrefix.CURRENT:
            yield np.arange(len(asked)), EvaluationFilter.through(stream, asked.update, self.filter_splits)
            return
        for snapshot in np.unique(asked.snapshot):
            chosen = np.flatnonzero(asked.snapshot == snapshot)
            yield chosen, EvaluationFilter.through(stream, int(snapshot), self.filter_splits)


PAPER = Rules()


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks of one update and side. `old` is 0 where the answer is a newcomer and has no old rank."""

    occurrences: Occurrences
    old: Ids
    cur: Ids

    def __len__(self) -> int:
        return len(self.cur)

    def select(self, chosen: NDArray[np.bool_] | Ids) -> Ranks:
        """The ranks of some queries, by mask or by row."""
        return Ranks(self.occurrences.select(chosen), self.old[chosen], self.cur[chosen])


@dataclass(frozen=True, slots=True)
class Counts:
    """[Q, 3] eligible candidates that score higher, equal with a smaller id, equal with a larger id."""

    old: Ids  # among the old entities
    new: Ids  # among the newcomers

    def ranks(self, ties: Ties = Ties.ID) -> tuple[RankArray, RankArray]:
        """Old and current rank under a tie rule. Integers, but for the realistic rule's halves."""
        counted = np.array(_AHEAD[ties])
        old = 1 + self.old @ counted
        return old, old + self.new @ counted

    def of(self, asked: Occurrences, n_old: int, ties: Ties = Ties.ID) -> Ranks:
        """The ranks under a tie rule. A newcomer has no old rank, which is written as 0."""
        old, cur = self.ranks(ties)
        return Ranks(asked, np.where(asked.answer < n_old, old, np.zeros_like(old)), cur)  # type: ignore[arg-type]


def plain_rank(score_QE: Floats, answer_Q: Ids, left_out_QE: NDArray[np.bool_], universe: int) -> Ids:
    """What a rank is (ties by id): the reference that tests compare `rank` with."""
    own_Q1 = np.take_along_axis(score_QE, answer_Q[:, None], 1)
    before_QE = np.arange(score_QE.shape[1]) < answer_Q[:, None]
    ahead_QE = (score_QE > own_Q1) | ((score_QE == own_Q1) & before_QE)
    return np.asarray(1 + (ahead_QE & ~left_out_QE)[:, :universe].sum(1))


def count(
    model: Model,
    asked: Occurrences,
    known: EvaluationFilter,
    universes: tuple[int, int],
    *,
    memory: int = DEFAULT_MEMORY,
    screen: bool = True,
) -> Counts:
    """Where the candidates of E_u stand relative to each answer, old entities and newcomers apart."""
    n_old, n_cur = universes
    return Counts(*tally(model, asked, known, ((0, n_old), (n_old, n_cur)), n_cur, memory, screen))


def rank(
    model: Model,
    asked: Occurrences,
    known: EvaluationFilter,
    universes: tuple[int, int],
    *,
    ties: Ties = Ties.ID,
    memory: int = DEFAULT_MEMORY,
    screen: bool = True,
) -> Ranks:
    """Ranks among the first `universes[0]` and the first `universes[1]` entities: `plain_rank`, fast."""
    counts = count(model, asked, known, universes, memory=memory, screen=screen)
    return counts.of(asked, universes[0], ties)


def count_update(
    stream: Stream, model: Model, asked: Occurrences, rules: Rules = PAPER, memory: int = DEFAULT_MEMORY
) -> Counts:
    """`count` over E_{u-1} and E_u, with the filter of each query."""
    counts = Counts(*np.zeros((2, len(asked), 3), np.int64))
    for chosen, known in rules.filters(stream, asked):
        part = count(model, asked.select(chosen), known, universes_of(stream, asked.update), memory=memory)
        counts.old[chosen], counts.new[chosen] = part.old, part.new
    return counts


def rank_update(
    stream: Stream,
    model: Rateable,
    update: int,
    *,
    split: Split | str = Split.TEST,
    sides: Sequence[Side | str] | str = SIDES,
    rules: Rules = PAPER,
    sample: int = ALL,
    memory: int = DEFAULT_MEMORY,
) -> tuple[Ranks, ...]:
    """Ranks of every query of a split (or of a sample) after an update, one `Ranks` per side.

    Any score function will do in place of a model; it is called as `Model.score` is.
    """
    model, (n_old, _) = as_model(stream, model, update), universes_of(stream, update)
    found = []
    for side in Side.each(sides):
        asked = occurrences(stream, update, side, Split.of(split), sample=sample)
        found.append(count_update(stream, model, asked, rules, memory).of(asked, n_old, rules.ties))
    return tuple(found)


def rank_update_incrementally(
    stream: Stream,
    model: Model,
    update: int,
    previous: Sequence[Ranks],
    *,
    split: Split = Split.TEST,
    rules: Rules = PAPER,
    sample: int = ALL,
    memory: int = DEFAULT_MEMORY,
) -> tuple[Ranks, ...]:
    """`rank_update` for a model whose old rows did not move: only newcomers are scored for old queries.

    The old universe of this update is the current one of the last, so the old rank of a historical query is
    its last current rank; unless a new fact between old entities, of which there are few, has turned one of
    its candidates into a known answer. A rank alone does not say how ties were counted, or what a filter of
    earlier snapshots left in: rules other than the filter's splits must be the paper's.
    """
    if rules != replace(PAPER, filter_splits=rules.filter_splits):
        raise ValueError(
            "Ranks carry over under the paper's tie rule and filter only. Call rank_update instead."
        )
    known = EvaluationFilter.through(stream, update, rules.filter_splits)
    n_old, n_cur = universes_of(stream, update)
    found: list[Ranks] = []
    for last in previous:
        asked = occurrences(stream, update, last.occurrences.side, split, sample=sample)
        carried = carried_over(stream, asked, rules.filter_splits)
        (newcomers,) = tally(model, asked.select(carried), known, ((n_old, n_cur),), n_cur, memory)
        anew = rank(model, asked.select(~carried), known, (n_old, n_cur), memory=memory)
        ranks = Ranks(asked, np.zeros(len(asked), np.int64), np.zeros(len(asked), np.int64))
        ranks.old[~carried], ranks.cur[~carried] = anew.old, anew.cur
        # Historical facts come first by construction: oldest snapshot first.
        ranks.old[carried] = last.cur[carried[: len(last)]]
        ranks.cur[carried] = ranks.old[carried] + newcomers @ np.array(_AHEAD[Ties.ID])
        found.append(ranks)
    return tuple(found)


def carried_over(stream: Stream, asked: Occurrences, filter_splits: Iterable[Split]) -> NDArray[np.bool_]:
    """[Q] queries that were asked at the update before, and whose old candidates are the same as there."""
    n_old, _ = universes_of(stream, asked.update)
    now = stream.snapshots[asked.update].facts(filter_splits)
    settled = now[(now[:, 0] < n_old) & (now[:, 2] < n_old)]
    fresh = EvaluationFilter.from_facts(settled, len(stream.relations)).on(asked.side)
    start, end = fresh.bounds(asked.anchor, asked.relation)
    return np.asarray((asked.role == Role.HISTORICAL) & (start == end))


def universes_of(stream: Stream, update: int) -> tuple[int, int]:
    """How many entities E_{u-1} and E_u hold."""
    return (stream.entity_counts[update - 1] if update else 0), stream.entity_counts[update]
