"""Which query is drawn, and the words round the drawings: only what holds for the record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from meor.evaluation.rank import Ranks
from meor.report.drawings import ExcessDrawing, Strip
from meor.report.drawn import example_of, excess_drawing, growth_drawing
from meor.report.evidence import RecordView
from meor.report.page import Figure, Prose
from meor.stream.occurrence import Occurrences
from meor.typing import Role, Side


def told(pressure: float, measure: str = "U") -> Any:
    strips = (Strip("newcomers", (pressure,), pressure, "new"), Strip("matched old 1", (-1.0,), 0.0, "old"))
    drawing = ExcessDrawing(strips, 0.0, 0.7, "an answer", measure)
    return SimpleNamespace(
        view=SimpleNamespace(config=SimpleNamespace(method="meor")),
        ranks=(),
        record=RecordView(1, (0, 0, 1), Side.TAIL, drawing, True, ()),
        missing="",
        entity=str,
        relation=str,
    )


@pytest.mark.parametrize(("pressure", "is_clear"), [(0.5, True), (0.0, False)])
def test_only_a_record_with_excess_is_called_clear(pressure: float, is_clear: bool) -> None:
    (figure,) = excess_drawing(told(pressure))
    assert isinstance(figure, Figure)
    assert ("upper tenth of excess" in figure.caption) is is_clear
    assert "τ, the unit of the axis" in figure.caption


@pytest.mark.parametrize(("measure", "words"), [("U", "a smooth mean"), ("V", "the highest candidate")])
def test_the_measure_of_the_run_is_drawn_and_explained(measure: str, words: str) -> None:
    (figure,) = excess_drawing(told(0.5, measure))
    assert isinstance(figure, Figure)
    assert f"{measure} is " in figure.caption
    assert words in figure.caption
    assert f"{measure} = 0.500" in str(figure.wide.drawn("x"))


def test_the_reason_for_no_drawing_is_the_true_one() -> None:
    for missing, reason in ((None, "no folder of a run"), (told(0.0), "no ranks yet")):
        (prose,) = growth_drawing(missing)
        assert isinstance(prose, Prose)
        assert reason in prose.text


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


def test_a_query_that_fits_is_taken_before_one_that_is_passed_by_more() -> None:
    found = example_of([ranked(1, [(3, 5), (100, 200)]), ranked(2, [(5, 5), (200, 400)])], COUNTS)
    assert found is not None
    assert found.fact == (0, 0, 1)


def test_where_nothing_fits_a_query_from_further_down_is_drawn() -> None:
    found = example_of([ranked(1, [(3, 3), (100, 200)]), ranked(2, [(3, 3), (200, 400)])], COUNTS)
    assert found is not None
    assert [(crowd.ahead_old, crowd.ahead_new) for crowd in found.crowds] == [(99, 100), (199, 200)]


def test_without_a_newcomer_ahead_there_is_nothing_to_draw() -> None:
    assert example_of([ranked(1, [(3, 3), (100, 100)])], COUNTS) is None
