from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.study.study_rows import row as invented_row
from tests.study.tiny_study import hashes, tiny_plan

from meor.errors import StreamError
from meor.methods.coefficient import Balance
from meor.run.aside import balance_aside
from meor.run.control import balanced
from meor.run.trainer import Resources
from meor.run.view import RunView
from meor.storage.json_file import read_sealed, sealed
from meor.study.cell import run_cell
from meor.study.coefficient import write_balance
from meor.study.conduct import FAILURES, Findings, conduct
from meor.study.execute import Executor, Processes, Serial
from meor.study.plan import Study
from meor.study.results import Results
from meor.study.rows import read_rows
from meor.study.tables import write_effects
from meor.study.task import Means, Observer, Outcome, Task


class Seen(Observer):
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.total = 0
        self.stages: list[tuple[str, int]] = []

    def stage(self, name: str, cells: int, total: int) -> None:
        self.total = total
        self.stages.append((name, cells))

    def cell(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def whole(place: Path) -> tuple[Path, Findings]:
    """The study, made in one go."""
    out = place / "whole"
    return out, conduct(tiny_plan(place), out, means=Means(cache=place / "cache"))


def test_every_cell_has_a_row_and_nothing_failed(whole: tuple[Path, Findings]) -> None:
    out, found = whole
    assert found.failures == {}
    assert read_rows(out / "runs.parquet") == list(found.rows)
    wanted = {(method, pair) for method in found.plan.methods for pair in range(2)}
    assert {(row.method, row.pair) for row in found.rows} == wanted
    assert not (out / FAILURES).exists()


@pytest.mark.parametrize(
    ("method", "stages"),
    [
        ("guard", [("host alone, and methods that need no other run", 4)]),
        ("meor", [("host alone", 2), ("methods", 2)]),
    ],
)
def test_a_method_that_needs_no_other_run_does_not_wait_for_the_last_host_alone(
    place: Path, tmp_path: Path, method: str, stages: list[tuple[str, int]]
) -> None:
    seen = Seen()
    plan = tiny_plan(place).model_copy(update={"methods": ("none", method), "schedule": "own"})
    found = conduct(plan, tmp_path / method, means=Means(cache=place / "cache"), observer=seen)
    assert found.failures == {}
    assert seen.stages == stages
    assert len(found.rows) == 4


def test_rows_are_what_the_runs_say(whole: tuple[Path, Findings]) -> None:
    out, found = whole
    for row in found.rows:
        view = RunView.open(out / "runs" / row.run)
        told = view.endpoints()["test"]
        for name in ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN"):
            assert row.endpoint(name) == told[name]["value"]
        assert view.config.seed == row.pair
        assert view.config.method == row.method


def test_the_runs_of_a_pair_share_their_inputs_and_two_pairs_do_not(whole: tuple[Path, Findings]) -> None:
    by_pair: dict[int, set[str]] = {}
    for row in whole[1].rows:
        by_pair.setdefault(row.pair, set()).add(row.pair_hash)
    assert all(len(found) == 1 for found in by_pair.values())
    assert by_pair[0] != by_pair[1]


def test_matched_methods_share_their_references_and_role_only_ones_differ(
    whole: tuple[Path, Findings],
) -> None:
    of = {(row.method, row.pair): row.reference_hash for row in whole[1].rows}
    for pair in (0, 1):
        assert len({of[method, pair] for method in ("meor", "mmr", "shuffled", "uncentered")}) == 1
        assert of["uor", pair] != of["meor", pair]
        assert of["none", pair] is of["calibration", pair] is None
    assert of["meor", 0] != of["meor", 1]


def test_finished_cells_are_never_redone(whole: tuple[Path, Findings], place: Path) -> None:
    out, found = whole
    before, seen = hashes(out), Seen()
    again = conduct(tiny_plan(place), out, means=Means(cache=place / "cache"), observer=seen)
    assert all(outcome.reused for outcome in seen.outcomes)
    assert again.rows == found.rows
    assert hashes(out) == before


def test_a_study_whose_folders_and_rows_say_replay_goes_on_with_them(
    whole: tuple[Path, Findings], place: Path
) -> None:
    out, (before, found) = place / "former", whole
    shutil.copytree(before, out)
    for path in (out / "runs").glob("*/pair-*/none*.json"):
        content = read_sealed(path)
        content["settings"]["method"] = content["row"]["method"] = "replay"
        content["row"]["run"] = content["row"]["run"].replace("/none", "/replay")
        path.with_name(path.name.replace("none", "replay")).write_bytes(sealed(content))
        path.unlink()
        (path.parent / path.stem).rename(path.with_name(path.stem.replace("none", "replay")))
    seen = Seen()
    again = conduct(tiny_plan(place), out, means=Means(cache=place / "cache"), observer=seen)
    assert all(outcome.reused for outcome in seen.outcomes)
    assert not list((out / "runs").glob("*/pair-*/none*"))
    named = [replace(row, run=row.run.replace("/replay", "/none")) for row in again.rows]
    assert named == list(found.rows)
    assert {row.method for row in read_rows(out / "runs.parquet")} >= {"none", "meor"}


def test_cells_made_before_there_was_a_sample_are_finished_and_a_sampled_study_does_not_take_them(
    whole: tuple[Path, Findings], place: Path
) -> None:
    out, (before, found) = place / "earlier", whole
    shutil.copytree(before, out)
    for path in (out / "runs").glob("*/pair-*/*.json"):
        if not path.name.endswith(".balance.json"):
            assert "sample" not in json.loads(path.read_text())["settings"]["evaluation"]
    plan, seen = tiny_plan(place, sets=[*tiny_plan(place).sets, "evaluation.sample=0"]), Seen()
    again = conduct(plan, out, means=Means(cache=place / "cache"), observer=seen)
    assert all(outcome.reused for outcome in seen.outcomes)
    assert again.rows == found.rows
    other = tiny_plan(place, sets=[*tiny_plan(place).sets, "evaluation.sample=4"])
    refused = conduct(other, out, means=Means(cache=place / "cache"))
    assert refused.rows == ()
    assert "other settings" in refused.failures["ring-replay-complex-practical/pair-0/none"]


class StopsAfter:
    """An executor that is interrupted in the middle of a study."""

    workers = 1

    def __init__(self, cells: int) -> None:
        self.cells = cells

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        for task in tasks:
            if not self.cells:
                raise KeyboardInterrupt
            self.cells -= 1
            yield run_cell(task)


def test_an_interrupted_study_goes_on_to_the_same_bytes(whole: tuple[Path, Findings], place: Path) -> None:
    out = place / "interrupted"
    with pytest.raises(KeyboardInterrupt):
        conduct(tiny_plan(place), out, executor=StopsAfter(0), means=Means(cache=place / "cache"))
    assert not (out / "runs.parquet").exists()
    for times in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            conduct(tiny_plan(place), out, executor=StopsAfter(times), means=Means(cache=place / "cache"))
        assert [row.pair for row in read_rows(out / "runs.parquet")] == list(range(times))
    parts: list[Findings] = []
    means = Means(cache=place / "cache")
    with pytest.raises(KeyboardInterrupt):
        conduct(tiny_plan(place), out, executor=StopsAfter(0), means=means, keep=parts.append)
    assert [len(part.rows) for part in parts] == [2]
    assert len(read_rows(out / "runs.parquet")) == 2  # a part that is written never loses a row
    conduct(tiny_plan(place), out, means=Means(cache=place / "other"))
    assert hashes(out) == hashes(whole[0])


@pytest.mark.parametrize("workers", [2])
def test_processes_change_no_byte(whole: tuple[Path, Findings], place: Path, workers: int) -> None:
    out = place / f"processes-{workers}"
    conduct(tiny_plan(place), out, executor=Processes(workers), means=Means(cache=place / "third"))
    assert hashes(out) == hashes(whole[0])


def test_a_failed_cell_is_named_and_the_rest_goes_on(whole: tuple[Path, Findings], place: Path) -> None:
    out = place / "failing"
    plan = tiny_plan(place, pairs=3)
    folder = out / "runs" / "ring-replay-complex-practical" / "pair-1"
    folder.mkdir(parents=True)
    (folder / "none").write_text("in the way")
    seen = Seen()
    found = conduct(plan, out, executor=Serial(), means=Means(cache=place / "cache"), observer=seen)
    name = "ring-replay-complex-practical/pair-1/none"
    assert "is a file" in found.failures[name]
    assert next(iter(found.failures)) == name  # and not calibration, which only follows from it
    assert seen.total == len(seen.outcomes)
    assert {row.pair for row in found.rows} == {0, 2}
    told = json.loads((out / FAILURES).read_text())
    assert set(told) == {f"ring-replay-complex-practical/pair-1/{method}" for method in plan.methods}
    (folder / "none").unlink()
    mended = conduct(plan, out, means=Means(cache=place / "cache"))
    assert mended.failures == {}
    assert not (out / FAILURES).exists()
    assert {row.pair for row in mended.rows} == {0, 1, 2}


def test_a_stream_that_is_not_there_is_refused_before_the_first_run(place: Path) -> None:
    out = place / "absent"
    plan = tiny_plan(place, methods=["none"], pairs=1)
    moved = plan.model_copy(update={"stream": (str(place / "nowhere" / "ring"),)})
    with pytest.raises(StreamError, match="no such file or folder"):
        conduct(moved, out, means=Means(cache=place / "cache"))
    assert not out.exists()


def test_cells_made_by_other_settings_are_refused_and_more_pairs_are_not(place: Path) -> None:
    out = place / "growing"
    conduct(tiny_plan(place, pairs=1, methods=["none"]), out, means=Means(cache=place / "cache"))
    more = conduct(tiny_plan(place, pairs=2, methods=["none"]), out, means=Means(cache=place / "cache"))
    assert len(more.rows) == 2
    other = tiny_plan(place, pairs=1, methods=["none"], settings={"refine": {"learning_rate": 0.5}})
    found = conduct(other, out, means=Means(cache=place / "cache"))
    assert "other settings" in next(iter(found.failures.values()))


def test_weights_can_be_dropped_once_a_row_is_made(place: Path) -> None:
    out = place / "light"
    plan = tiny_plan(place, pairs=1)
    conduct(plan, out, means=Means(cache=place / "cache", keep_weights=False))
    kept = {path.parts[-3] for path in out.rglob("model.safetensors")}
    assert kept == {"none"}
    seen = Seen()
    conduct(plan, out, means=Means(cache=place / "cache", keep_weights=False), observer=seen)
    assert all(outcome.reused for outcome in seen.outcomes)


def test_rows_suffice_to_go_on_and_a_run_that_others_need_is_made_again(
    whole: tuple[Path, Findings], place: Path
) -> None:
    """There is nothing to balance by at update 1, so all updates of the host alone are asked."""
    before = hashes(whole[0])
    moved = place / "moved"
    shutil.copytree(whole[0], moved)
    pair = next((moved / "runs").glob("*/pair-1"))
    for folder in filter(Path.is_dir, list(pair.iterdir())):
        shutil.rmtree(folder)  # as on another computer, to which rows alone were brought
    for lost in ("meor.json", "meor-test.balance.json"):
        (pair / lost).unlink()
    seen = Seen()
    conduct(tiny_plan(place), moved, means=Means(cache=place / "cache"), observer=seen)
    after = hashes(moved)
    assert {name for name, digest in before.items() if after.get(name, digest) != digest} == set()
    assert {path.name for path in pair.iterdir() if path.is_dir()} == {"none", "meor"}
    said = [remark for outcome in seen.outcomes for remark in outcome.remarks]
    assert any("pair-1/none is made again" in remark for remark in said)


def test_a_balance_made_aside_is_that_of_the_run_of_the_host_alone(
    whole: tuple[Path, Findings], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = place / "aside"
    shutil.copytree(whole[0], moved)
    pair = next((moved / "runs").glob("*/pair-1"))
    view = RunView.open(pair / "none")
    config = view.config.model_copy(update={"method": "uncentered"})
    wanted = balanced(config, view.stream(), 1, view.model)
    assert wanted.host_norm > 0
    shutil.rmtree(pair / "none")
    made = balance_aside(config, pair, stream=view.stream(), resources=Resources(cache=place / "aside-cache"))
    assert made == wanted
    assert not list(pair.glob(".meor-*")), "what it was made from is gone"

    enough = replace(made, coefficient=0.5)  # as if it sufficed
    monkeypatch.setattr("meor.study.cell.balance_aside", lambda *_, **__: enough)
    for lost in ("uncentered.json", "uncentered-test.balance.json"):
        (pair / lost).unlink()
    shutil.rmtree(pair / "uncentered")
    found = conduct(tiny_plan(place), moved, means=Means(cache=place / "cache"), executor=Serial())
    (row,) = [each for each in found.rows if (each.pair, each.method) == (1, "uncentered")]
    assert row.coefficient == 0.5
    assert not (pair / "none").exists(), "a whole run of the host alone is not made for it"


def test_a_study_recomputed_from_its_ranks_alone_agrees(whole: tuple[Path, Findings]) -> None:
    out, found = whole
    write_effects(out, found.plan, found.rows)
    script = Path(__file__).parents[1] / "real" / "recompute_tables.py"
    done = subprocess.run([sys.executable, script, out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(found.rows)} of {len(found.rows)} runs have their ranks" in done.stdout
    assert "meor" not in {
        line.split()[1].split(".")[0]
        for line in script.read_text().splitlines()
        if line.startswith(("import ", "from "))
    }
    Results(out).replace({"effects.csv": None})


def test_every_rule_has_its_rows_and_the_choice_is_recorded(place: Path) -> None:
    rules, methods = ["balance", "validated", 0.01], ["none", "uncentered", "meor"]
    plan = tiny_plan(place, methods=methods, coefficient_rule=rules)
    out = place / "rules"
    seen = Seen()
    found = conduct(plan, out, means=Means(cache=place / "cache"), observer=seen)
    assert found.failures == {}
    assert seen.total == len(seen.outcomes)
    by_rule: dict[str, set[tuple[str, int]]] = {}
    for row in found.rows:
        by_rule.setdefault(row.coefficient_rule, set()).add((row.method, row.pair))
    both = {(method, pair) for method in ("uncentered", "meor") for pair in (0, 1)}
    assert by_rule == {
        "none": {("none", 0), ("none", 1)},
        "balance": both,
        "validated": both,
        "0.01": both,
    }
    assert {row.pair for row in found.rows} == {0, 1}  # selection pairs stay out
    balance = {(kept.pair, kept.method): kept.balance for kept in found.balances}
    chosen = {choice.method: choice for choice in found.choices}
    assert all(choice.pairs == (1_000_000,) for choice in chosen.values())
    for row in found.rows:
        if row.coefficient_rule in ("balance", "validated"):
            expected = (row.multiple or 0.0) * balance[row.pair, row.method].coefficient
            assert row.coefficient == expected
        if row.coefficient_rule == "validated":
            assert row.multiple == chosen[row.method].multiple
    told = json.loads((out / "selection.json").read_text())
    assert {each["method"] for each in told} == {"uncentered", "meor"}
    assert [each["multiple"] for each in told[0]["candidates"]] == [1.0, 3.0, 10.0, 30.0, 100.0, 300.0]
    assert json.loads((out / "balances.json").read_text())


class Invented:
    """Outcomes without runs: H_cur rises with the multiple through 3,000, and A_TN stays."""

    workers = 1

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        for task in tasks:
            cell, multiple = task.cell, task.cell.multiple or 0.0
            cur = 0.2 + min(multiple, 3000.0) / 1e5 - max(0.0, multiple - 3000.0) / 1e6
            made = invented_row(
                cell.method,
                cell.seed,
                stream=cell.group.stream,
                multiple=cell.multiple,
                H_cur=cur,
                D_MCI=0.25 - cur,
                run=cell.name,
            )
            yield Outcome(cell, made, None, 0.0)


def test_selection_goes_beyond_300_until_two_multiples_in_succession_are_no_better(place: Path) -> None:
    plan = tiny_plan(place, methods=["none", "meor"], coefficient_rule=["validated"], pairs=1)
    found = conduct(plan, place / "larger", executor=Invented())
    assert found.failures == {}
    (choice,) = found.choices
    assert [one.multiple for one in choice.candidates][5:] == [300.0, 1000.0, 3000.0, 10000.0, 30000.0]
    assert choice.multiple == 3000.0
    assert [row.multiple for row in found.rows if row.method == "meor"] == [3000.0]


@pytest.mark.parametrize("executor", [Serial(), Processes(2)], ids=["serial", "processes"])
def test_multiples_of_an_inactive_coefficient_share_one_run(place: Path, executor: Executor) -> None:
    out = place / f"inactive-{executor.workers}"
    curves = {"grid": {"method": "meor", "values": [3, 10]}}
    plan = tiny_plan(place, methods=["none", "meor"], curves=curves, pairs=1)
    conduct(tiny_plan(place, methods=["none"], pairs=1), out, means=Means(cache=place / "cache"))
    pair = out / "runs" / "ring-replay-complex-practical" / "pair-0"
    write_balance(pair / "meor-test.balance.json", Balance(0.0, 1.0, 0.0, 64, 0, 1))
    found = conduct(plan, out, executor=executor, means=Means(cache=place / "cache"))
    assert found.failures == {}
    replay, *penalized = found.rows
    assert [row.multiple for row in penalized] == [1.0, 3.0, 10.0]
    assert {row.run for row in penalized} == {"ring-replay-complex-practical/pair-0/meor"}
    assert {row.H_cur for row in found.rows} == {replay.H_cur}
    assert sorted(each.name for each in pair.iterdir() if each.is_dir()) == ["meor", "none"]
    seen = Seen()
    conduct(plan, out, means=Means(cache=place / "cache"), observer=seen)
    assert all(outcome.reused for outcome in seen.outcomes)


def test_an_unused_penalty_leaves_the_bits_of_the_host(place: Path) -> None:
    plan = tiny_plan(place, methods=["none", "meor"], coefficient_rule=[0], pairs=1)
    found = conduct(plan, place / "zero", means=Means(cache=place / "cache"))
    replay, penalized = found.rows
    assert (replay.method, penalized.coefficient_rule) == ("none", "0.0")
    for name in ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN"):
        assert replay.endpoint(name) == penalized.endpoint(name)
    weights = [(place / "zero" / "runs" / row.run / "update-2" / "model.safetensors") for row in found.rows]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.long
def test_a_small_study_of_the_world_recomputed_from_its_ranks_alone_agrees(place: Path) -> None:
    out = place / "world"
    plan = Study.load("primary", changes={"stream": "world", "pairs": 2}, sets=["dim=16", "base.epochs=40"])
    found = conduct(plan, out, executor=Processes(2), means=Means(cache=place / "cache"))
    assert found.failures == {}
    write_effects(out, plan, found.rows)
    script = Path(__file__).parents[1] / "real" / "recompute_tables.py"
    done = subprocess.run([sys.executable, script, out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(found.rows)} of {len(found.rows)} runs have their ranks" in done.stdout
