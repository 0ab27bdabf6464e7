"""The words round the drawings: only what holds for the record that is drawn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from meor.report.drawings import ExcessDrawing, Strip
from meor.report.drawn import excess_drawing, growth_drawing
from meor.report.page import Figure, Prose
from meor.report.record import RecordView
from meor.typing import Side


def told(pressure: float, measure: str = "U") -> Any:
    strips = (Strip("newcomers", (pressure,), pressure, "new"), Strip("matched old 1", (-1.0,), 0.0, "old"))
    drawing = ExcessDrawing(strips, 0.0, 0.7, "an answer", measure)
    return SimpleNamespace(
        view=SimpleNamespace(config=SimpleNamespace(method="meor")),
        evidence=None,
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
