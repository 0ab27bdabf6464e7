"""What frozen rows leave out is counted, and said before training; new relation rows are trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.quiet_streams import FACTS, GROWS, RELATION, quiet_stream
from tests.tiny_run import each_step, tiny_config

from meor.hosts import HOSTS, Replay
from meor.run.prepare import remarks, unlearned
from meor.run.session import start
from meor.run.trainer import Resources, Watcher
from meor.run.view import RunView
from meor.training.host import Stage, Update


class Mover(Replay):
    """A host that trains every row."""

    name = "mover"

    def stages(self, update: Update) -> Iterator[Stage]:
        yield Stage(self.plan_of(update), 0, 0)


class Listening(Watcher):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def say(self, text: str) -> None:
        self.heard.append(text)

    def phase(self, name: str, update: int, *, done: int = 0, total: int = 0) -> None:
        self.heard.append(f"phase {name}")


def test_facts_that_meet_only_frozen_rows_are_counted() -> None:
    stream = quiet_stream((FACTS, RELATION, GROWS))
    updates = [Update.of(stream, number) for number in stream.updates]
    assert [unlearned(update, Replay()) for update in updates] == [len(updates[0].train), 0, 0]
    assert [unlearned(update, Mover()) for update in updates] == [0, 0, 0]


def test_hosts_that_would_learn_them_are_named_from_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = quiet_stream((GROWS, FACTS))
    _, frozen = remarks(stream, Replay())
    missed = len(stream.snapshots[2].train)
    assert f"frozen under host replay, so {missed} facts between known entities" in frozen
    assert "fine-tune, ewc, emr, lkge, incde and retrain would learn them (--host)" in frozen
    for name in [name for name in HOSTS if name != "replay"]:
        monkeypatch.delitem(HOSTS, name)
    _, frozen = remarks(stream, Replay())
    assert "none of the registered hosts (replay) moves old rows" in frozen
    monkeypatch.setitem(HOSTS, "mover", Mover)
    _, frozen = remarks(stream, Replay())
    assert "mover would learn them" in frozen
    assert len(remarks(stream, Mover())) == 1, "a host that learns them has nothing to say about them"


def test_a_stream_whose_updates_all_learn_everything_has_no_remark() -> None:
    assert remarks(quiet_stream((GROWS, GROWS)), Replay()) == []


def test_many_updates_are_counted_not_listed() -> None:
    quiet, frozen = remarks(quiet_stream((FACTS,) * 7), Replay())
    assert "1, 2, 3, 4, 5 and 2 more admit no entity" in quiet
    assert "and 2 more) are recorded" in frozen


def test_it_is_said_before_the_base_is_trained_and_stands_in_the_log(tmp_path: Path) -> None:
    watcher = Listening()
    stream = quiet_stream((FACTS,))
    start(
        tiny_config(),
        tmp_path / "run",
        stream=stream,
        resources=Resources(cache=tmp_path / "cache"),
        watcher=watcher,
    )
    said = [at for at, text in enumerate(watcher.heard) if "recorded but not learned" in text]
    assert len(said) == 1
    assert said[0] < watcher.heard.index("phase base")
    warned = [
        event["text"] for event in RunView.open(tmp_path / "run").events() if event["event"] == "warning"
    ]
    assert watcher.heard[said[0]] in warned


def test_a_new_relation_between_old_entities_is_trained_and_nothing_else_moves(tmp_path: Path) -> None:
    stream = quiet_stream((RELATION,))
    start(tiny_config(), tmp_path / "run", stream=stream, resources=each_step(tmp_path / "cache"))
    view = RunView.open(tmp_path / "run")
    before, after = view.model(0), view.model(1)
    assert torch.equal(before.entity, after.entity)
    assert torch.equal(before.relation, after.relation[:3])
    (updated,) = (event for event in view.events() if event["event"] == "updated")
    assert updated["steps"] > 0

    untrained = quiet_stream((RELATION,))
    start(
        tiny_config("refine.learning_rate=1e-12"),
        tmp_path / "still",
        stream=untrained,
        resources=each_step(tmp_path / "cache"),
    )
    initial = RunView.open(tmp_path / "still").model(1).relation[3]
    assert (after.relation[3] - initial).norm() > 1e-2
