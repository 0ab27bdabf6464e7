"""`meor.run` in one call: the bytes of the command, and what a notebook shows."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.extend import invoke
from tests.pykeen_models import SAVED
from tests.tiny_run import SETTINGS, results, tiny_stream

import meor
from meor.calls.drawing import Drawing
from meor.calls.run import Run, run
from meor.cli.run import command
from meor.errors import ConfigError, RunError

SETS = [part for text in SETTINGS for part in ("--set", text)]
NESTED = {
    "dim": 4,
    "base": {"epochs": 3, "batch": 32, "validate_every": 1, "learning_rate": 0.05, "negatives": 4},
    "refine": {"batch": 16, "passes": 2, "negatives": 4, "replay_size": 12},
}


def test_the_call_and_the_command_leave_the_same_bytes(ring: Path) -> None:
    meor.run("ring", method="meor", seed=2, settings=NESTED, out="call", quiet=True)
    invoke("run", "--stream", "ring", "--method", "meor", "--seed", "2", *SETS, "--out", "command", "--quiet")
    assert results(Path("call")) == results(Path("command"))
    assert Path("call/config.yaml").read_bytes() == Path("command/config.yaml").read_bytes()


def test_every_option_of_the_command_is_a_keyword() -> None:
    options = set(inspect.signature(command).parameters) - {"sets", "as_json"}
    assert options | {"settings"} == set(inspect.signature(run).parameters)
    assert inspect.signature(meor.run) == inspect.signature(run)


def test_settings_are_nested_dotted_or_texts(ring: Path) -> None:
    dotted = {f"base.{key}": value for key, value in NESTED["base"].items()}
    dotted |= {f"refine.{key}": value for key, value in NESTED["refine"].items()}
    for number, settings in enumerate((NESTED, {"dim": 4, **dotted}, SETTINGS)):
        meor.run(ring, settings=settings, out=f"run-{number}", quiet=True)
    assert results(Path("run-0")) == results(Path("run-1")) == results(Path("run-2"))
    with pytest.raises(ConfigError, match=r"base\.epochs"):
        meor.run(ring, settings={"base": {"epoch": 3}}, out="wrong")
    with pytest.raises(ConfigError, match="dim is a single value"):
        meor.run(ring, settings={"dim": 4, "dim.of": 3}, out="wrong")
    assert not Path("wrong").exists()


def test_a_stream_in_memory_serves_as_well(ring: Path) -> None:
    stream = tiny_stream()
    of_memory = meor.run(stream, settings=SETTINGS, out="memory", quiet=True)
    meor.run(ring, settings=SETTINGS, out="folder", quiet=True)
    assert results(Path("memory")) == results(Path("folder"))
    assert of_memory.stream() is stream
    assert meor.audit(of_memory).endpoints == meor.audit(meor.open_run("folder")).endpoints
    assert yaml.safe_load(Path("memory/config.yaml").read_text())["stream"] == "ring"


def test_a_folder_that_pykeen_saved_is_grown(ring: Path) -> None:
    settings = {key: value for key, value in NESTED.items() if key != "dim"}
    grown = meor.run(ring, base=str(SAVED / "transe"), settings=settings, quiet=True)
    assert grown.config.backbone == "transe"
    assert grown.path == Path("runs/ring-transe-guard-s0")


def test_a_second_run_in_the_same_folder_is_refused_unless_it_is_forced(made: Run, ring: Path) -> None:
    with pytest.raises(RunError, match="--force"):
        meor.run(ring, settings=SETTINGS, out="made", quiet=True)
    again = meor.run(ring, settings=SETTINGS, out="made", force=True, quiet=True)
    assert again.config.method == "cap+guard", "what a run without a method uses"


def test_progress_goes_to_stderr_as_lines(ring: Path, capsys: pytest.CaptureFixture[str]) -> None:
    meor.run(ring, settings=SETTINGS, out="loud")
    said = capsys.readouterr()
    assert said.out == ""
    assert "base: trained" in said.err
    assert "update 2" in said.err


def test_it_is_shown_in_one_line_and_as_a_table(made: Run) -> None:
    text = repr(made)
    assert text.startswith(f"Run {made.path}: ")
    assert "meor, seed 0" in text
    assert "H_cur 0." in text
    assert len(text) < 400
    assert "<table>" in made._repr_html_()
    assert repr(meor.open_run("made")) == text


def test_an_update_that_a_complete_run_does_not_have_is_not_awaited(made: Run) -> None:
    with pytest.raises(RunError, match=r"is complete, and update-9/ranks\.parquet is not in it"):
        made.ranks(9)


def test_ranks_have_labels_in_a_frame(made: Run) -> None:
    pandas = pytest.importorskip("pandas")
    frame = made.ranks(2).to_frame()
    assert isinstance(frame, pandas.DataFrame)
    asked = made.ranks(2)["test"]
    assert len(frame) == sum(map(len, asked))
    first = asked[0]
    head, relation, tail = first.occurrences.fact[0]
    stream = tiny_stream()
    row = frame.iloc[0]
    assert (row["head"], row["relation"]) == (stream.entities.label(head), stream.relations.label(relation))
    assert row["tail"] == stream.entities.label(tail)
    assert row["rank_cur"] == first.cur[0]
    newcomers = frame[frame.role == "target_newcomer"]
    assert len(newcomers)
    assert newcomers.rank_old.isna().all()
    assert set(frame.side) == {"head", "tail"}
    assert repr(made.ranks(2)) == f"Ranks of {len(frame)} test queries"
    assert "more rows" in made.ranks(2)._repr_html_()


def test_endpoints_are_a_frame_and_still_what_the_file_holds(made: Run) -> None:
    pytest.importorskip("pandas")
    found = made.endpoints()
    frame = found.to_frame().set_index("endpoint")
    assert frame.loc["H_cur", "all"] == found["test"]["H_cur"]["value"]
    cells = [cell["value"] for cell in found["test"]["H_cur"]["cells"] if cell["update"] == 2]
    assert frame.loc["H_cur", "update 2"] == pytest.approx(sum(cells) / 2)
    assert "H_cur" in repr(found)


def test_the_figure_is_that_of_the_report_and_can_be_saved(made: Run, tmp_path: Path) -> None:
    drawing = made.plot()
    assert isinstance(drawing, Drawing)
    (path,) = drawing.save(tmp_path / "new" / "losses.svg")
    assert path.read_text() == meor.report(made).figures["same-facts"].svg[0]
    assert "<img" in drawing._repr_html_()
    assert "The same facts through all updates" in repr(drawing)


def test_rooms_are_called_and_imported_in_any_order(tmp_path: Path) -> None:
    code = """
import inspect
import meor.run.view
import meor
assert callable(meor.run), meor.run
from meor.run.config import Config
import meor.study.plan as plan
assert plan.Study and callable(meor.study) and callable(meor.report)
import meor.run.session as session
assert session.start
assert "stream" in inspect.signature(meor.run).parameters
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert importlib.import_module("meor.run") is meor.run


def test_an_unfinished_run_says_so(made: Run) -> None:
    manifest = {**made.manifest, "complete": False}
    assert "unfinished" in repr(Run(manifest, made.config, made.files))
