"""C2, C3, C4, F3: a checkpoint is whole, or absent, or refused; never silently wrong."""

from __future__ import annotations

import errno
import hashlib
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from tests.failing_disk import Crash, FailingDisk
from tests.tiny_run import Hasty

from meor.errors import RunError
from meor.run.checkpoint import MODEL, OPTIM, STATE, Checkpoint, Checkpoints


def checkpoint(step: int) -> Checkpoint:
    values = torch.arange(12, dtype=torch.float64).reshape(3, 4) + step
    return Checkpoint(1, step, {"entity": values}, {"adam.m": values * 2}, {"step": step})


def saved(folder: Path, steps: range) -> Checkpoints:
    store = Checkpoints(folder, "hash", disk=Hasty())
    for step in steps:
        store.save(checkpoint(step))
    return store


def calls_of_a_save(folder: Path, before: range) -> int:
    saved(folder, before)
    disk = FailingDisk(None, Crash())
    Checkpoints(folder, "hash", disk=disk).save(checkpoint(before.stop))
    return disk.calls


def newest_step(folder: Path) -> int:
    said: list[str] = []
    found = Checkpoints(folder, "hash").newest(update=1, say=said.append)
    assert said == [], "a crash must not leave anything that has to be stepped over"
    return -1 if found is None else int(found.state["step"])


@pytest.mark.parametrize("before", [range(0), range(1), range(3)], ids=["first", "second", "later"])
@pytest.mark.parametrize("how", ["before the call", "after the call", "half written"])
def test_c2_after_a_crash_at_any_call_the_old_or_the_new_checkpoint_is_there(
    tmp_path: Path, before: range, how: str
) -> None:
    calls = calls_of_a_save(tmp_path / "count", before)
    assert calls >= 14
    for at in range(1, calls + 1):
        folder = tmp_path / str(at)
        saved(folder, before)
        disk = FailingDisk(at, Crash(), after=how != "before the call", torn=how == "half written")
        with pytest.raises(Crash):
            Checkpoints(folder, "hash", disk=disk).save(checkpoint(before.stop))
        assert newest_step(folder) in {before.stop, before.stop - 1}, f"call {at}"
        Checkpoints(folder, "hash", disk=Hasty()).save(checkpoint(before.stop))
        assert newest_step(folder) == before.stop
        Checkpoints(folder, "hash", disk=Hasty()).save(checkpoint(before.stop + 1))
        assert newest_step(folder) == before.stop + 1
        assert len(Checkpoints(folder, "hash").names()) == 2


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_c3_when_the_disk_refuses_any_call_the_error_is_a_sentence_and_the_previous_one_loads(
    tmp_path: Path, code: int
) -> None:
    calls = calls_of_a_save(tmp_path / "count", range(2))
    for at in range(1, calls + 1):
        folder = tmp_path / str(at)
        saved(folder, range(2))
        disk = FailingDisk(at, OSError(code, "refused"))
        with pytest.raises(RunError, match="meor resume"):
            Checkpoints(folder, "hash", disk=disk).save(checkpoint(2))
        assert newest_step(folder) in {1, 2}
        assert not [path for path in folder.iterdir() if path.name.endswith(".tmp") and path.is_dir()]


@pytest.mark.parametrize("part", [MODEL, OPTIM, STATE, "manifest.json"])
def test_c4_every_truncation_is_noticed(tmp_path: Path, part: str) -> None:
    store = saved(tmp_path, range(2))
    target = tmp_path / "1-1" / part
    whole = target.read_bytes()
    for length in sorted({len(whole) * k // 64 for k in range(64)}):
        target.write_bytes(whole[:length])
        said: list[str] = []
        found = store.newest(update=1, say=said.append)
        assert found is not None
        assert found.step == 0
        assert len(said) == 1


@pytest.mark.parametrize("part", [MODEL, OPTIM, STATE, "manifest.json"])
def test_c4_a_flipped_bit_is_noticed_or_changes_nothing(tmp_path: Path, part: str) -> None:
    store = saved(tmp_path, range(2))
    target = tmp_path / "1-1" / part
    whole = target.read_bytes()
    rng = np.random.default_rng(4)
    for position in rng.integers(0, 8 * len(whole), 2000):
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << (position % 8)
        target.write_bytes(bytes(damaged))
        try:
            found = store.load("1-1")
        except RunError:
            continue
        else:  # the manifest has bytes that mean nothing: spaces, the parent's hash
            assert part == "manifest.json"
            assert torch.equal(found.model["entity"], checkpoint(1).model["entity"])
            assert found.state == {"step": 1}


def header(size: int, content: bytes) -> bytes:
    return struct.pack("<Q", size) + content


def tensors_with_header(layout: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(layout).encode()
    return header(len(text), text + data)


class Canary:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def _f64(begin: int, end: int, shape: list[int]) -> dict[str, Any]:
    return {"dtype": "F64", "shape": shape, "data_offsets": [begin, end]}


def hostile(canary: Path) -> dict[str, tuple[str, bytes]]:
    """Files an attacker may plant, with a manifest that agrees with them."""
    model: dict[str, bytes] = {
        "a pickle": pickle.dumps(Canary(canary)),
        "a pickle behind a header": header(8, pickle.dumps(Canary(canary))),
        "a header of 2^63 bytes": header(2**63, b"{}"),
        "a header of 2^64-1 bytes": header(2**64 - 1, b"{}"),
        "overlapping tensors": tensors_with_header({"a": _f64(0, 16, [2]), "b": _f64(8, 24, [2])}, bytes(24)),
        "offsets outside the file": tensors_with_header({"a": _f64(0, 1 << 40, [1 << 37])}, bytes(16)),
        "a shape that overflows": tensors_with_header({"a": _f64(0, 16, [2**62, 2**62])}, bytes(16)),
        "offsets that go backwards": tensors_with_header({"a": _f64(16, 0, [2])}, bytes(16)),
        "an unknown dtype": tensors_with_header({"a": {**_f64(0, 16, [2]), "dtype": "OBJECT"}}, bytes(16)),
        "NaN weights": save({"entity": torch.tensor([1.0, float("nan")])}),
        "infinite weights": save({"entity": torch.tensor([1.0, float("inf")])}),
        "nothing": b"",
        "a header that is no JSON": header(4, b"\xff\xfe{}"),
    }
    cases = {name: (MODEL, data) for name, data in model.items()}
    cases["a state that is a list"] = (STATE, b"[]")
    cases["a state nested without end"] = (STATE, b"[" * 100_000)
    return cases


@pytest.mark.parametrize("name", list(hostile(Path("unused"))))
def test_f3_a_hostile_part_is_a_typed_error_though_its_manifest_agrees(tmp_path: Path, name: str) -> None:
    canary = tmp_path / "canary"
    part, data = hostile(canary)[name]
    store = saved(tmp_path / "steps", range(1))
    (tmp_path / "steps" / "1-0" / part).write_bytes(data)
    rewrite_manifest(tmp_path / "steps" / "1-0", part, data)
    with pytest.raises(RunError):
        store.load("1-0")
    assert not canary.exists()


@pytest.mark.parametrize("listed", ["/etc/passwd", "../outside", "model.safetensors/../x", ""])
def test_f3_a_manifest_that_points_elsewhere_is_refused(tmp_path: Path, listed: str) -> None:
    store = saved(tmp_path, range(1))
    manifest = json.loads((tmp_path / "1-0" / "manifest.json").read_text())
    manifest["files"][listed] = manifest["files"].pop(MODEL)
    (tmp_path / "1-0" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="exactly"):
        store.load("1-0")


def test_f3_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    store = saved(tmp_path, range(1))
    for name in ("../1-0", "1-0/..", "/1-0", "1-0.tmp", "01-0", ""):
        with pytest.raises(RunError, match="not the name"):
            store.load(name)


def rewrite_manifest(folder: Path, part: str, data: bytes) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][part] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
