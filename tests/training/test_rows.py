"""A step that is made block by block has the bits of a step by a whole gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tiny_run import tiny_config, tiny_stream

from meor.backbone import BACKBONES
from meor.compiled import set_threads
from meor.hosts import HOSTS
from meor.hosts.incde import IncDE
from meor.hosts.margin import MarginHost
from meor.run.prepare import host_of, update_of
from meor.training import rows
from meor.training.adam import Adam, Longest
from meor.training.host import Host
from meor.training.initialise import base_model
from meor.training.loss import Batch, Embedding
from meor.training.refine import refine
from meor.training.training import Training

BY_ROWS = ("emr", "fine-tune", "incde", "lkge")
SETTINGS = ("dim=6", "refine.learning_rate=0.02", "refine.passes=23")  # IncDE's last stage begins after 21


def trained(name: str, *sets: str, longest: Longest | None = None, whole: bool = False) -> list[bytes]:
    """Rows, moments, state of the host and every loss."""
    config = tiny_config(f"host.name={name}", *SETTINGS, *sets)
    host, update, losses = host_of(config), update_of(config, tiny_stream(), 1), list[float]()
    if whole:
        host.by_rows = lambda batch: None  # type: ignore[method-assign]
    model = base_model(BACKBONES["transe-inverse"], 6, update.n_entities, update.m_relations, seed=1)
    training = Training.begin(host, model, update, longest)
    refine(training, on_step=lambda _, loss: losses.append(loss))
    return [np.array(losses).tobytes(), *(value.numpy().tobytes() for value in training.tensors().values())]


@pytest.mark.parametrize("variant", ["clean", "released"])
@pytest.mark.parametrize("schedule", ["source", "paper"])
@pytest.mark.parametrize("name", BY_ROWS)
def test_a_step_by_rows_is_the_step_by_the_gradient(name: str, schedule: str, variant: str) -> None:
    sets = f"host.schedule={schedule}", f"host.variant={variant}"
    assert trained(name, *sets) == trained(name, *sets, whole=True)


def test_neither_the_size_of_a_block_nor_threads_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained("incde")
    try:
        for size, threads in ((1, 1), (150, 1), (150, 2), (10**6, 2)):
            monkeypatch.setattr(rows, "BLOCK_BYTES", size)
            set_threads(threads)
            assert trained("incde") == expected
    finally:
        set_threads(1)


def test_newcomers_keep_their_longest_norm() -> None:
    longest = Longest(np.full(8, 0.3))
    assert trained("fine-tune", longest=longest) == trained("fine-tune", longest=longest, whole=True)
    assert trained("fine-tune", longest=longest) != trained("fine-tune")


def test_hosts_that_read_gradients_or_train_other_matrices_have_no_such_form() -> None:
    for name, host in HOSTS.items():
        assert (host.by_rows is not Host.by_rows) == (name in BY_ROWS)


def test_a_class_that_changes_the_loss_or_what_follows_a_step_loses_the_form() -> None:
    class Other(IncDE):
        def loss(self, batch: Batch) -> torch.Tensor:
            return super().loss(batch) + self.entity.trained.sum()

    class Looks(MarginHost):
        def stepped(self) -> None:
            assert self.entity.trained.grad is not None

    class Terms(IncDE):
        def terms(self, batch: Batch) -> tuple[rows.Term, ...]:
            return super().terms(batch)[:1]

    assert Other.by_rows is Host.by_rows
    assert Looks.by_rows is Host.by_rows
    assert Terms.by_rows is MarginHost.by_rows


def test_adam_takes_blocks_where_it_would_take_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BLOCK_BYTES", 100)
    drawn = torch.Generator().manual_seed(0)
    start, gradient = (torch.randn(7, 5, generator=drawn, dtype=torch.float64) for _ in range(2))
    given, made = (Embedding.of(start.clone(), 2) for _ in range(2))
    of_rows = gradient[2:].numpy()

    def part(begin: int, end: int, block: rows.Array) -> None:
        assert len(block) == end - begin
        block[:] = of_rows[begin:end]

    one, two = (Adam({"rows": table.trained}, 0.1) for table in (given, made))
    for _ in range(3):
        given.trained.grad = gradient[2:].clone()
        one.step()
        two.step({"rows": part})
    assert torch.equal(given.data, made.data)
    assert made.trained.grad is None
    assert not torch.equal(made.data[2:], start[2:])
