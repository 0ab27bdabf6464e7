"""What a damaged file of a run costs: a sentence, and at most what can be made again."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from tests.run.test_control import PRESSED
from tests.tiny_run import Hasty, each_step, results, tiny_config, tiny_stream

from meor.errors import MeorError, ModelError, RunError
from meor.evaluation.foreign_file import read_array
from meor.run.session import resume, start
from meor.run.trainer import Watcher
from meor.run.view import RunView, model_from
from meor.storage.disk import ListedFiles
from meor.storage.json_file import parse_json
from meor.storage.tensors import unpack_tensors
from meor.stream.snapshot import Stream

HASTY = Hasty()


class Told(Watcher):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def stream() -> Stream:
    return tiny_stream()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, stream: Stream) -> Path:
    """A run with a penalty, so that a replay model is kept in the cache beside its base."""
    root = tmp_path_factory.mktemp("finished")
    made(root / "run", stream, root / "cache")
    return root


def made(run: Path, stream: Stream, cache: Path, watcher: Watcher | None = None) -> dict[str, Any]:
    config = tiny_config("method=meor")
    return start(config, run, stream=stream, disk=HASTY, resources=each_step(cache), watcher=watcher)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("how", [flip, Path.unlink])
def test_a_damaged_vocabulary_is_said_and_made_again(
    tmp_path: Path, stream: Stream, finished: Path, complete: bool, how: Callable[[Path], None]
) -> None:
    run, told = tmp_path / "run", Told()
    shutil.copytree(finished / "run", run)
    if not complete:
        manifest = json.loads((run / "manifest.json").read_text())
        manifest["complete"] = False
        manifest["sha256"] = {k: v for k, v in manifest["sha256"].items() if not k.startswith("update-2")}
        (run / "manifest.json").write_text(json.dumps(manifest))
    how(run / "vocabulary.parquet")
    with pytest.raises(RunError, match=r"vocabulary\.parquet .*`meor resume .*` makes it again"):
        RunView.open(run).labels("entity")
    resume(run, stream=stream, disk=HASTY, resources=each_step(finished / "cache"), watcher=told)
    assert any("vocabulary.parquet" in text and "made again from the stream" in text for text in told.said)
    assert RunView.open(run).labels("entity") == list(stream.entities)
    assert results(run) == results(finished / "run")


def test_damaged_settings_are_refused_with_what_to_do_and_nothing_is_changed(
    tmp_path: Path, stream: Stream, finished: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished / "run", run)
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("backbone: complex", "backbone: distmult"))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"}
    for read in (RunView.open, lambda run: resume(run, stream=stream, disk=HASTY)):
        with pytest.raises(
            RunError, match=r"config\.yaml .*put the file back as it was, or start the run again"
        ):
            read(run)
    assert {path: path.read_bytes() for path in before} == before


def test_a_damaged_log_is_said_and_kept(tmp_path: Path, stream: Stream, finished: Path) -> None:
    run, told = tmp_path / "run", Told()
    shutil.copytree(finished / "run", run)
    flip(run / "log.jsonl")
    with pytest.raises(RunError, match=r"log\.jsonl .*cannot be made again"):
        list(RunView.open(run).events())
    resume(run, stream=stream, disk=HASTY, resources=each_step(finished / "cache"), watcher=told)
    assert any("log.jsonl" in text and "kept as it is" in text for text in told.said)
    assert list(RunView.open(run).events())


@pytest.mark.parametrize("name", ["update-1/ranks.parquet", "update-1/records.parquet", "vocabulary.parquet"])
def test_every_flipped_bit_is_noticed_before_the_file_is_decoded(
    tmp_path: Path, finished: Path, name: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished / "run", run)
    data = (run / name).read_bytes()
    reads: dict[str, Callable[[RunView], object]] = {
        "update-1/ranks.parquet": lambda view: view.ranks(1),
        "update-1/records.parquet": lambda view: view.table(name, ["tau"]),
        "vocabulary.parquet": lambda view: view.labels("entity"),
    }
    for position in np.random.default_rng(1).integers(8 * len(data), size=200):
        damaged = bytearray(data)
        damaged[position // 8] ^= 1 << (position % 8)
        (run / name).write_bytes(damaged)
        with pytest.raises(RunError, match="sha256"):
            reads[name](RunView.open(run))


def test_a_reader_hashes_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    files = ListedFiles(tmp_path, {"a": hashlib.sha256(b"abc").hexdigest()}, lambda _: "")
    hashed = []
    real = hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", lambda data: hashed.append(data) or real(data))
    assert [files.read("a") for _ in range(3)] == [b"abc"] * 3
    assert len(hashed) == 1


# The cache


def entry(cache: Path, rows: int) -> Path:
    """The stored model of so many entities: 24 is the base, 32 the first replay update."""
    (found,) = (
        path.parent
        for path in (cache / "base").glob("*/model.safetensors")
        if len(safetensors.torch.load_file(path)["entity"]) == rows
    )
    return found


def put(folder: Path, tensors: dict[str, torch.Tensor] | bytes, meta: bytes | None = None) -> None:
    """Another content under a manifest that fits it."""
    packed = tensors if isinstance(tensors, bytes) else safetensors.torch.save(tensors)
    files = {"model.safetensors": packed, "meta.json": meta or (folder / "meta.json").read_bytes()}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    (folder / "manifest.json").write_text(json.dumps(hashes))


Tables = dict[str, torch.Tensor]
WRONG: dict[str, Callable[[Tables], Tables | bytes]] = {
    "fewer rows": lambda good: {**good, "entity": good["entity"][:-1].contiguous()},
    "more relations": lambda good: {**good, "relation": good["relation"].repeat(2, 1)},
    "another width": lambda good: {name: table[:, :-2].contiguous() for name, table in good.items()},
    "another type": lambda good: {name: table.to(torch.float32) for name, table in good.items()},
    "other names": lambda good: {"rows": good["entity"], "relation": good["relation"]},
    "one table": lambda good: {"entity": good["entity"]},
    "three dimensions": lambda good: {name: table[None].contiguous() for name, table in good.items()},
    "not a number": lambda good: {**good, "entity": torch.full_like(good["entity"], float("nan"))},
    "infinity": lambda good: {**good, "relation": torch.full_like(good["relation"], float("inf"))},
    "whole numbers": lambda good: {name: table.to(torch.int64) for name, table in good.items()},
    "no safetensors": lambda _: b"\x80\x04nonsense",
    "empty": lambda _: b"",
    "no rows": lambda good: {name: table[:0].contiguous() for name, table in good.items()},
}


@pytest.mark.parametrize("rows", [24, 32], ids=["base", "replay"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_stored_model_that_does_not_fit_costs_a_training_and_is_replaced(
    tmp_path: Path, stream: Stream, finished: Path, rows: int, wrong: str
) -> None:
    cache, told = tmp_path / "cache", Told()
    shutil.copytree(finished / "cache", cache)
    stored = entry(cache, rows)
    good = (stored / "model.safetensors").read_bytes()
    put(stored, WRONG[wrong](safetensors.torch.load(good)))
    made(tmp_path / "run", stream, cache, told)
    assert len([text for text in told.said if "is not used, and trained again" in text]) == 1
    assert results(tmp_path / "run") == results(finished / "run")
    assert (stored / "model.safetensors").read_bytes() == good


@pytest.mark.parametrize(
    "meta", [b"[]", b"null", b"{}", b'{"event": 1}', b'{"steps": NaN}', b"{", b'{"update": 1, "time": 2}']
)
def test_what_is_told_of_a_stored_model_costs_a_training_too(
    tmp_path: Path, stream: Stream, finished: Path, meta: bytes
) -> None:
    cache, told = tmp_path / "cache", Told()
    shutil.copytree(finished / "cache", cache)
    stored = entry(cache, 24)
    put(stored, (stored / "model.safetensors").read_bytes(), meta)
    made(tmp_path / "run", stream, cache, told)
    assert sum("is not used" in text for text in told.said) == 1
    assert results(tmp_path / "run") == results(finished / "run")


@pytest.mark.parametrize("name", ["config.yaml", "manifest.json"])
def test_a_damaged_trial_is_made_again_and_not_the_end_of_the_run(
    tmp_path: Path, stream: Stream, name: str
) -> None:
    cache, told = tmp_path / "cache", Told()
    config = tiny_config("method=uncentered", "coefficient_rule=validated", *PRESSED)
    for run, watcher in ((tmp_path / "one", None), (tmp_path / "two", told)):
        for trial in (cache / "trials").glob("*/none"):
            (trial / name).write_text("spoiled: [")
        start(config, run, stream=stream, disk=HASTY, resources=each_step(cache), watcher=watcher)
    assert any("the trial" in text and "is made again" in text for text in told.said)
    assert results(tmp_path / "one") == results(tmp_path / "two")


# Decoders


@pytest.mark.parametrize("kind", ["F64", "F32", "BF16", "F8_E4M3", "U64", "BOOL", "C64"])
@pytest.mark.parametrize(
    "shape", [[0, 2**60], [2**60, 0], [0, 2**63], [0, 2**64 - 1], [0, 2**31, 2**31], [0] * 70]
)
def test_a_safetensors_file_of_an_impossible_shape_is_a_typed_error(
    tmp_path: Path, kind: str, shape: list[int]
) -> None:
    claim = {"dtype": kind, "shape": shape, "data_offsets": [0, 0]}
    head = json.dumps({"entity": claim, "relation": claim}).encode()
    data = struct.pack("<Q", len(head)) + head
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(RunError, match=r"model\.safetensors"):
        model_from(data, path, "complex")
    with suppress(ModelError):
        assert read_array(path, "entity").size == 0  # refused by its caller, who wants rows


@pytest.mark.parametrize(
    "text", [b"NaN", b'{"a": -Infinity}', b"[" * 100_000, b"\xff", b'"\\ud800', b"1" * 5000]
)
def test_json_that_is_none_is_a_typed_error_with_its_file_and_what_helps(text: bytes) -> None:
    with pytest.raises(RunError, match=r"x\.json is not valid JSON.*Remove it"):
        parse_json(text, Path("x.json"))


def test_random_bytes_are_never_an_untyped_error() -> None:
    rng = np.random.default_rng(5)
    good = safetensors.torch.save({"entity": torch.ones(3, 4), "relation": torch.ones(2, 4)})
    for _ in range(400):
        damaged = bytearray(good)
        for position in rng.integers(len(good), size=2):
            damaged[position] ^= 1 << int(rng.integers(8))
        try:
            unpack_tensors(bytes(damaged), Path("x"))
        except MeorError:
            continue
