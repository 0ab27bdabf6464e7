"""A host and a method from one short file each: the very blocks of docs/extend.md."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.extend import document
from tests.hosts.contract import config_of, holds_its_contract, run
from tests.tiny_run import SETTINGS, each_step, tiny_config, tiny_stream
from typer.testing import CliRunner

from meor.cli import app
from meor.hosts import HOSTS
from meor.methods import METHODS
from meor.run.session import start
from meor.run.view import RunView
from meor.stream.files import write_stream


@pytest.fixture
def pull_back(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(HOSTS, "pull-back", None)  # so that it is gone after the test
    document("host", lines=40)
    return "pull-back"


@pytest.fixture
def shrink(monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context():
        document("method", lines=40)
    monkeypatch.setitem(METHODS, "shrink", METHODS.pop("shrink"))
    return "shrink"


def test_the_host_holds_the_contract(pull_back: str, tmp_path: Path) -> None:
    holds_its_contract(pull_back, tmp_path)


def test_its_old_rows_move_less_the_harder_it_pulls(pull_back: str, tmp_path: Path) -> None:
    stream, moved = tiny_stream(), []
    for pull in (0.0, 10.0):
        config = config_of(pull_back)
        config = config.model_copy(update={"host": HOSTS[pull_back].Settings(name=pull_back, pull=pull)})
        folder = tmp_path / f"pull-{pull:g}"
        start(config, folder, stream=stream, resources=each_step(tmp_path / f"cache-{pull:g}"))
        before, after = RunView.open(folder).model(0).entity, RunView.open(folder).model(1).entity
        moved.append(float((after[: len(before)] - before).norm()))
    assert moved[0] > 2 * moved[1] > 0


def test_the_method_shrinks_newcomers_and_is_studied_and_reported(shrink: str, tmp_path: Path) -> None:
    stream = tiny_stream()
    norm = {}
    for method in ("none", shrink):
        sets = (f"method={method}", *(() if method == "none" else ("coefficient=1.0",)))
        config = tiny_config("refine.learning_rate=0.1", *sets)
        start(config, tmp_path / method, stream=stream, resources=each_step(tmp_path / "cache"))
        norm[method] = float(RunView.open(tmp_path / method).model(1).entity[24:].norm())
    assert norm[shrink] < 0.9 * norm["none"]
    write_stream(stream, tmp_path / "ring")
    small = [word for setting in SETTINGS for word in ("--set", setting)]
    out = ["--pairs", "2", "--executor", "serial", "--rule", "balance", "--out", str(tmp_path / "study")]
    beside = ["--stream", str(tmp_path / "ring"), *small, "--cache", str(tmp_path / "cache")]
    for words in (
        ["study", "primary", "--method", "none", "--method", shrink, *beside, *out],
        ["report", str(tmp_path / "study")],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    assert "pulls newcomer rows towards 0." in (tmp_path / "study" / "report.html").read_text()


def test_its_gradient_joins_that_of_any_host(shrink: str, pull_back: str, tmp_path: Path) -> None:
    stream = tiny_stream()
    alone = run(pull_back, tmp_path / "none", stream)
    both = run(pull_back, tmp_path / "both", stream, f"method={shrink}", "coefficient=1.0")
    assert not torch.equal(alone.model(1).entity[24:], both.model(1).entity[24:])
