from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from tests.tiny_run import SETTINGS, results, tiny_stream
from typer.testing import CliRunner

from meor.calls.progress import Live, watcher
from meor.calls.run import default_out, stream_setting
from meor.cli import app
from meor.cli.run import endpoint_table, legend
from meor.run.config import Config
from meor.run.view import RunView

SETS = [part for text in SETTINGS for part in ("--set", text)]


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_run_prints_endpoints_on_stdout_and_progress_on_stderr(ring: Path, tmp_path: Path) -> None:
    code, out, err = call("run", "--stream", "ring", *SETS, "--threads", "1")
    assert code == 0, err
    run = Path("runs/ring-complex-cap+guard-s0")
    assert "method cap+guard: scales a newcomer's row back" in err, "what a run without a method uses"
    for name in ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN", str(run)):
        assert name in out
    assert "base: trained" in err
    assert RunView.open(run).complete
    assert RunView.open(run).config.stream == str(ring), "a path is kept in full"


def test_json_is_one_document_and_quiet_is_silent(ring: Path) -> None:
    code, out, err = call("run", "--stream", "ring", "--out", "a", *SETS, "--json", "--quiet")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["endpoints"] == json.loads(Path("a/endpoints.json").read_text())
    assert call("run", "--stream", "ring", "--out", "b", *SETS, "--quiet") == (0, "", "")
    assert Path("a/endpoints.json").read_bytes() == Path("b/endpoints.json").read_bytes()


def test_resume_of_a_complete_run_prints_its_endpoints(ring: Path) -> None:
    call("run", "--stream", "ring", "--out", "a", *SETS, "--quiet")
    code, out, _ = call("resume", "a", "--json")
    assert code == 0
    assert json.loads(out)["endpoints"] == json.loads(Path("a/endpoints.json").read_text())


def test_a_run_can_be_repeated_from_its_own_config(ring: Path) -> None:
    call("run", "--stream", "ring", "--out", "a", "--backbone", "transe", "--seed", "3", *SETS, "--quiet")
    code, _, err = call("run", "--config", "a/config.yaml", "--out", "b", "--quiet")
    assert code == 0, err
    assert results(Path("a")) == results(Path("b"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--set", "base.epoch=3"], "base.epochs"),
        (["--backbone", "complx"], "complex"),
        (["--preset", "papr"], "paper"),
        (["--method", "meorr"], "meor"),
        (["--stream", "nowhere"], "nowhere"),
        (["--memory", "lots"], "1GiB"),
        (["--memory", "1KiB"], "--memory"),
        (["--config", "missing.yaml"], "missing.yaml"),
        (["--base", "missing.npy"], "missing.npy"),
        (["--base-relation", "r.npy"], "--base"),
        (["--base", "ring"], "entity.npy"),
        (["--threads", "0"], "--threads"),
        (["--seed", "-1"], "seed"),
    ],
)
def test_a_mistake_is_one_line_with_a_remedy_and_leaves_no_folder(
    ring: Path, arguments: list[str], expected: str
) -> None:
    first = [] if "--stream" in arguments else ["--stream", "ring"]
    code, out, err = call("run", *first, "--out", "new/run", *SETS, *arguments)
    assert code == 2
    assert out == ""
    assert expected in err
    assert "Traceback" not in err
    assert not Path("new").exists()


def test_out_that_is_in_use_is_refused(ring: Path) -> None:
    Path("file").write_text("mine")
    assert call("run", "--stream", "ring", "--out", "file", *SETS)[0] == 2
    assert call("run", "--stream", "ring", "--out", "ring", *SETS, "--force")[0] == 2
    assert (ring / "0" / "train.txt").exists()
    assert call("resume", "ring")[0] == 2


def test_base_folder_skips_base_training_and_rows_may_be_in_any_order(ring: Path) -> None:
    stream = tiny_stream()
    rng = np.random.default_rng(0)
    order = rng.permutation(24)
    entity = rng.normal(size=(24, 8))
    Path("given").mkdir()
    np.save("given/entity.npy", entity[order])
    np.save("given/relation.npy", rng.normal(size=(3, 8)))
    lines = [f"entity\t{row}\t{stream.entities.label(int(id))}" for row, id in enumerate(order)]
    lines += [f"relation\t{row}\t{stream.relations.label(row)}" for row in range(3)]
    Path("given/vocabulary.tsv").write_text("\n".join(lines) + "\n")
    code, _, err = call("run", "--stream", "ring", "--out", "a", "--base", "given", *SETS)
    assert code == 0, err
    assert "given embeddings" in err
    np.testing.assert_array_equal(RunView.open(Path("a")).model(0).entity.numpy(), entity)
    assert not Path("cache").exists()


def test_base_takes_the_model_of_another_run(ring: Path) -> None:
    call("run", "--stream", "ring", "--out", "a", *SETS, "--quiet")
    code, _, err = call("run", "--stream", "ring", "--out", "b", "--base", "a/update-0", *SETS)
    assert code == 0, err
    for name in ("update-0/model.safetensors", "update-2/model.safetensors", "endpoints.json"):
        assert (Path("a") / name).read_bytes() == (Path("b") / name).read_bytes()


def test_audit_agrees_with_the_run(ring: Path) -> None:
    call("run", "--stream", "ring", "--out", "a", *SETS, "--quiet")
    code, out, err = call("audit", "a", "--json")
    assert code == 0, err
    assert json.loads(out)["disagreements"] == []


def test_the_default_folder_names_what_was_run() -> None:
    config = Config(stream="some/where/my graph", backbone="transe", seed=4)
    assert str(default_out(config)) == "runs/my-graph-transe-guard-s4"


def test_a_registered_name_stays_a_name_even_where_a_folder_has_it(ring: Path) -> None:
    Path("ENTITY").mkdir()
    assert stream_setting("ENTITY") == "ENTITY"
    assert stream_setting("world") == "world"
    assert stream_setting("./ENTITY") == str(Path("ENTITY").absolute())


def test_on_a_terminal_a_bar_shows_loss_and_validation_and_leaves_a_summary() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with watcher(console, quiet=False) as shown:
        assert isinstance(shown, Live)
        shown.phase("base", 0, total=10)
        shown.step(3, 0.5)
        shown.validated(1, 0.25)
        shown.event("base", {"source": "trained", "epochs": 5, "best_mrr": 0.25})
        shown.event("evaluated", {"update": 1})
        shown.say("a remark [with brackets]")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "trained for 5 epochs" in text
    assert "[with brackets]" in text


def test_an_undefined_endpoint_is_shown_with_its_reason_and_never_as_zero() -> None:
    cells = [{"update": 1, "side": side, "size": 3, "value": 0.5} for side in ("head", "tail")]
    found = {"H_cur": {"value": 0.5, "cells": cells}, "A_TN": {"value": None, "reason": "no query there"}}
    console = Console(file=io.StringIO(), width=80)
    console.print(endpoint_table("title", found))
    console.print(legend(found))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "undefined" in text
    assert "no query there" in text
    assert "0.0000" not in text
