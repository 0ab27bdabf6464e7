from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.tiny_run import Hasty, begin_or_go_on, each_step, results, tiny_config, tiny_stream

from meor.errors import ConfigError, MemoryBudgetError, RunError, StreamError
from meor.evaluation.rank import rank_update
from meor.run.session import resume, start
from meor.run.trainer import Resources, Watcher
from meor.run.view import RunView
from meor.stream.files import write_stream
from meor.stream.snapshot import Stream

HASTY = Hasty()
BACKBONES = ("complex", "distmult", "transe")


class Stopped(BaseException):
    pass


class StopAt(Watcher):
    """Stops a run, as a signal would, when something has been reported for the n-th time."""

    def __init__(self, n: int | None = None) -> None:
        self.n, self.seen, self.said = n, 0, list[str]()

    def _tick(self) -> None:
        self.seen += 1
        if self.seen == self.n:
            raise Stopped

    def step(self, done: int, loss: float) -> None:
        self._tick()

    def phase(self, name: str, update: int, *, done: int = 0, total: int = 0) -> None:
        self._tick()

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def stream() -> Stream:
    return tiny_stream()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, stream: Stream) -> Callable[..., Path]:
    """An uninterrupted run for some settings, made once."""
    made: dict[tuple[str, ...], Path] = {}

    def run(*sets: str) -> Path:
        if sets not in made:
            folder = tmp_path_factory.mktemp("whole")
            start(
                tiny_config(*sets),
                folder / "run",
                stream=stream,
                disk=HASTY,
                resources=each_step(folder / "cache"),
            )
            made[sets] = folder / "run"
        return made[sets]

    return run


def files_of(run: Path) -> set[str]:
    return {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}


def test_a_finished_run_holds_exactly_the_files_of_the_contract(whole: Callable[..., Path]) -> None:
    run = whole()
    expected = {"config.yaml", "log.jsonl", "vocabulary.parquet", "endpoints.json", "manifest.json"}
    expected |= {f"update-{u}/model.safetensors" for u in range(3)} | {
        f"update-{u}/ranks.parquet" for u in (1, 2)
    }
    assert files_of(run) == expected
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["complete"] is True
    assert set(manifest["sha256"]) == expected - {"manifest.json"}
    for name in manifest["sha256"]:
        RunView.open(run).verified(name)


def test_weights_carry_no_metadata_and_results_no_time_or_path(whole: Callable[..., Path]) -> None:
    run = whole()
    for path in sorted(run.rglob("*")):
        if path.suffix in {".safetensors", ".parquet"} or path.name == "endpoints.json":
            content = path.read_bytes()
            assert b"__metadata__" not in content
            assert str(run).encode() not in content
    assert set(load_file(run / "update-1" / "model.safetensors")) == {"entity", "relation"}


def test_anyone_can_recompute_the_ranks_from_weights_and_stream(
    whole: Callable[..., Path], stream: Stream
) -> None:
    view = RunView.open(whole())
    for update in stream.updates:
        stored = next(iter(view.ranks(update).values()))
        recomputed = rank_update(stream, view.model(update), update)
        for each, other in zip(stored, recomputed, strict=True):
            np.testing.assert_array_equal(each.cur, other.cur)
            np.testing.assert_array_equal(each.old, other.old)


def test_old_rows_are_bit_identical_through_every_update(whole: Callable[..., Path], stream: Stream) -> None:
    view = RunView.open(whole())
    for update in stream.updates:
        old, new = view.model(update - 1), view.model(update)
        assert torch.equal(old.entity, new.entity[: old.n_entities])
        assert torch.equal(old.relation, new.relation[: old.n_relations])
        assert not torch.equal(new.entity[old.n_entities :], torch.zeros_like(new.entity[old.n_entities :]))


@pytest.mark.parametrize("backbone", BACKBONES)
def test_r1_a_run_resumed_at_any_step_or_phase_ends_with_the_same_bytes(
    tmp_path: Path, stream: Stream, whole: Callable[..., Path], backbone: str
) -> None:
    sets = (f"backbone={backbone}",)
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
    assert counted.seen > 15
    for n in range(1, counted.seen + 1):
        run, resources = tmp_path / str(n), each_step(tmp_path / f"cache-{n}")
        with pytest.raises(Stopped):
            start(tiny_config(*sets), run, stream=stream, disk=HASTY, resources=resources, watcher=StopAt(n))
        resume(run, stream=stream, disk=HASTY, resources=resources)
        assert results(run) == expected, f"stopped at {n}"
        events = [event for event in RunView.open(run).events() if event["event"] == "resumed"]
        assert len(events) == 1
        assert {"update", "step"} <= set(events[0])


def test_resumed_names_the_step_it_went_on_from(tmp_path: Path, stream: Stream) -> None:
    resources = each_step(tmp_path / "cache")
    with pytest.raises(Stopped):
        start(
            tiny_config(),
            tmp_path / "run",
            stream=stream,
            disk=HASTY,
            resources=resources,
            watcher=StopAt(5),
        )
    newest = (tmp_path / "run" / "steps" / "LATEST").read_text().strip()
    resume(tmp_path / "run", stream=stream, disk=HASTY, resources=resources)
    (event,) = (each for each in RunView.open(tmp_path / "run").events() if each["event"] == "resumed")
    assert f"{event['update']}-{event['step']}" == newest


def test_a_run_stopped_again_and_again_ends_with_the_same_bytes(
    tmp_path: Path, stream: Stream, whole: Callable[..., Path]
) -> None:
    resources, run = each_step(tmp_path / "cache"), tmp_path / "run"
    with pytest.raises(Stopped):
        start(tiny_config(), run, stream=stream, disk=HASTY, resources=resources, watcher=StopAt(2))
    for _ in range(100):
        try:
            resume(run, stream=stream, disk=HASTY, resources=resources, watcher=StopAt(3))
            break
        except Stopped:
            continue
    assert results(run) == results(whole())


def test_r2_processes_that_share_a_cache_do_not_change_a_byte(
    tmp_path: Path, whole: Callable[..., Path]
) -> None:
    write_stream(tiny_stream(), tmp_path / "ring")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["meor.run.session"])
    for count in (1, 2, 4):
        runs = [tmp_path / f"{count}-{index}" for index in range(count)]
        cache = tmp_path / f"cache-{count}"
        jobs = [context.Process(target=begin_or_go_on, args=(run, tmp_path / "ring", cache)) for run in runs]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        for run in runs:
            assert results(run) == results(whole())
        sources = [e["source"] for run in runs for e in RunView.open(run).events() if e["event"] == "base"]
        assert sorted(sources) == ["cache"] * (count - 1) + ["trained"]


def test_r4_threads_memory_and_checkpoints_do_not_change_a_byte(
    tmp_path: Path, stream: Stream, whole: Callable[..., Path]
) -> None:
    variants: list[dict[str, Any]] = [{"threads": 2}, {"memory": 1 << 23}, {"checkpoint_seconds": 1e9}]
    for index, changes in enumerate(variants):
        run = tmp_path / str(index)
        start(
            tiny_config(),
            run,
            stream=stream,
            disk=HASTY,
            resources=Resources(cache=tmp_path / f"c{index}", **changes),
        )
        assert results(run) == results(whole())


def test_r4_what_the_process_trained_before_does_not_change_a_byte(
    tmp_path: Path, stream: Stream, whole: Callable[..., Path]
) -> None:
    """A resumed process has not trained the earlier updates: leftovers of larger batches must not matter."""
    for name, sets in (("larger", ("base.batch=64", "refine.batch=64")), ("again", ())):
        resources = each_step(tmp_path / f"cache-{name}")
        start(tiny_config(*sets), tmp_path / name, stream=stream, disk=HASTY, resources=resources)
    fresh = multiprocessing.get_context("spawn")
    write_stream(stream, tmp_path / "ring")
    job = fresh.Process(
        target=begin_or_go_on, args=(tmp_path / "fresh", tmp_path / "ring", tmp_path / "cache")
    )
    job.start()
    job.join()
    assert results(tmp_path / "again") == results(tmp_path / "fresh")


def test_evaluating_some_updates_or_splits_does_not_change_the_models(
    tmp_path: Path, stream: Stream, whole: Callable[..., Path]
) -> None:
    sets = ("evaluation.updates=[2]", "evaluation.split=[valid,test]", "evaluation.sides=tail")
    found = start(
        tiny_config(*sets),
        tmp_path / "run",
        stream=stream,
        disk=HASTY,
        resources=each_step(tmp_path / "cache"),
    )
    assert set(found) == {"valid", "test"}
    assert [cell["side"] for cell in found["test"]["H_cur"]["cells"]] == ["tail"]
    assert "update-1/ranks.parquet" not in files_of(tmp_path / "run")
    stored, expected = results(tmp_path / "run"), results(whole())
    for name in ("update-1/model.safetensors", "update-2/model.safetensors"):
        assert stored[name] == expected[name]


def test_float32_runs_and_keeps_float32_rows(tmp_path: Path, stream: Stream) -> None:
    start(
        tiny_config("dtype=float32"),
        tmp_path / "run",
        stream=stream,
        disk=HASTY,
        resources=each_step(tmp_path / "cache"),
    )
    assert RunView.open(tmp_path / "run").model(2).entity.dtype == torch.float32


def test_a_base_is_trained_once_and_shared_by_runs_that_differ_in_refinement(
    tmp_path: Path, stream: Stream
) -> None:
    resources = each_step(tmp_path / "cache")
    sources = []
    for index, sets in enumerate(((), ("refine.passes=1",), ("preset=paper",), ("base.epochs=2",))):
        start(tiny_config(*sets), tmp_path / str(index), stream=stream, disk=HASTY, resources=resources)
        sources += [e["source"] for e in RunView.open(tmp_path / str(index)).events() if e["event"] == "base"]
    assert sources == ["trained", "cache", "cache", "trained"]
    models = [(tmp_path / str(index) / "update-0" / "model.safetensors").read_bytes() for index in range(4)]
    assert models[0] == models[1] == models[2] != models[3]


def test_streams_with_the_same_first_snapshot_share_a_base(tmp_path: Path, stream: Stream) -> None:
    shorter = Stream(
        "shorter",
        stream.entities,
        stream.relations,
        stream.snapshots[:2],
        stream.entity_counts[:2],
        stream.relation_counts[:2],
    )
    resources = each_step(tmp_path / "cache")
    start(tiny_config(), tmp_path / "a", stream=stream, disk=HASTY, resources=resources)
    start(tiny_config(), tmp_path / "b", stream=shorter, disk=HASTY, resources=resources)
    (event,) = (each for each in RunView.open(tmp_path / "b").events() if each["event"] == "base")
    assert event["source"] == "cache"


def test_a_damaged_stored_base_is_reported_and_trained_again(
    tmp_path: Path, stream: Stream, whole: Callable[..., Path]
) -> None:
    resources = each_step(tmp_path / "cache")
    start(tiny_config(), tmp_path / "a", stream=stream, disk=HASTY, resources=resources)
    (stored,) = (tmp_path / "cache" / "base").glob("*/model.safetensors")
    data = bytearray(stored.read_bytes())
    data[-1] ^= 1
    stored.write_bytes(data)
    watcher = StopAt()
    start(tiny_config(), tmp_path / "b", stream=stream, disk=HASTY, resources=resources, watcher=watcher)
    assert "not used" in watcher.said[0]
    assert results(tmp_path / "b") == results(whole())


def test_a_cache_that_cannot_be_written_costs_a_training_and_not_the_run(
    tmp_path: Path, stream: Stream, whole: Callable[..., Path]
) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    watcher = StopAt()
    start(
        tiny_config(),
        tmp_path / "a",
        stream=stream,
        disk=HASTY,
        resources=each_step(tmp_path / "cache"),
        watcher=watcher,
    )
    assert any("shared" in text for text in watcher.said)
    assert results(tmp_path / "a") == results(whole())


def test_embeddings_made_elsewhere_stand_in_for_base_training(tmp_path: Path, stream: Stream) -> None:
    rng = np.random.default_rng(0)
    entity, relation = rng.normal(size=(24, 6)), rng.normal(size=(3, 6))
    np.save(tmp_path / "entity.npy", entity)
    np.save(tmp_path / "relation.npy", relation)
    config = tiny_config(
        f"base_model.entity={tmp_path / 'entity.npy'}", f"base_model.relation={tmp_path / 'relation.npy'}"
    )
    resources = each_step(tmp_path / "cache")
    with pytest.raises(Stopped):
        start(config, tmp_path / "run", stream=stream, disk=HASTY, resources=resources, watcher=StopAt(3))
    resume(tmp_path / "run", stream=stream, disk=HASTY, resources=resources)
    view = RunView.open(tmp_path / "run")
    assert view.config.dim == 3
    np.testing.assert_array_equal(view.model(2).entity[:24].numpy(), entity)
    assert not (tmp_path / "cache").exists()


def test_a_given_base_that_has_changed_is_refused_on_resume(tmp_path: Path, stream: Stream) -> None:
    for name, rows in (("entity", 24), ("relation", 3)):
        np.save(tmp_path / f"{name}.npy", np.ones((rows, 6)))
    config = tiny_config(
        f"base_model.entity={tmp_path / 'entity.npy'}", f"base_model.relation={tmp_path / 'relation.npy'}"
    )
    with pytest.raises(Stopped):
        start(config, tmp_path / "run", stream=stream, disk=HASTY, watcher=StopAt(2))
    np.save(tmp_path / "entity.npy", np.zeros((24, 6)))
    with pytest.raises(RunError, match="another given base"):
        resume(tmp_path / "run", stream=stream, disk=HASTY)


@pytest.mark.parametrize(
    ("sets", "changes", "error"),
    [
        (("evaluation.updates=[3]",), {}, ConfigError),
        (("refine.newcomer_init=schema",), {}, ConfigError),
        (("base_model.entity=missing.npy",), {}, Exception),
        ((), {"memory": 1000}, MemoryBudgetError),
    ],
)
def test_what_fails_on_its_input_leaves_no_folder_behind(
    tmp_path: Path, stream: Stream, sets: tuple[str, ...], changes: dict[str, int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        start(
            tiny_config(*sets),
            tmp_path / "a" / "run",
            stream=stream,
            disk=HASTY,
            resources=Resources(**changes),
        )
    assert not (tmp_path / "a").exists()


def test_a_stream_without_updates_is_refused(tmp_path: Path, stream: Stream) -> None:
    static = Stream("static", stream.entities, stream.relations, stream.snapshots[:1], (24,), (3,))
    with pytest.raises(StreamError, match="no update"):
        start(tiny_config(), tmp_path / "run", stream=static)
    assert not (tmp_path / "run").exists()


def test_a_complete_run_is_left_as_it_is(whole: Callable[..., Path], stream: Stream) -> None:
    run = whole()
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    assert resume(run, stream=stream, disk=HASTY) == RunView.open(run).endpoints()
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "name",
    ["update-0/model.safetensors", "update-1/ranks.parquet", "update-2/model.safetensors", "endpoints.json"],
)
@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_a_damaged_result_is_reported_and_made_again_to_the_same_bytes(
    tmp_path: Path, stream: Stream, whole: Callable[..., Path], name: str, how: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole(), run)
    if how == "gone":
        (run / name).unlink()
    else:
        data = bytearray((run / name).read_bytes())
        data[len(data) // 2] ^= 4
        (run / name).write_bytes(data)
    with pytest.raises(RunError, match=r"sha256|cannot be read"):
        RunView.open(run).verified(name)
    watcher = StopAt()
    resume(run, stream=stream, disk=HASTY, resources=each_step(tmp_path / "cache"), watcher=watcher)
    assert watcher.said
    assert results(run) == results(whole())


def test_a_stream_that_has_changed_is_refused(tmp_path: Path) -> None:
    write_stream(tiny_stream(), tmp_path / "ring")
    config = tiny_config(stream=tmp_path / "ring")
    with pytest.raises(Stopped):
        start(config, tmp_path / "run", resources=each_step(tmp_path / "cache"), watcher=StopAt(4))
    train = tmp_path / "ring" / "1" / "train.txt"
    train.write_text("".join(train.read_text().splitlines(keepends=True)[::-1]))
    with pytest.raises(RunError, match="changed"):
        resume(tmp_path / "run")


def test_a_folder_in_use_is_refused_and_force_replaces_runs_only(tmp_path: Path, stream: Stream) -> None:
    resources, run = each_step(tmp_path / "cache"), tmp_path / "run"
    start(tiny_config(), run, stream=stream, disk=HASTY, resources=resources)
    with pytest.raises(RunError, match="--force"):
        start(tiny_config(), run, stream=stream, disk=HASTY, resources=resources)
    (run / "notes.txt").write_text("mine")
    start(tiny_config("seed=1"), run, stream=stream, disk=HASTY, resources=resources, force=True)
    assert RunView.open(run).config.seed == 1
    assert (run / "notes.txt").read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    with pytest.raises(RunError, match="other files"):
        start(tiny_config(), other, stream=stream, disk=HASTY, resources=resources, force=True)
    assert files_of(other) == {"thesis.tex"}


def test_resume_of_something_else_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run"):
        resume(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_log_holds_row_norms_and_every_line_is_an_event(whole: Callable[..., Path]) -> None:
    events = [json.loads(line) for line in (whole() / "log.jsonl").read_text().splitlines()]
    assert [e["event"] for e in events if e["event"] in {"started", "base", "updated", "finished"}] == [
        "started",
        "base",
        "updated",
        "updated",
        "finished",
    ]
    assert {"old_mean", "new_mean"} <= set(events[-2]["row_norms"])


def test_a_stream_without_test_facts_says_before_training_that_nothing_will_be_ranked(tmp_path: Path) -> None:
    ring = tiny_stream()
    bare = replace(ring, snapshots=tuple(replace(each, test=each.test[:0]) for each in ring.snapshots))
    watcher = StopAt(1)  # stopped where training begins
    with pytest.raises(Stopped):
        start(
            tiny_config(), tmp_path / "a", stream=bare, resources=each_step(tmp_path / "c"), watcher=watcher
        )
    (said,) = [text for text in watcher.said if "nothing will be ranked on test facts" in text]
    assert "--set evaluation.split=valid" in said
    quiet = StopAt()
    start(tiny_config(), tmp_path / "b", stream=ring, resources=each_step(tmp_path / "c"), watcher=quiet)
    assert not any("ranked" in text for text in quiet.said)


@pytest.mark.parametrize("cached", [False, True])
def test_a_base_still_improving_at_its_limit_warns_and_names_the_setting(
    tmp_path: Path, stream: Stream, cached: bool
) -> None:
    def said(name: str, *sets: str) -> list[str]:
        watcher, resources = StopAt(), each_step(tmp_path / "cache")
        start(tiny_config(*sets), tmp_path / name, stream=stream, resources=resources, watcher=watcher)
        return [text for text in watcher.said if "still improving" in text]

    improving = ("base.epochs=2", "base.learning_rate=0.01", "evaluation.filter_splits=train")
    if cached:
        said("first", *improving)
    (warning,) = said("improving", *improving)
    assert "base.epochs=2" in warning
    best = json.loads(
        next(
            line
            for line in (tmp_path / "improving" / "log.jsonl").read_text().splitlines()
            if json.loads(line)["event"] == "base"
        )
    )
    assert best["validations"][-1][1] == best["best_mrr"]
    assert said("stopped", "base.epochs=60", "base.patience=1", "base.learning_rate=0.5") == []
