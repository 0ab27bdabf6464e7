"""The question that a report draws: one that newcomers pass, however far down it stands."""

from __future__ import annotations

import numpy as np

from meor.evaluation.rank import Ranks
from meor.report.evidence import _example
from meor.stream.occurrence import Occurrences
from meor.typing import Role, Side

COUNTS = [1000, 2000, 3000]


def ranked(update: int, places: list[tuple[int, int]]) -> Ranks:
    """Old and current ranks of as many facts of snapshot 0."""
    size = len(places)
    asked = Occurrences(
        update,
        Side.TAIL,
        np.array([(at, 0, at + 1) for at in range(size)], dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        np.full(size, Role.HISTORICAL, dtype=np.int8),
    )
    old, cur = (np.array(column, dtype=np.int64) for column in zip(*places, strict=True))
    return Ranks(asked, old, cur)


def test_a_question_that_fits_is_taken_before_one_that_is_passed_by_more() -> None:
    found = _example([ranked(1, [(3, 5), (100, 200)]), ranked(2, [(5, 5), (200, 400)])], COUNTS)
    assert found is not None
    assert found.fact == (0, 0, 1)


def test_where_nothing_fits_a_question_from_further_down_is_drawn() -> None:
    found = _example([ranked(1, [(3, 3), (100, 200)]), ranked(2, [(3, 3), (200, 400)])], COUNTS)
    assert found is not None
    assert [(crowd.ahead_old, crowd.ahead_new) for crowd in found.crowds] == [(99, 100), (199, 200)]


def test_without_a_newcomer_ahead_there_is_nothing_to_draw() -> None:
    assert _example([ranked(1, [(3, 3), (100, 100)])], COUNTS) is None
