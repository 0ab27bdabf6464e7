"""Outrankers of many queries by plain exact scoring: what screening must equal."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from meor.backbone.base import Geometry
from meor.backbone.screen import exact, is_known
from meor.typing import Floats, Ids


@njit(cache=True, parallel=True)
def _scores(is_dot, query, row, known_start, known_end, known, offset, score):
    for q in prange(query.shape[0]):
        for column in range(row.shape[0]):
            if is_known(known, known_start[q], known_end[q], column + offset):
                score[q, column] = -np.inf
            else:
                score[q, column] = exact(is_dot, query[q], row[column])


def outrankers(
    geometry: Geometry,
    query: NDArray[Any],
    candidate: NDArray[Any],
    threshold: Floats,
    known_start: Ids,
    known_end: Ids,
    known: Ids,
    offset: int,
) -> tuple[Ids, Ids, Floats]:
    score = np.empty((len(query), len(candidate)))
    _scores(geometry is Geometry.DOT, query, candidate, known_start, known_end, known, offset, score)
    above = score > threshold[:, None]
    start = np.concatenate([[0], np.cumsum(above.sum(1))])
    return start, np.nonzero(above)[1], score[above]
