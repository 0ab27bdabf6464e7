"""A store whose host moves old rows: facts between known entities are learned, and moving is told apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.extend import document
from tests.tiny_run import tiny_config, tiny_stream

from meor.hosts import HOSTS
from meor.store.admit import Request, admit
from meor.store.create import content_of_facts
from meor.store.folder import Store, create
from meor.store.settings import GateSettings


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setitem(HOSTS, "pull-back", None)  # so that it is gone after the test
    document("host", lines=40)
    stream = tiny_stream()
    lines = [
        f"{stream.entities.label(h)}\t{stream.relations.label(r)}\t{stream.entities.label(t)}\n"
        for h, r, t in stream.snapshots[0].train.tolist()
    ]
    (tmp_path / "base.tsv").write_text("".join(lines))
    config = tiny_config("host={name: pull-back, pull: 0.01}", "refine.learning_rate=0.1")
    create(tmp_path / "store", content_of_facts(tmp_path / "base.tsv", config, GateSettings(budget=1.0)))
    return tmp_path / "store"


def test_facts_between_known_entities_are_learned(moving: Path, tmp_path: Path) -> None:
    (tmp_path / "old.tsv").write_text("e0\tr0\te20\ne1\tr0\te21\n")
    before = Store(moving).version()
    told = admit(moving, Request(tmp_path / "old.tsv")).verdict
    after = Store(moving).version()
    assert told["learned"]["steps"] > 0
    assert told["learned"]["facts_not_learned"] == 0
    assert not torch.equal(before.model().entity, after.model().entity)
    assert told["endpoints"]["D_MCI"] == 0  # nobody came; what moving rows cost stands beside it
    assert told["endpoints"]["H_before"] != told["endpoints"]["H_old"]


def test_the_base_is_kept_where_the_model_has_moved_away_from_it(moving: Path, tmp_path: Path) -> None:
    first = Store(moving).version().content()
    (tmp_path / "new.tsv").write_text("e0\tr0\tnew\nnew\tr1\te3\n")
    for number in range(2):
        (tmp_path / "new.tsv").write_text(f"e0\tr0\tnew{number}\nnew{number}\tr1\te3\n")
        admit(moving, Request(tmp_path / "new.tsv"))
    version = Store(moving).version()
    assert "base.safetensors" in version.manifest["sha256"]
    content = version.content()
    assert torch.equal(content.base.entity, first.model.entity)
    assert not torch.equal(content.model.entity[:24], first.model.entity)
    version.check()
