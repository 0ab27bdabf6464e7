from __future__ import annotations

from pathlib import Path

import pytest
import torch

from meor.errors import RunError
from meor.run.checkpoint import Checkpoint, Checkpoints
from meor.storage.tensors import pack_tensors


def checkpoint(update: int, step: int) -> Checkpoint:
    seeded = torch.Generator().manual_seed(update * 1000 + step)
    return Checkpoint(
        update,
        step,
        {"entity": torch.randn(5, 4, generator=seeded, dtype=torch.float64)},
        {"adam.steps": torch.tensor(float(step), dtype=torch.float64)},
        {"cursor": {"step": step, "best_mrr": 0.1 + 0.2}},
    )


def test_what_is_loaded_is_what_was_saved_to_the_bit(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "hash")
    saved = checkpoint(1, 7)
    store.save(saved)
    loaded = store.load("1-7")
    assert torch.equal(loaded.model["entity"], saved.model["entity"])
    assert torch.equal(loaded.optim["adam.steps"], saved.optim["adam.steps"])
    assert loaded.state == saved.state


def test_at_least_two_are_kept_and_latest_names_the_newest(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "hash")
    for step in (8, 9, 10, 11):  # 10 after 9: by number, not by name
        store.save(checkpoint(0, step))
    assert store.names() == ["0-10", "0-11"]
    assert (tmp_path / "LATEST").read_text() == "0-11\n"


def test_a_checkpoint_names_its_parent(tmp_path: Path) -> None:
    import hashlib
    import json

    store = Checkpoints(tmp_path, "hash")
    saved = [store.save(checkpoint(0, step)) for step in (1, 2, 3)]
    parents = [json.loads((one / "manifest.json").read_text())["parent"] for one in saved[1:]]
    assert parents[1] == hashlib.sha256((saved[1] / "manifest.json").read_bytes()).hexdigest()
    assert parents[0] != parents[1]


def test_the_newest_that_verifies_is_used_and_the_damaged_one_is_spoken_of(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "hash")
    store.save(checkpoint(2, 1))
    store.save(checkpoint(2, 2))
    (tmp_path / "2-2" / "optim.safetensors").write_bytes(b"")
    said: list[str] = []
    found = store.newest(update=2, say=said.append)
    assert found is not None
    assert found.name == "2-1"
    assert "2-2" in said[0]


def test_checkpoints_of_other_updates_are_no_answer(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, "hash")
    store.save(checkpoint(1, 5))
    assert store.newest(update=2, say=lambda text: None) is None


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    Checkpoints(tmp_path, "hash").save(checkpoint(1, 5))
    with pytest.raises(RunError, match="other settings"):
        Checkpoints(tmp_path, "another").load("1-5")


def test_equal_tensors_pack_to_equal_bytes_without_metadata() -> None:
    first = {"entity": torch.ones(2, 3), "relation": torch.zeros(1, 3)}
    second = {"relation": torch.zeros(1, 3), "entity": torch.ones(2, 3)}
    assert pack_tensors(first) == pack_tensors(second)
    assert b"__metadata__" not in pack_tensors(first)


def test_what_is_on_disk_has_format_1_and_any_other_is_refused(tmp_path: Path) -> None:
    import json

    store = Checkpoints(tmp_path, "hash")
    path = store.save(checkpoint(3, 4)) / "manifest.json"
    manifest = json.loads(path.read_text())
    assert {key: manifest[key] for key in ("format", "update", "step", "config_hash", "parent")} == {
        "format": 1,
        "update": 3,
        "step": 4,
        "config_hash": "hash",
        "parent": None,
    }
    for other in (0, 2, None):
        path.write_text(json.dumps({**manifest, "format": other}))
        with pytest.raises(RunError, match="format 1"):
            store.load("3-4")
