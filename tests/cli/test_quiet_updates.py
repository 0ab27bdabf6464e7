"""Updates that admit no entity, at every place of a stream and through every command."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.quiet_streams import FACTS, GROWS, QUIET, written
from typer.testing import CliRunner

from meor.cli import app

SETTINGS = (
    "dim=8",
    "base.epochs=1",
    "refine.passes=1",
    "refine.learning_rate=0.05",
    "refine.batch=64",
    "refine.replay_size=24",
)
SETS = [part for text in SETTINGS for part in ("--set", text)]


def call(*arguments: str) -> tuple[str, str]:
    """What a command says on stdout and stderr; it must end well."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, (arguments, result.stderr, result.exception)
    return result.stdout, result.stderr


@pytest.fixture(params=QUIET)
def kinds(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The stream is the folder `quiet` of the working folder."""
    monkeypatch.setenv("MEOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    chosen = QUIET[request.param]
    written(chosen, tmp_path / "quiet")
    return chosen


def test_every_command_on_every_place_of_an_update_without_newcomers(kinds: tuple[str, ...]) -> None:
    for method in ("none", "meor", "calibration"):
        out, err = call("run", "--stream", "quiet", "--method", method, "--out", method, *SETS)
        check_run(kinds, out, err)
        check_audit(kinds, method, *call("audit", method))
        for update, kind in enumerate(kinds, start=1):
            shown, _ = call("inspect", method, "--update", str(update))
            assert ("no record is eligible" in shown) is (kind != GROWS)
        call("report", method, "--figures", f"{method}-figures")
        check_page(kinds, Path(method, "report.html"), Path(f"{method}-figures"))
    methods = [part for method in ("none", "meor", "calibration") for part in ("--method", method)]
    study = ("study", "primary", "--stream", "quiet", "--pairs", "2", "--rule", "balance")
    out, _ = call(*study, *methods, "--executor", "serial", "--out", "study", *SETS)
    assert ("A_TN†" in out) is (GROWS in kinds)
    call("report", "study")
    check_page(kinds, Path("study", "report.html"), Path("study", "figures"))


def check_run(kinds: tuple[str, ...], out: str, err: str) -> None:
    assert "refined in 0 steps" not in err
    assert "admits no entity" in err or "admit no entity" in err
    assert ("recorded but not learned" in err) is (FACTS in kinds)
    assert err.count("nothing to train") == kinds.count(FACTS)
    assert err.index("no entity") < err.index("base: "), "said before anything is trained"
    assert ("which newcomers" in out) is (GROWS in kinds)
    assert ("†" in out) is (GROWS in kinds)
    assert ("is undefined" in out) is (GROWS not in kinds), "a mean that is shown is not called undefined"


def check_audit(kinds: tuple[str, ...], method: str, out: str, err: str) -> None:
    assert ("†" in out) is (GROWS in kinds)
    assert ("is undefined" in out) is (GROWS not in kinds)
    assert ("No old answer lost rank" in out) is (GROWS not in kinds)
    assert ("to the bit" in err) is (method != "calibration")
    test = json.loads(Path(method, "endpoints.json").read_text())["test"]
    assert test["A_TN"]["value"] is None
    assert test["H_cur"]["value"] > 0
    cells = {cell["update"] for cell in test["A_TN"].get("cells", ())}
    assert cells <= {update for update, kind in enumerate(kinds, start=1) if kind == GROWS}
    assert bool(cells) is (GROWS in kinds)


def check_page(kinds: tuple[str, ...], page: Path, figures: Path) -> None:
    text = page.read_text()
    assert "not known yet" not in text
    assert ("†" in text) is (GROWS in kinds)
    assert "no entity: no answer can lose rank to a newcomer there" in text
    drawings = sorted(figures.glob("*.svg"))
    assert drawings
    for drawing in drawings:
        ElementTree.parse(drawing)
