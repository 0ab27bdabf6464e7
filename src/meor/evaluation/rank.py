"""Both universes in one pass: exact filtered ranks, ties by admission id, bounded memory.

Ids are admission order, so the old universe is `0..n_old-1`, the newcomers are `n_old..n_cur-1`, and
`cur = old + newcomers ahead` holds by construction (Eq. rank-decomposition).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meor.backbone import Model
from meor.errors import NonFiniteError
from meor.evaluation.budget import ranking_block
from meor.search.counting import count_range
from meor.search.queries import Known, Queries
from meor.search.screen import Candidates, exact_scores
from meor.stream.answers import EvaluationFilter
from meor.stream.occurrence import Occurrences, occurrences
from meor.stream.sample import ALL
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Floats, Ids, Role, Side, Split

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
    tally = _tally(model, asked, known, ranges, n_cur, memory, screen)
    return Counts(*tally[0].T, *tally[1].T)


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
        newcomers = _tally(model, old_part, known, ((n_old, n_cur),), n_cur, memory, True)[0]
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
    entity, query = _rows(model, n_old), _queries(model, asked.select(of))
    score = exact_scores(model.backbone.geometry, query, entity, candidate)
    own = exact_scores(model.backbone.geometry, query, entity, asked.answer[of])
    ahead = (score > own) | ((score == own) & (candidate < asked.answer[of]))
    np.add.at(gone, of[ahead], 1)
    return gone


def _universes(stream: Stream, update: int) -> tuple[int, int]:
    return (stream.entity_counts[update - 1] if update else 0), stream.entity_counts[update]


def _rows(model: Model, n_rows: int) -> Floats:
    return np.ascontiguousarray(model.entity[:n_rows].detach().cpu().numpy(), dtype=np.float64)


def _queries(model: Model, asked: Occurrences) -> Floats:
    query = model.query_array(asked.anchor, asked.relation, asked.side)
    return np.ascontiguousarray(query, dtype=np.float64)


def _tally(
    model: Model,
    asked: Occurrences,
    known: EvaluationFilter,
    ranges: Sequence[tuple[int, int]],
    n_cur: int,
    memory: int,
    screen: bool,
) -> list[NDArray[np.int64]]:
    """[Q, 3] tallies for each candidate range, block by block of queries."""
    block = ranking_block(memory, n_cur, model.entity.shape[1])  # refuses before anything is allocated
    entity = _rows(model, n_cur)
    _require_finite_rows(entity, asked)
    geometry = model.backbone.geometry
    candidates = Candidates.prepare(geometry, entity, screen=screen)
    tallies = [np.zeros((len(asked), 3), np.int64) for _ in ranges]
    start, end = known.on(asked.side).bounds(asked.anchor, asked.relation)
    for first in range(0, len(asked), block):
        part = slice(first, first + block)
        some = asked.select(np.arange(first, min(first + block, len(asked))))
        answers = Known(start[part], end[part], known.on(asked.side).answer)
        queries = Queries.for_answers(candidates, _queries(model, some), some.answer, answers)
        _require_finite(np.isfinite(queries.threshold), some)
        for tally, (low, high) in zip(tallies, ranges, strict=True):
            tally[part], healthy = count_range(candidates, queries, low, high)
            if healthy is not None:
                _require_finite(healthy, some)
    return tallies


def _require_finite_rows(entity: Floats, asked: Occurrences) -> None:
    broken = np.flatnonzero(~np.isfinite(entity).all(1))
    if len(broken) and len(asked):
        raise NonFiniteError(
            f"{_describe(asked, 0)}: candidate {broken[0]} has a NaN or infinite embedding, as have "
            f"{len(broken) - 1} others. No rank was computed; repair the model's rows."
        )


def _require_finite(healthy: NDArray[np.bool_], asked: Occurrences) -> None:
    if not healthy.all():
        first = int(np.flatnonzero(~healthy)[0])
        raise NonFiniteError(
            f"{_describe(asked, first)}: a score is NaN or infinite. No rank was computed; "
            "look at the rows of the query's entity and relation."
        )


def _describe(asked: Occurrences, index: int) -> str:
    head, relation, tail = (int(value) for value in asked.fact[index])
    return (
        f"Query for the {asked.side.label} of fact (head {head}, relation {relation}, tail {tail}) "
        f"at update {asked.update}"
    )
