from __future__ import annotations

import logging
import os
import subprocess
import unicodedata
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console
from tests.hostile import component, label, unseen

from meor import escape
from meor.calls import progress, study_progress
from meor.storage.yaml_file import to_yaml
from meor.stream.files import read_stream
from meor.study.cells import StudyCell
from meor.study.rows import Group
from meor.study.task import Outcome

SPECIAL = (
    "".join(map(chr, range(128))) + "\x85\x9b\u200b\u200e\u200f\u2028\u202e\u2066\ufeff\ufffe\udcff\ud800"
)
TEXTS = st.text(st.one_of(st.sampled_from(SPECIAL), st.characters(exclude_categories=())), max_size=40)


@given(TEXTS)
def test_what_is_visible_holds_no_control_no_separator_and_no_turn_of_the_reading_direction(
    text: str,
) -> None:
    shown = escape.visible(text)
    assert not {"Cc", "Cs", "Zl", "Zp"} & {unicodedata.category(char) for char in shown}
    turns = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not turns & {unicodedata.bidirectional(char) for char in shown}
    assert not set("\u200b\u200c\u200d\u200e\u200f\u061c\u2060\ufeff") & set(shown)
    assert escape.visible(shown) == shown
    assert escape.is_visible(text) == (shown == text)


def test_writing_of_every_kind_stays_as_it_is() -> None:
    for text in (
        "Łódź",
        "北京",
        "مدينة",
        "क्षेत्र",
        "👩‍🚀".replace("\u200d", ""),
        "a b\u00a0c",
        "C:\\new",
        "٠١\u0600",
    ):
        assert escape.terminal(text) == text
        assert escape.visible(text) == text


def test_a_long_label_is_shortened_at_its_end_and_a_path_at_its_start() -> None:
    assert escape.terminal("x" * 3000, 80) == "x" * 79 + "…"
    assert escape.terminal("\x1b" * 30, 80) == escape.clipped(r"\x1b" * 30, 80)
    assert escape.clipped_start("/a/" + "x" * 100, 80) == "…" + "x" * 79
    assert escape.clipped_start("/a/b", 80) == "/a/b"


@given(TEXTS)
def test_markup_is_well_formed_xml_that_says_the_visible_text(text: str) -> None:
    shown = escape.markup(text)
    root = ElementTree.fromstring(f'<a b="{shown}">{shown}</a>')
    assert (root.text or "") == root.get("b") == escape.visible(text)
    assert escape.markup(shown) == shown


@given(TEXTS)
def test_markdown_renders_to_the_visible_text_and_nothing_else(text: str) -> None:
    parser = MarkdownIt("commonmark").enable(["strikethrough"])
    children = parser.parseInline(escape.markdown(text))[0].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    assert "".join(child.content for child in children).strip() == escape.visible(text).strip()


def test_markdown_of_a_table_keeps_cells_apart_and_links_nothing() -> None:
    assert escape.markdown("a|b") == r"a\|b"
    assert escape.markdown("https://e.ee www.e.ee") == "https&#58;//e.ee www&#46;e.ee"
    assert escape.markdown("ΔH_cur of _x_") == r"ΔH_cur of \_x\_"


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "=cmd|' /C calc'!A0", "＝1"])
def test_a_text_cell_is_no_formula_of_a_spreadsheet(text: str) -> None:
    assert escape.csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", [-0.5, 7, None, "-0.0043", "+1e-9", "8/0/0", "--", "ENTITY", ""])
def test_numbers_and_plain_names_are_cells_as_they_are(value: object) -> None:
    assert escape.csv_cell(value) == value


def test_a_cell_of_a_csv_file_holds_no_control_and_no_tag() -> None:
    assert escape.csv_cell("a\x1b\r\n<img>") == r"a\x1b\r\n\x3cimg>"


def test_latex_shows_what_cannot_be_seen_and_commands_as_text() -> None:
    assert escape.latex("\x1b\\input{x}") == r"\textbackslash{}x1b\textbackslash{}input\{x\}"


# What a command line can hold: any bytes, of which those that are no UTF-8 are halves of characters here.
WORDS = st.one_of(TEXTS.map(lambda text: text.encode(errors="replace")), st.binary()).map(os.fsdecode)


@given(st.lists(WORDS))
def test_words_of_a_command_come_back_from_the_line_that_shows_them(words: list[str]) -> None:
    line = escape.shell(words)
    assert escape.is_visible(line)
    assert escape.shell_words(line) == words


def test_a_shell_reads_the_line_as_the_words_it_was_made_of() -> None:
    words = ["printf", r"%s\0", component(), label("e"), os.fsdecode(b"a\xff'\\x41\n"), "plain", "a b", ""]
    done = subprocess.run(["bash", "-c", escape.shell(words)], capture_output=True, check=True)
    assert done.stdout == b"".join(os.fsencode(word) + b"\0" for word in words[2:])


def test_a_file_name_fits_every_file_system_and_long_ones_differ() -> None:
    assert escape.file_name("my graph.v2") == "my-graph.v2"
    names = [escape.file_name(component(text)) for text in "ab"] + [escape.file_name("é" * 200)]
    assert len(set(names)) == 3
    for name in names:
        assert len(name.encode()) <= 120
        assert not unseen(name) | ({*name} & {*"/<>'\""})


def test_yaml_shows_every_character_and_reads_back_the_same() -> None:
    for stream in ("plain", "Łódź", component(), "a\u202eb", "a\u2028b"):
        text = to_yaml({"stream": stream, "seed": 3})
        assert not unseen(text)
        assert yaml.safe_load(text) == {"stream": stream, "seed": 3}
    assert "Łódź" in to_yaml({"stream": "Łódź"})


def cell() -> StudyCell:
    return StudyCell(Group(component(), "complex", "replay", "paper"), 0, "none")


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_on_a_terminal_and_in_a_log_passes_no_code_on(terminal: bool) -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=terminal, width=4000, color_system=None)
    with progress.watcher(console, quiet=False) as shown:
        shown.say(component())
        shown.event("coefficient", {"text": component(), "coefficient": 1.0})
    with study_progress.observer(console, 1, quiet=False) as shown_study:
        shown_study.stage("host alone", 1, 1)
        shown_study.say(component())
        shown_study.cell(Outcome(cell(), None, component(), 1.0))
    text = file.getvalue()
    assert text.count(r"[red]<img src=x onerror=alert(1)>\x1b[31m\x1b]0;t\x07") == 4
    assert "\x1b[31m" not in text
    assert not {"\x07", "\x9b", "\u202e", "\u200f"} & set(text)


def test_a_warning_of_a_reader_names_the_path_with_its_escapes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    facts = tmp_path / f"{component(size=200)}.tsv"
    facts.write_text("head\trelation\ttail\tsnapshot\n" + "a\tr\tb\t0\n" * 2)
    with caplog.at_level(logging.WARNING):
        read_stream(facts, duplicates="drop")
    assert r"\x1b[31m" in caplog.text
    assert not unseen(caplog.text)
