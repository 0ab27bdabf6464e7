"""L1: 10,000 refinement steps, penalty, validation and checkpoints leave memory and files as they were."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.growth import growing, pressing, random_model
from tests.tiny_run import Hasty

from meor.backbone.base import Model
from meor.hosts.replay import Replay
from meor.methods.comparison import Comparison
from meor.methods.penalty import Penalty
from meor.run.checkpoint import Checkpoint, Checkpoints
from meor.training.draws import draw_buffer
from meor.training.host import Plan, Update
from meor.training.refine import refine
from meor.training.training import Training

EVERY = 100  # steps between two looks


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def soak(folder: Path, steps: int) -> tuple[float, int, int]:
    """Bytes per step by which memory grew after the first tenth; files left open; steps made."""
    stream = growing(1, n_old=60, n_new=24)
    buffer = draw_buffer(stream, 1, seed=1, size=48)
    update = Update.of(stream, 1, buffer)
    start = random_model(stream, "complex", 1, dim=16, newcomers=pressing("complex"))
    batch = 8
    passes = -(-steps // -(-len(update.train) // batch))
    plan = Plan(
        seed=1, learning_rate=1e-3, passes=passes, batch_size=batch, validate_every=20, patience=passes
    )
    penalty = Penalty(Comparison.build(stream, 1, buffer.fact, run=1), start.backbone, beside=True)
    store = Checkpoints(folder, "soak", disk=Hasty())
    at: list[int] = []
    memory: list[int] = []
    files: list[int] = []

    def look(training: Training, loss: float) -> None:
        step = training.cursor.step
        if step % EVERY == 0:
            tensors = training.tensors()
            store.save(Checkpoint(1, step, tensors, training.adam.state(), training.cursor.to_json()))
            at.append(step)
            memory.append(resident())
            files.append(open_files())

    def validate(model: Model) -> float:
        return float(model.entity.abs().mean())

    training = Training.begin(Replay(plan), start, update)
    refine(training, penalty=penalty, coefficient=0.1, validate=validate, on_step=look)
    warm = len(at) // 10
    slope = float(np.polyfit(at[warm:], memory[warm:], 1)[0])
    return slope, files[-1] - files[warm], training.cursor.step


@pytest.mark.long
def test_l1_ten_thousand_steps_grow_memory_by_less_than_a_kilobyte_each_and_open_no_file(
    tmp_path: Path,
) -> None:
    slope, opened, steps = soak(tmp_path, 10_000)
    print(f"{steps} steps: {slope:.1f} bytes a step, {opened} files more")
    assert steps >= 10_000
    assert slope < 1024
    assert opened == 0


def test_l1_the_soak_itself_works_in_small(tmp_path: Path) -> None:
    _, opened, steps = soak(tmp_path, 1000)
    assert steps >= 1000
    assert opened == 0
