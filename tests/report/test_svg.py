"""The canvas: escaped, bounded, the same bytes for the same figure."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import pytest

from meor.evaluation.displacement import Loss
from meor.methods import METHODS
from meor.report.drawings import Crowd, ExcessDrawing, Levels, Strip, comparison, growth, matching
from meor.report.figures import (
    CurvePoint,
    FallLine,
    ForestGroup,
    ForestRow,
    FrontierLine,
    falls,
    forest,
    frontier,
)
from meor.report.html import standalone
from meor.report.page import Figure
from meor.report.svg import NARROW, WIDE, Canvas, Scale, method_key, padded, tick_labels
from meor.study.effects import level

HOSTILE = '"><script>alert(1)</script>&'
ROW = ForestRow(HOSTILE, 0.0057, 0.005, 0.0064, 0.0052)
POINT = CurvePoint(level("A_TN", [0, 2]), level("H_cur", [1, 3]), HOSTILE)
DRAWINGS = {
    "forest": lambda width: forest([ForestGroup("ΔH_cur", (ROW,), 0.005)], width),
    "frontier": lambda width: frontier(
        [
            FrontierLine(
                HOSTILE,
                key,
                (CurvePoint(level("A_TN", [0, 2]), level("H_cur", [1, 3]), HOSTILE),) * 2,
                of_host,
            )
            for key, of_host in (("m0 second", True), ("m6 capped", False))
        ],
        width,
    ),
    "falls": lambda width: falls(
        [FallLine(HOSTILE, key, (Loss(1, 0.3, 0.25), Loss(2, 0.2, 0.2))) for key in ("m0", "m8")], width
    ),
    "growth": lambda width: growth([Crowd(1, 10, 20, 900, 3), Crowd(2, 20, 30, 0, 0)], 10, HOSTILE, width),
    "comparison": lambda width: comparison(
        ExcessDrawing(
            (Strip("new", (2.0, -1.0, -9.0), 1.2, "new"), Strip("old", (), 0.0, "old")), 0.0, 0.7, HOSTILE
        ),
        width,
    ),
    "matching": lambda width: matching([Levels(1, (0.0, 1.0, 0.0), 64)], width),
}


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_well_formed_whatever_its_labels_say(name: str, width: int) -> None:
    drawn = DRAWINGS[name](width).drawn(HOSTILE)
    root = ElementTree.fromstring(str(drawn))
    assert root.get("role") == "img"
    assert root.get("aria-label") == HOSTILE
    assert not [element for element in root.iter() if element.tag == "script"]
    assert "nan" not in str(drawn).lower().replace("uncentered", "")
    assert drawn == DRAWINGS[name](width).drawn(HOSTILE)


def test_ticks_are_round_inside_the_range_and_labelled_alike() -> None:
    ticks = Scale(-0.0061, 0.0118, 0, 100).ticks(5)
    assert tick_labels(ticks) == ["−0.005", "0.000", "0.005", "0.010"]
    assert Scale(3.0, 3.0, 0, 1).ticks() == [3.0]
    assert tick_labels(Scale(0, 0.1, 0, 1).ticks(4)) == ["0.000", "0.025", "0.050", "0.075", "0.100"]


def test_a_scale_maps_ends_to_ends_and_holds_what_lies_beyond() -> None:
    scale = Scale(2.0, 4.0, 10.0, 30.0)
    assert [scale(value) for value in (2.0, 3.0, 4.0)] == [10.0, 20.0, 30.0]
    assert (scale.held(9.0), scale.held(-9.0)) == (4.0, 2.0)
    low, high = padded([1.0, 1.0])
    assert low < 1.0 < high


def test_negative_sizes_do_not_reach_the_page() -> None:
    canvas = Canvas(10, 10)
    canvas.rect(0, 0, -5, 3, "fill-old")
    assert 'width="0"' in canvas.drawn("empty")


def test_a_forest_has_room_for_its_longest_label_and_a_phone_keeps_the_margin_off_its_words() -> None:
    row = ForestRow("FBInc-S, DistMult, practical", -0.00502, -0.00512, -0.00492, -0.0051, "bad")
    groups = [ForestGroup("ΔH_old", (row, row), 0.005)]
    wide, narrow = (ElementTree.fromstring(str(forest(groups, width).drawn("x"))) for width in (WIDE, NARROW))
    assert row.label in [text.text for text in wide.iter("text")]
    plotted = [float(line.get("x1", 0)) for line in wide.iter("line") if "interval" in line.get("class", "")]
    assert min(plotted) > len(row.label) * 6.6
    words = [float(text.get("y", 0)) for text in narrow.iter("text") if text.text == row.label]
    margins = [
        (float(line.get("y1", 0)), float(line.get("y2", 0)))
        for line in narrow.iter("line")
        if line.get("class") == "margin"
    ]
    assert len(words) == len(margins) == 2
    assert not [y for y in words for top, bottom in margins if top < y < bottom]


def test_every_method_has_a_mark_and_colour_of_its_own() -> None:
    keys = {name: method_key(name) for name in METHODS}
    assert (keys["guard"], keys["cap+guard"]) == (keys.pop("probe"), keys.pop("cap+probe")), (
        "the same penalty"
    )
    assert len(set(keys.values())) == len(keys)
    assert (keys["none"], keys["cap"], keys["cap+meor"]) == ("m0", "m9", f"{keys['meor']} capped")
    assert method_key("a method that is not registered").startswith("m")


def test_numbers_at_the_end_of_lines_are_not_printed_over_each_other() -> None:
    lines = [FallLine(name, method_key(name), (Loss(1, 0.3, 0.25),)) for name in METHODS]
    root = ElementTree.fromstring(str(falls(lines, WIDE).drawn("x")))
    places = sorted(float(text.get("y", 0)) for text in root.iter("text") if text.text == "0.250")
    assert len(places) == len(METHODS)
    assert all(below - above >= 13 for above, below in itertools.pairwise(places))


CONTROLS = "".join(map(chr, range(0x20))) + "\x7f\x9b\ud800\udfff\ufffe\uffff\u202e<a href='x'>&\"]]>"


def test_every_drawing_is_xml_whatever_its_labels_hold() -> None:
    canvas = Canvas(10, 10)
    canvas.text(0, 0, f"H_cur {CONTROLS}")
    canvas.add("rect", class_=CONTROLS)
    drawn = str(canvas.drawn(CONTROLS))
    root = ElementTree.fromstring(drawn.encode())
    text = "".join(root.itertext())
    assert r"\x1b" in text
    assert "<a href='x'>&\"]]>" in text
    figure = Figure("comparison", CONTROLS, CONTROLS, CONTROLS, canvas, canvas, (("answer", CONTROLS),))
    whole = standalone(figure).encode()
    assert ElementTree.fromstring(whole).tag.endswith("svg")
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", whole)
