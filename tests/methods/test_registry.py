"""A method is one record: settings, studies, tables and pages know it without another line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.tiny_run import SETTINGS, tiny_stream
from typer.testing import CliRunner

from meor.cli import app
from meor.errors import ConfigError
from meor.methods import METHODS, Method, method_label, needs_coefficient, register
from meor.methods.registry import MEOR
from meor.run.config import Config
from meor.stream.files import write_stream


@pytest.fixture
def toy() -> Iterator[Method]:
    variant = replace(MEOR, aggregate="max", reference="role")
    yield register(Method("toy", "Toy", "the largest gap against unmatched old entities.", variant=variant))
    del METHODS["toy"]


def call(*words: str) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_new_method_runs_is_studied_and_reported(toy: Method, tmp_path: Path) -> None:
    stream, runs = tmp_path / "ring", tmp_path / "study"
    write_stream(tiny_stream(), stream)
    small = [word for setting in SETTINGS for word in ("--set", setting)]
    beside = ["--stream", str(stream), *small, "--cache", str(tmp_path / "cache")]
    call("run", "--method", "toy", "--out", str(tmp_path / "run"), *beside)
    methods = ["--method", "none", "--method", "meor", "--method", "toy"]
    out = ["--pairs", "2", "--executor", "serial", "--rule", "balance", "--out", str(runs)]
    call("study", "primary", *methods, *beside, *out)
    for folder in (tmp_path / "run", runs):
        call("report", str(folder))
    page = (runs / "report.html").read_text()
    assert toy.label in (tmp_path / "run" / "report.html").read_text()
    assert toy.label in page
    assert toy.sentence in page
    assert "Toy" in (runs / "effects.csv").read_text().title()


def test_a_name_is_given_once_and_a_penalty_has_a_variant() -> None:
    with pytest.raises(ConfigError, match="already"):
        register(METHODS["meor"])
    with pytest.raises(ConfigError, match="variant"):
        register(Method("other", "Other", "nothing."))
    assert "other" not in METHODS


def test_settings_know_exactly_the_registered_methods() -> None:
    assert {Config(method=name).method for name in METHODS} == set(METHODS)
    with pytest.raises(ConfigError, match="meor"):
        Config.resolve({"method": "meer"})
    assert [name for name in METHODS if not needs_coefficient(name)] == [
        "none",
        "calibration",
        "guard",  # brings its coefficient
        "cap",
        "cap+calibration",
        "cap+guard",
    ]


def test_a_label_is_that_of_the_record_and_an_unknown_name_stands_for_itself() -> None:
    assert method_label("meor") == "MEOR"
    assert method_label("nobody") == "nobody"
