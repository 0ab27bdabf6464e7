"""Both universes in one pass: exact filtered ranks, ties by admission id, bounded memory.

Ids are admission order, so the old universe is `0..n_old-1`, the newcomers are `n_old..n_cur-1`, and
`cur = old + newcomers ahead` holds by construction (Eq. rank-decomposition).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from meor.backbone import Model
from meor.evaluation.tally import query_rows, tally, wide_rows
from meor.search.screen import exact_scores
from meor.stream.occurrence import ALL, EvaluationFilter, Occurrences, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Ids, Role, Side, Split

DEFAULT_MEMORY = 2**30


@dataclass(frozen=True, slots=True)
class Counts:
    """Eligible candidates of each query by where they stand; before and after break ties by id."""

    greater_old: Ids
    tied_before_old: Ids
    tied_after_old: Ids
    greater_new: Ids
    tied_before_new: Ids
    tied_after_new: Ids


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks of one update and side. `old` is 0 where the answer is a newcomer and has no old rank."""

    occurrences: Occurrences
    old: Ids
    cur: Ids

    def __len__(self) -> int:
        return len(self.cur)


def count(
    model: Model,
    asked: Occurrences,
    known: EvaluationFilter,
    n_old: int,
    n_cur: int,
    *,
    memory: int = DEFAULT_MEMORY,
    screen: bool = True,
) -> Counts:
    """Where the candidates of E_u stand relative to each answer, old entities and newcomers apart."""
    ranges = (0, n_old), (n_old, n_cur)
    found = tally(model, asked, known, ranges, n_cur, memory, screen)
    return Counts(*found[0].T, *found[1].T)


def rank(
    model: Model,
    asked: Occurrences,
    known: EvaluationFilter,
    n_old: int,
    n_cur: int,
    *,
    memory: int = DEFAULT_MEMORY,
    screen: bool = True,
) -> Ranks:
    """The paper's ranks: a candidate precedes the answer if it scores higher, or equal with a smaller id."""
    counts = count(model, asked, known, n_old, n_cur, memory=memory, screen=screen)
    old = 1 + counts.greater_old + counts.tied_before_old
    cur = old + counts.greater_new + counts.tied_before_new
    return Ranks(asked, np.where(asked.answer < n_old, old, 0), cur)


def rank_update(
    stream: Stream,
    model: Model,
    update: int,
    *,
    split: Split = Split.TEST,
    sides: Sequence[Side] = SIDES,
    memory: int = DEFAULT_MEMORY,
    filter_splits: Iterable[Split] = SPLITS,
    sample: int = ALL,
) -> tuple[Ranks, ...]:
    """Ranks of every query of a split (or of a sample) after an update, one `Ranks` a side."""
    known = EvaluationFilter.through(stream, update, filter_splits)
    n_old, n_cur = _universes(stream, update)
    asked = (occurrences(stream, update, side, split, sample=sample) for side in sides)
    return tuple(rank(model, each, known, n_old, n_cur, memory=memory) for each in asked)


def rank_update_incrementally(
    stream: Stream,
    model: Model,
    update: int,
    previous: Sequence[Ranks],
    *,
    split: Split = Split.TEST,
    memory: int = DEFAULT_MEMORY,
    filter_splits: Iterable[Split] = SPLITS,
    sample: int = ALL,
) -> tuple[Ranks, ...]:
    """`rank_update` for a model whose old rows did not move: only newcomers are scored for old queries.

    The old universe of this update is the current one of the last, so the old rank of a historical query
    is its last current rank, less the candidates that this update's facts have turned into known answers.
    """
    chosen = tuple(filter_splits)
    known = EvaluationFilter.through(stream, update, chosen)
    n_old, n_cur = _universes(stream, update)
    now = stream.snapshots[update].facts(chosen)
    # Only a new fact between old entities takes an old candidate out of an old query: there are few.
    settled = now[(now[:, 0] < n_old) & (now[:, 2] < n_old)]
    fresh = EvaluationFilter.from_facts(settled, len(stream.relations))
    before = EvaluationFilter.through(stream, update - 1, chosen)
    found: list[Ranks] = []
    for last in previous:
        asked = occurrences(stream, update, last.occurrences.side, split, sample=sample)
        historical = asked.role == Role.HISTORICAL
        old_part = asked.select(historical)
        newcomers = tally(model, old_part, known, ((n_old, n_cur),), n_cur, memory, True)[0]
        newly_known = _ahead_and_newly_known(model, old_part, fresh, before, n_old)
        old = last.cur - newly_known
        cur = old + newcomers[:, 0] + newcomers[:, 1]
        new_part = rank(model, asked.select(~historical), known, n_old, n_cur, memory=memory)
        # Historical facts come first by construction: oldest snapshot first.
        found.append(Ranks(asked, np.concatenate([old, new_part.old]), np.concatenate([cur, new_part.cur])))
    return tuple(found)


def _ahead_and_newly_known(
    model: Model, asked: Occurrences, fresh: EvaluationFilter, before: EvaluationFilter, n_old: int
) -> Ids:
    """For each query: old candidates ahead of the answer that only this update's facts make known answers."""
    gone = np.zeros(len(asked), np.int64)
    start, end = fresh.on(asked.side).bounds(asked.anchor, asked.relation)
    affected = np.flatnonzero(end > start)
    if not len(affected):
        return gone
    answers = fresh.on(asked.side).answer
    pairs = [(q, candidate) for q in affected for candidate in answers[start[q] : end[q]]]
    of, candidate = (np.array(part, np.int64) for part in zip(*pairs, strict=True))
    earlier_start, earlier_end = before.on(asked.side).bounds(asked.anchor[of], asked.relation[of])
    earlier = before.on(asked.side).answer
    known = [candidate[i] in earlier[earlier_start[i] : earlier_end[i]] for i in range(len(of))]
    chosen = ~np.array(known) & (candidate != asked.answer[of])
    of, candidate = of[chosen], candidate[chosen]
    entity, query = wide_rows(model, slice(0, n_old)), query_rows(model, asked.select(of))
    score = exact_scores(model.backbone.geometry, query, entity, candidate)
    own = exact_scores(model.backbone.geometry, query, entity, asked.answer[of])
    ahead = (score > own) | ((score == own) & (candidate < asked.answer[of]))
    np.add.at(gone, of[ahead], 1)
    return gone


def _universes(stream: Stream, update: int) -> tuple[int, int]:
    return (stream.entity_counts[update - 1] if update else 0), stream.entity_counts[update]
