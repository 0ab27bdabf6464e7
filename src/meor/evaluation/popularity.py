"""The popularity baseline: candidates ranked by how often they have been the answer, without any model.

For a query about relation r and a missing side, candidates stand in the order of their degree in that role:
how often they are the answer of r on that side in cumulative train through the update; then how often on
that side in all relations; then by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meor.evaluation.endpoints import Endpoint, Undefined, cell_keys, endpoints
from meor.evaluation.rank import Ranks, universes_of
from meor.stream.occurrence import ALL, AnswerIndex, EvaluationFilter, Occurrences, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Facts, Ids, Side, Split


def rank_by_popularity(
    stream: Stream,
    update: int,
    *,
    split: Split | str = Split.TEST,
    sides: Sequence[Side | str] | str = SIDES,
    filter_splits: Iterable[Split] = SPLITS,
    sample: int = ALL,
) -> tuple[Ranks, ...]:
    """As `rank_update`, one `Ranks` per side, with degrees in place of scores."""
    known = EvaluationFilter.through(stream, update, tuple(filter_splits))
    seen = stream.prefix(update, [Split.TRAIN])
    universes = universes_of(stream, update)
    found = []
    for side in Side.each(sides):
        asked = occurrences(stream, update, side, split, sample=sample)
        old, cur = np.zeros((2, len(asked)), np.int64)
        popular = _Popular(seen, side, universes[1])
        for relation in np.unique(asked.relation):
            chosen = np.flatnonzero(asked.relation == relation)
            order = popular.first(int(relation))
            old[chosen], cur[chosen] = _ranks(order, asked.select(chosen), known.on(side), universes)
        old[asked.answer >= universes[0]] = 0
        found.append(Ranks(asked, old, cur))
    return tuple(found)


def popularity_endpoints(
    stream: Stream,
    *,
    split: Split | str = Split.TEST,
    sides: Sequence[Side | str] | str = SIDES,
    updates: Iterable[int] | None = None,
    filter_splits: Iterable[Split] = SPLITS,
    sample: int = ALL,
) -> dict[str, Endpoint | Undefined]:
    """The endpoints of the baseline over all updates, or the given ones."""
    chosen, filters = sorted(stream.updates if updates is None else updates), tuple(filter_splits)
    ranks = [
        each
        for update in chosen
        for each in rank_by_popularity(
            stream, update, split=split, sides=sides, filter_splits=filters, sample=sample
        )
    ]
    return endpoints(ranks, cells=cell_keys(chosen, Side.each(sides)))


class _Popular:
    """The entities of E_u by their degree on one side."""

    def __init__(self, seen: Facts, side: Side, n_cur: int) -> None:
        by_relation = seen[np.argsort(seen[:, 1], kind="stable")]
        self._relation, self._answer = by_relation[:, 1], by_relation[:, side.answer_column]
        anywhere = np.bincount(self._answer, minlength=n_cur)
        self._order = np.lexsort((np.arange(n_cur), -anywhere))
        self._place = np.empty(n_cur, np.int64)
        self._place[self._order] = np.arange(n_cur)

    def first(self, relation: int) -> Ids:
        """The ids of E_u, most popular first: those that answer the relation, then all others."""
        begin, end = np.searchsorted(self._relation, (relation, relation + 1))
        answer, here = np.unique(self._answer[begin:end], return_counts=True)
        leading = answer[np.lexsort((self._place[answer], -here))]
        others = np.ones(len(self._order), np.bool_)
        others[answer] = False
        return np.concatenate([leading, self._order[others[self._order]]])


def _ranks(order: Ids, asked: Occurrences, known: AnswerIndex, universes: tuple[int, int]) -> list[Ids]:
    """Ranks among the first entities, as many as each universe holds; of no meaning for answers beyond it."""
    begin, end = known.bounds(asked.anchor, asked.relation)
    size = end - begin
    query = np.repeat(np.arange(len(asked)), size)
    other = known.answer[np.repeat(end - size.cumsum(), size) + np.arange(len(query))]  # known answers
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    ahead = place[other] < place[asked.answer][query]
    query, other = query[ahead], other[ahead]
    found = []
    for universe in universes:
        inside = order < universe
        place[order] = inside.cumsum() - inside  # how many of the universe stand before
        removed = np.bincount(query[other < universe], minlength=len(asked))
        found.append(1 + place[asked.answer] - removed)
    return found
