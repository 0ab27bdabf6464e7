"""Each margin host goes where the same learner goes that is written plainly, step by step (`plain.py`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.hosts.plain import PLAIN
from tests.tiny_run import N_ENTITIES, tiny_config, tiny_stream

from meor.backbone import BACKBONES
from meor.errors import ConfigError
from meor.hosts import HOSTS
from meor.hosts.emr import memory_of
from meor.hosts.lkge import counts_of
from meor.hosts.margin import MarginHost
from meor.run.config import Config
from meor.run.prepare import check, host_of, update_of
from meor.training.host import Host, Update
from meor.training.initialise import base_model, grow
from meor.training.refine import refine
from meor.training.training import Training
from meor.typing import Split

LAST = len(N_ENTITIES) - 1
MARGIN_HOSTS = sorted(name for name, host in HOSTS.items() if issubclass(host, MarginHost))
LIVELY = ("base.learning_rate=0.02", "refine.learning_rate=0.02", "refine.replay_size=20")


def config_of(host: str, *sets: str) -> Config:
    return tiny_config(f"host.name={host}", "dim=6", "base.epochs=2", *LIVELY, *sets)


def test_every_margin_host_is_written_plainly_too() -> None:
    assert set(MARGIN_HOSTS) == set(PLAIN)


@pytest.mark.parametrize("variant", ["clean", "released"])
@pytest.mark.parametrize("schedule", ["source", "paper"])
@pytest.mark.parametrize("name", MARGIN_HOSTS)
def test_a_host_goes_where_the_plain_one_goes(
    name: str, schedule: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = tiny_stream()
    monkeypatch.setattr("meor.hosts.incde.LAST_UPDATE", LAST)
    config = config_of(name, f"host.variant={variant}", f"host.schedule={schedule}")
    host, theirs = host_of(config), host_of(config)
    plain = PLAIN[name](config.host)
    start = base_model(BACKBONES["transe-inverse"], 6, 24, 3, seed=1, std="xavier")
    mine, other = start, start
    for number in range(3):
        update = update_of(config, stream, number)
        if number:
            mine, other = (grow(model, update, seed=1, std="xavier") for model in (mine, other))
        mine = refine(Training.begin(host, mine, update))
        other = plain.train(theirs, other, update)
        torch.testing.assert_close(mine.entity, other.entity, rtol=0, atol=1e-10)
        torch.testing.assert_close(mine.relation, other.relation, rtol=0, atol=1e-10)
        assert not torch.allclose(mine.entity[:24], start.entity, atol=1e-3)


@pytest.mark.parametrize("name", MARGIN_HOSTS)
def test_the_gradient_is_the_derivative_of_the_loss(name: str) -> None:
    """Away from the rows that an update began with, so that every term of the loss has a gradient."""
    stream, config = tiny_stream(), config_of(name, "base.epochs=1")
    base = base_model(BACKBONES["transe-inverse"], 6, 24, 3, seed=1)
    host = host_of(config)
    kept = refine(Training.begin(host, base, Update.of(stream, 0)))
    update = update_of(config, stream, 1)
    training = Training.begin(host, grow(kept, update, seed=1), update)
    while training.open_next_stage():
        pass
    before = training.entity.data.clone()
    with torch.no_grad():
        training.entity.data.add_(0.01 * torch.sin(torch.arange(before.numel()).reshape(before.shape)))
    batch = host.steps(0)[0].batch
    (gradient,) = torch.autograd.grad(host.loss(batch), training.entity.trained)
    at, first, step = training.entity.data, training.entity.first, 1e-6
    for row, column in ((0, 0), (7, 3), (23, 5), (24, 1), (31, 2)):
        if row < first:
            continue
        values = []
        for sign in (1, -1):
            at[row, column] += sign * step
            values.append(float(host.loss(batch).detach()))
            at[row, column] -= sign * step
        slope = (values[0] - values[1]) / (2 * step)
        assert slope == pytest.approx(float(gradient[row - first, column]), abs=1e-7)


def test_a_host_brings_its_own_schedule_and_what_is_given_wins() -> None:
    source = Config(host="fine-tune", stream="ring")
    assert (source.backbone, source.base.init_std, source.base.batch) == ("transe-inverse", "xavier", 1024)
    assert (source.refine.passes, source.refine.order, source.refine.learning_rate) == (200, "permuted", 1e-4)
    paper = Config(host={"name": "lkge", "schedule": "paper"}, stream="ring")
    assert (paper.refine.passes, paper.refine.order, paper.base.epochs) == (1, "file", 200)
    given = Config(host="lkge", refine={"passes": 7}, base={"init_std": 0.1})
    assert (given.refine.passes, given.refine.learning_rate, given.base.init_std) == (7, 1e-4, 0.1)
    assert Config.resolve(given.model_dump(mode="json")) == given
    assert Config(host="replay") == Config()


def test_rows_move_by_the_schedule() -> None:
    update = Update.of(tiny_stream(), 1)
    for name in MARGIN_HOSTS:
        hosts = [host_of(config_of(name, f"host.schedule={way}")) for way in ("source", "paper")]
        moves = (24, 3) if name == "fastkge" else (0, 0)
        assert [host.first_rows(update) for host in hosts] == [moves, (24, 3)]
        assert [list(host.stages(update))[-1].plan.validate_every for host in hosts] == [1, 0]


def test_only_the_released_variant_is_judged_by_test_facts() -> None:
    for name in MARGIN_HOSTS:
        clean, released = (host_of(config_of(name, f"host.variant={way}")) for way in ("clean", "released"))
        assert clean.validation is not None
        assert released.validation is not None
        assert clean.validation.split is Split.VALID
        assert Split.TEST not in clean.validation.filter_splits
        wanted = Split.TEST if type(released).selects_on_test else Split.VALID  # type: ignore[attr-defined]
        assert released.validation.split is wanted


def test_another_backbone_is_refused_in_one_sentence() -> None:
    with pytest.raises(
        ConfigError, match=r"host ewc trains transe-inverse, not complex.*Leave the backbone out"
    ):
        check(config_of("ewc", "backbone=complex"), tiny_stream(), 2**30)


def test_every_fact_comes_once_with_its_inverse() -> None:
    stream = tiny_stream()
    host: Host = host_of(config_of("fine-tune", "refine.order=permuted"))
    training = Training.begin(
        host, base_model(BACKBONES["transe-inverse"], 6, 32, 4, seed=0), Update.of(stream, 1)
    )
    assert training.host is host
    steps = host.steps(0)
    found = np.concatenate([steps[index].batch.fact for index in range(len(steps))])
    forward = found[::2] // [1, 2, 1]
    assert sorted(map(tuple, forward)) == sorted(map(tuple, stream.snapshots[1].train))
    assert (found[1::2] == found[::2][:, ::-1] + [0, 1, 0]).all()


def test_released_items_are_shuffled_one_by_one_and_the_last_entity_is_never_drawn() -> None:
    stream, drawn = tiny_stream(), {}
    for variant in ("clean", "released"):
        host = host_of(config_of("fine-tune", "refine.order=permuted", f"host.variant={variant}"))
        model = base_model(BACKBONES["transe-inverse"], 6, 32, 4, seed=0)
        Training.begin(host, model, Update.of(stream, 1))
        every = [
            host.steps(number)[index].batch for number in range(9) for index in range(len(host.steps(0)))
        ]
        items = np.concatenate([batch.fact for batch in every])
        drawn[variant] = np.concatenate([batch.negative.ravel() for batch in every]).max()
        pairs = (items[1::2] == items[::2][:, ::-1] + [0, 1, 0]).all(1)
        assert pairs.all() == (variant == "clean")
        assert len(items) == 9 * 2 * len(stream.snapshots[1].train)
    assert drawn == {"clean": 31, "released": 30}


def test_the_memory_is_half_old_and_half_new() -> None:
    stream = tiny_stream()
    update = update_of(config_of("emr"), stream, 2)
    first, second = memory_of(replace(update, past=()), 10, 3), memory_of(update, 10, 3)
    assert len(first) == 10
    assert len(second) == 10
    known = [{tuple(fact) for fact in snapshot.train} for snapshot in stream.snapshots]
    held = [sum(tuple(fact) in facts for fact in second) for facts in known]
    assert held[2] == 5
    assert held[0] + held[1] == 5
    assert (memory_of(update, 10, 3) == second).all()


def test_counts_of_the_past_begin_with_admission() -> None:
    update = Update.of(tiny_stream(), 2)
    old, new = counts_of(update, "entity")
    ends = [train[:, [0, 2]].ravel() for train in (*update.past, update.train)]
    assert old[0] == sum((part == 0).sum() for part in ends[:2]) + 2
    assert old[30] == (ends[1] == 30).sum() + 1
    assert old[39] == 0
    assert new[39] == (ends[2] == 39).sum() + 1
