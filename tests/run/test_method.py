"""Methods in whole runs: what they share with replay, what they add, and that they survive being stopped."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.run.test_runner import HASTY, StopAt, Stopped, stream, whole  # noqa: F401  (fixtures)
from tests.tiny_run import each_step, results, tiny_config

from meor.backbone import BACKBONES
from meor.errors import RunError
from meor.methods.coefficient import Candidate, best_multiple
from meor.methods.registry import penalties
from meor.run.session import resume, start
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.shared import pair_hash

PRESSED = ("refine.learning_rate=0.3", "refine.passes=4", "coefficient=5.0")
"""Newcomers that move fast enough to outrank, so that the penalty acts on the tiny stream."""


def trained(name: str) -> bool:
    return "optimizer" in name or name.endswith(".safetensors")


def models_and_ranks(run: Path) -> dict[str, str]:
    """All but the records; of the endpoints, what was measured and not what it says about a penalty."""
    found = {name: value for name, value in results(run).items() if "records" not in name}
    measured = {name: part for name, part in RunView.open(run).endpoints().items() if name != "control"}
    return {**found, "endpoints.json": repr(measured)}


def events(run: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in RunView.open(run).events() if event["event"] == name]


@pytest.mark.parametrize("method", sorted(penalties()))
@pytest.mark.parametrize("backbone", sorted(BACKBONES))
def test_r3_a_coefficient_of_0_gives_the_bytes_of_replay(
    whole: Callable[..., Path],  # noqa: F811
    backbone: str,
    method: str,
) -> None:
    replay = whole(f"backbone={backbone}")
    penalised = whole(f"backbone={backbone}", f"method={method}", "coefficient=0")
    assert models_and_ranks(penalised) == models_and_ranks(replay)


@pytest.mark.parametrize("backbone", sorted(BACKBONES))
def test_r3_calibration_trains_to_the_bytes_of_replay(
    whole: Callable[..., Path],  # noqa: F811
    backbone: str,
) -> None:
    """The sixth method has no coefficient: it transforms scores after training, so only ranks may differ."""
    replay, calibrated = (
        {
            name: value
            for name, value in results(whole(f"backbone={backbone}", *sets)).items()
            if trained(name)
        }
        for sets in ((), ("method=calibration",))
    )
    assert calibrated == replay


@pytest.mark.parametrize("method", ["meor", "mmr", "uncentered"])
def test_a_penalty_that_acts_changes_newcomers_and_writes_its_records(
    whole: Callable[..., Path],  # noqa: F811
    method: str,
) -> None:
    replay = whole(*PRESSED[:2])
    run = whole(*PRESSED, f"method={method}")
    assert models_and_ranks(run) != models_and_ranks(replay)
    for update in (1, 2):
        table = pq.read_table(run / f"update-{update}" / "records.parquet")
        assert {"head", "relation", "tail", "side", "tau", "u_new", "u_old", "excess", "active"} <= set(
            table.column_names
        )
    assert sum(event["active"] for event in events(run, "records")) > 0


@pytest.mark.parametrize("scheme", ["neighbours", "matched"])
def test_methods_of_a_pair_start_from_the_same_rows_at_every_update(
    whole: Callable[..., Path],  # noqa: F811
    stream: Stream,  # noqa: F811
    scheme: str,
) -> None:
    sets = (*PRESSED[:2], "refine.replay_size=60", f"refine.newcomer_init={scheme}")
    replay, penalised = whole(*sets), whole(*sets, "method=meor", "coefficient=5.0")
    first = [(run / "update-1" / "model.safetensors").read_bytes() for run in (replay, penalised)]
    assert first[0] != first[1]  # newcomers of update 1 are each method's own
    rows = [[event["rows_sha256"] for event in events(run, "grown")] for run in (replay, penalised)]
    assert rows[0] == rows[1]
    assert len(set(rows[0])) == len(stream.updates)
    hashes = [pair_hash(RunView.open(run), stream) for run in (replay, penalised)]
    assert hashes[0] == hashes[1]


def test_the_hash_of_shared_inputs_notices_other_initial_rows(
    tmp_path: Path,
    whole: Callable[..., Path],  # noqa: F811
    stream: Stream,  # noqa: F811
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole(), run)
    before = pair_hash(RunView.open(run), stream)
    log, manifest = run / "log.jsonl", json.loads((run / "manifest.json").read_text())
    rows = events(run, "grown")[-1]["rows_sha256"]
    log.write_text(log.read_text().replace(rows, "0" * 64))
    manifest["sha256"]["log.jsonl"] = hashlib.sha256(log.read_bytes()).hexdigest()
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert pair_hash(RunView.open(run), stream) != before


@pytest.mark.parametrize("method", ["none", "meor", "calibration"])
def test_a_sampled_run_has_the_ranks_of_the_whole_run_on_its_facts(
    whole: Callable[..., Path],  # noqa: F811
    method: str,
) -> None:
    sets = (f"method={method}", "coefficient=5.0")
    full, some = whole(*sets), whole(*sets, "evaluation.sample=4")
    for update in (1, 2):
        expected, found = (_rows(run, update) for run in (full, some))
        assert len(found) == 2 * 4 * (update + 1) < len(expected)  # both sides, 4 facts per snapshot
        assert set(found) < set(expected)
    names = {name for name in results(full) if "model" in name or "optimizer" in name}
    assert {results(some)[name] for name in names} == {results(full)[name] for name in names}


def test_every_method_backbone_and_seed_ranks_the_same_sample(whole: Callable[..., Path]) -> None:  # noqa: F811
    variants = ("method=none", "method=meor", "method=calibration", "seed=5", "backbone=transe")
    runs = [whole(variant, "coefficient=5.0", "evaluation.sample=4") for variant in variants]
    asked = [[row[:-2] for update in (1, 2) for row in _rows(run, update)] for run in runs]
    assert all(each == asked[0] for each in asked[1:])


def test_a_sample_no_smaller_than_every_snapshot_changes_no_result(whole: Callable[..., Path]) -> None:  # noqa: F811
    assert results(whole("evaluation.sample=6")) == results(whole())


def _rows(run: Path, update: int) -> list[tuple[Any, ...]]:
    table = pq.read_table(run / f"update-{update}" / "ranks.parquet")
    return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


@pytest.mark.parametrize("method", ["meor", "calibration"])
def test_r1_a_method_resumed_at_any_step_or_phase_ends_with_the_same_bytes(
    tmp_path: Path,
    stream: Stream,  # noqa: F811
    whole: Callable[..., Path],  # noqa: F811
    method: str,
) -> None:
    sets = (
        *PRESSED[:2],
        f"method={method}",
    )  # MEOR: with the balance rule, whose trial training is stopped too
    expected = results(whole(*sets))
    counted = StopAt()
    start(
        tiny_config(*sets),
        tmp_path / "0",
        stream=stream,
        disk=HASTY,
        resources=each_step(tmp_path / "c"),
        watcher=counted,
    )
    for n in range(1, counted.seen + 1, 2):
        run, resources = tmp_path / str(n), each_step(tmp_path / f"cache-{n}")
        with pytest.raises(Stopped):
            start(tiny_config(*sets), run, stream=stream, disk=HASTY, resources=resources, watcher=StopAt(n))
        resume(run, stream=stream, disk=HASTY, resources=resources)
        assert results(run) == expected, f"stopped at {n}"


def test_calibration_reads_the_replay_run_of_its_pair_to_the_same_bytes(
    tmp_path: Path,
    stream: Stream,  # noqa: F811
    whole: Callable[..., Path],  # noqa: F811
) -> None:
    alone = whole(*PRESSED[:2], "method=calibration")
    resources = each_step(tmp_path / "cache", alone=whole(*PRESSED[:2]))
    start(
        tiny_config(*PRESSED[:2], "method=calibration"), tmp_path / "run", stream=stream, resources=resources
    )
    files = {name: value for name, value in results(tmp_path / "run").items() if "optimizer" not in name}
    assert files == {name: value for name, value in results(alone).items() if "optimizer" not in name}


def test_the_replay_run_of_another_pair_is_refused(
    tmp_path: Path,
    stream: Stream,  # noqa: F811
    whole: Callable[..., Path],  # noqa: F811
) -> None:
    resources = each_step(tmp_path / "cache", alone=whole(*PRESSED[:2]))
    with pytest.raises(RunError, match="not the run of the host alone in this pair"):
        start(tiny_config("method=calibration"), tmp_path / "run", stream=stream, resources=resources)


def test_the_coefficient_is_logged_with_what_it_was_made_from(whole: Callable[..., Path]) -> None:  # noqa: F811
    sets = (*PRESSED[:2], "method=uncentered", "refine.replay_size=60")
    (event,) = events(whole(*sets), "coefficient")
    assert (event["rule"], event["update"], event["inactive"]) == ("balance", 1, False)
    assert event["active"] >= 16
    assert event["coefficient"] == event["host_norm"] / event["penalty_norm"]


def test_a_validated_coefficient_comes_from_trials_of_another_seed(
    tmp_path: Path,
    stream: Stream,  # noqa: F811
) -> None:
    sets = (*PRESSED[:2], "refine.replay_size=60", "method=uncentered", "coefficient_rule=validated")
    run = tmp_path / "run"
    start(tiny_config(*sets), run, stream=stream, resources=each_step(tmp_path / "cache"))
    balanced, chosen = events(run, "coefficient")
    assert chosen["coefficient"] == chosen["multiple"] * balanced["coefficient"]
    assert [one["multiple"] for one in chosen["candidates"]][:6] == [1, 3, 10, 30, 100, 300]
    trials = sorted(path.name for path in next((tmp_path / "cache" / "trials").iterdir()).iterdir())
    assert len([name for name in trials if not name.startswith(".")]) >= 7


def test_the_best_multiple_keeps_newcomers_and_is_the_smallest_of_equals() -> None:
    replay = Candidate(0.0, 0.10, 0.20)
    made = [
        Candidate.against(replay, 1.0, 0.11, 0.20),
        Candidate.against(replay, 3.0, 0.12, 0.196),
        Candidate.against(replay, 10.0, 0.12, 0.1951),
        Candidate.against(replay, 30.0, 0.15, 0.10),
    ]
    assert best_multiple(made) == 3.0
    assert best_multiple(made[3:]) == 0.0
