"""`meor.study` and `meor.report` in one call."""

from __future__ import annotations

import csv
import inspect
import webbrowser
from pathlib import Path

import pytest
from tests.extend import invoke
from tests.study.tiny_study import hashes
from tests.tiny_run import SETTINGS

import meor
from meor.calls.report import report
from meor.calls.study import StudyView, study
from meor.cli.report import command as report_command
from meor.cli.study import command as study_command
from meor.errors import InputError, StudyError

OPTIONS = {"stream": "ring", "pairs": 2, "method": ["none", "meor"], "table": "effects"}
WORDS = ["--stream", "ring", "--pairs", "2", "--method", "none", "--method", "meor", "--table", "effects"]
SMALL = dict(text.split("=") for text in SETTINGS)
SETS = [part for text in SETTINGS for part in ("--set", text)]


@pytest.fixture
def found(ring: Path) -> StudyView:
    settings = {key: float(value) if "." in value else int(value) for key, value in SMALL.items()}
    return meor.study(
        "primary", **OPTIONS, rule="balance", settings=settings, out="call", executor="serial", quiet=True
    )


def test_the_call_and_the_command_leave_the_same_bytes(found: StudyView) -> None:
    invoke(
        *("study", "primary", *WORDS, "--rule", "balance", *SETS, "--out", "command"),
        *("--executor", "serial", "--quiet"),
    )
    ours, theirs = hashes(Path("call")), hashes(Path("command"))
    for listed in (ours, theirs):  # it lists the sha256 of command.txt, which names the folder
        listed.pop("study-manifest.json")
    assert ours == theirs
    typed = Path("call/command.txt").read_text().split()
    assert typed[:3] == ["meor", "study", "primary"]
    assert {"--pairs", "--stream", "--method", "--set", "--out"} <= set(typed)


def test_every_option_of_the_commands_is_a_keyword() -> None:
    options = set(inspect.signature(study_command).parameters) - {"name", "tables", "sets"}
    beside = {"study", "table", "settings", "strict", "command"}
    assert options | beside == set(inspect.signature(study).parameters)
    assert inspect.signature(meor.study) == inspect.signature(study)
    assert set(inspect.signature(report_command).parameters) == set(inspect.signature(report).parameters)


def test_effects_are_a_frame_with_the_numbers_of_the_file(found: StudyView) -> None:
    pytest.importorskip("pandas")
    frame = found.effects.to_frame()
    with Path("call/effects.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(frame.columns) == list(rows[0])
    assert [repr(value) for value in frame["mean"]] == [
        repr(type(value)(float(row["mean"]))) for value, row in zip(frame["mean"], rows, strict=True)
    ]
    assert set(frame.method) == {"meor"}
    again = meor.open_study("call", holm=True).effects.to_frame()
    assert again.holm_p.notna().any()


def test_it_is_shown_shortly_and_drawn(found: StudyView) -> None:
    assert repr(found).startswith("Study call: primary, 4 runs, ")
    assert "<table>" in found._repr_html_()
    drawing = found.plot()
    assert len(drawing.figures) == 1
    page = meor.report(found)
    assert page.figures["forest"].svg == drawing.svg
    assert repr(meor.open_study(found.path)) == repr(found)


def test_a_report_is_that_of_the_command_and_shows_itself(found: StudyView, monkeypatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    made = meor.report("call", out="one.html", figures="pictures", show=True)
    invoke("report", "call", "--out", "two.html", "--figures", "others")
    assert Path("one.html").read_bytes() == Path("two.html").read_bytes()
    assert hashes(Path("pictures")) == hashes(Path("others"))
    assert opened
    assert made.path == Path("one.html")
    assert "one.html (0." in repr(made)
    shown = made._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown  # escaped: it runs in its own frame
    assert len(made.written) == sum(len(each.figures) for each in made.figures.values())
    with pytest.raises(InputError, match="is a folder"):
        meor.report("call", out="pictures")


def test_a_failed_run_is_an_error_unless_the_call_is_not_strict(ring: Path) -> None:
    options = {**OPTIONS, "settings": {**SMALL, "base.learning_rate": "1e30"}, "executor": "serial"}
    with pytest.raises(StudyError, match="runs failed"):
        meor.study("primary", **options, rule="balance", out="broken", quiet=True)
    found = meor.study("primary", **options, rule="balance", out="broken", quiet=True, strict=False)
    assert found.found is not None
    assert found.found.failures
    with pytest.raises(StudyError, match="not the folder of a study"):
        meor.open_study("ring")
