"""Who scores above the answer among the entities an occurrence is compared with."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meor.cohort.newcomers import Cohort
from meor.compiled import kernel, share
from meor.methods.comparison import require_finite
from meor.search.exact import exact_columns
from meor.search.outrankers import outrankers
from meor.search.queries import Known, Queries
from meor.search.screen import Candidates
from meor.typing import Floats, Ids


class Above(NamedTuple):
    """Pairs of a query and one of its columns, by queries and then by columns."""

    query: Ids
    column: Ids
    score: Floats


def above_answers(
    cohort: Cohort, candidates: Candidates, query_QW: Floats, part: Ids, answer_Q: Floats, column_QC: Ids
) -> Above:
    """The columns of each occurrence of `part` that score above its answer; an id of -1 is nobody."""
    if candidates.screened is None:
        score_QC = exact_columns(candidates.scoring, query_QW, candidates.row, column_QC)
        require_finite(cohort, score_QC, part)
        query, column = np.nonzero((score_QC > answer_Q[:, None]) & (column_QC >= 0))
        return Above(query, column, score_QC[query, column])
    # An entity stands in several draws, and most are below the answer: each is looked at once.
    known = Known(cohort.known_start, cohort.known_end, cohort.known).select(part)
    answer = cohort.answer[part]
    queries = Queries.prepare(candidates.scoring, query_QW, answer, known, answer_Q, coarse=True)
    found = outrankers(candidates, queries)
    require_finite(cohort, found.score, np.repeat(part, np.diff(found.start)))
    told = found.start, found.column, found.score, cohort.n_cur, column_QC
    number_Q, nothing = np.empty(len(part), np.int64), np.empty(0, np.int64)
    none = Above(nothing, nothing, np.empty(0))
    share(_look_up, len(part), *told, number_Q, none, np.zeros(len(part), np.int64), False)
    at = np.append(0, np.cumsum(number_Q))
    above = Above(np.empty(at[-1], np.int64), np.empty(at[-1], np.int64), np.empty(at[-1]))
    share(_look_up, len(part), *told, number_Q, above, at, True)
    return above


@kernel
def _look_up(begin, end, start, entity, score, n_entities, column_QC, number_Q, above, at, fills):
    """Count the columns above each answer, or write them down."""
    score_E = np.full(n_entities, -np.inf)
    for q in range(begin, end):
        for p in range(start[q], start[q + 1]):
            score_E[entity[p]] = score[p]
        slot = at[q]
        for column in range(column_QC.shape[1]):
            of = column_QC[q, column]
            if of >= 0 and score_E[of] > -np.inf:
                if fills:
                    above.query[slot], above.column[slot], above.score[slot] = q, column, score_E[of]
                slot += 1
        number_Q[q] = slot - at[q]
        for p in range(start[q], start[q + 1]):
            score_E[entity[p]] = -np.inf
