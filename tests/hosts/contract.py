"""What every host promises, checked for a host by its name in `HOSTS`."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tests.tiny_run import each_step, tiny_config, tiny_stream
from torch import Tensor

from meor.evaluation.tally import DEFAULT_MEMORY
from meor.run.config import Config
from meor.run.prepare import grown, host_of, update_of
from meor.run.session import start
from meor.run.stopping import SnapshotScore
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.shared import pair_hash, schedule_hash
from meor.training.refine import refine
from meor.training.training import Cursor, Training

FAST = ("refine.learning_rate=0.1", "refine.replay_size=60")


def config_of(host: str, *sets: str) -> Config:
    return tiny_config(f"host.name={host}", *FAST, *sets)


def run(host: str, folder: Path, stream: Stream, *sets: str) -> RunView:
    start(config_of(host, *sets), folder, stream=stream, resources=each_step(folder.with_name("cache")))
    return RunView.open(folder)


def keeps_the_rows_it_promises_to_keep(view: RunView, stream: Stream) -> None:
    """Rows below those that any stage trains are the same bits after the update."""
    host = host_of(view.config)
    for number in stream.updates:
        before, after = view.model(number - 1), view.model(number)
        entity, relation = host.first_rows(update_of(view.config, stream, number))
        assert torch.equal(before.entity[:entity], after.entity[:entity])
        assert torch.equal(before.relation[:relation], after.relation[:relation])
        assert not torch.equal(after.entity[-1], before.entity[-1])


def ends_with_the_same_bits_from_every_step(view: RunView, stream: Stream) -> None:
    config, update = view.config, update_of(view.config, stream, 1)
    base = view.model(0)
    saved: list[tuple[dict[str, Tensor], str]] = []

    def save(now: Training, _: float | None) -> None:
        tensors = {name: value.detach().clone() for name, value in now.tensors().items()}
        saved.append((tensors, json.dumps(now.cursor.to_json())))

    training = Training.begin(host_of(config), grown(config, stream, base, update, base), update)
    by = training.host.validation
    validate = None if by is None else SnapshotScore(stream, 1, by, DEFAULT_MEMORY)
    final = refine(training, validate=validate, on_step=save, on_pass=save)
    assert torch.equal(final.entity, view.model(1).entity)
    for tensors, cursor in saved:
        at = Cursor.from_json(json.loads(cursor))
        restored = Training.restore(host_of(config), base.backbone, update, tensors=tensors, cursor=at)
        resumed = refine(restored, validate=validate)
        assert torch.equal(resumed.entity, final.entity)
        assert torch.equal(resumed.relation, final.relation)
        assert resumed.kept.keys() == final.kept.keys() == view.model(1).kept.keys()
        for name, value in final.kept.items():
            assert torch.equal(resumed.kept[name], value)
            assert torch.equal(view.model(1).kept[name], value)


def holds_its_contract(host: str, folder: Path) -> None:
    stream = tiny_stream()
    alone = run(host, folder / "none", stream)
    keeps_the_rows_it_promises_to_keep(alone, stream)
    ends_with_the_same_bits_from_every_step(alone, stream)
    without = run(host, folder / "zero", stream, "method=uncentered", "coefficient=0.0")
    strong = run(host, folder / "strong", stream, "method=uncentered", "coefficient=50.0")
    for update in stream.updates:
        assert torch.equal(without.model(update).entity, alone.model(update).entity)
    assert not torch.equal(strong.model(2).entity, alone.model(2).entity)
    for shared in (pair_hash, schedule_hash):
        found = {shared(view, stream) for view in (alone, without, strong)}
        assert len(found) == 1, "buffers, negatives and initial rows do not depend on the method"
