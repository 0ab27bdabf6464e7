"""Stores of the tiny ring, and what is compared when two states of a store must be equal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.tiny_run import each_step, tiny_config, tiny_stream

from meor.run.session import start
from meor.store.create import content_of_run
from meor.store.folder import create
from meor.store.settings import GateSettings
from meor.stream.files import write_stream


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ring as a stream, and with a finished run of it."""
    folder = tmp_path_factory.mktemp("finished")
    write_stream(tiny_stream(), folder / "ring")
    config = tiny_config("refine.learning_rate=0.3", stream=folder / "ring")
    start(config, folder / "run", resources=each_step(folder / "cache"))
    return folder


@pytest.fixture(scope="session")
def made(finished: Path) -> Path:
    """A store of the ring after update 1; copied by `store`."""
    content = content_of_run(finished / "run", GateSettings(budget=0.2), update=1)
    create(finished / "store", content, source="run")
    return finished / "store"


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """Both queries of every test fact of the store: nothing about them is an estimate."""
    stream = tiny_stream()
    lines = []
    for head, relation, tail in stream.prefix(1, ["test"]).tolist():
        h, r, t = stream.entities.label(head), stream.relations.label(relation), stream.entities.label(tail)
        lines += [f"{h}\t{r}\t?\t{t}\n", f"?\t{r}\t{t}\t{h}\n"]
    (tmp_path / "golden.tsv").write_text("".join(lines))
    return tmp_path / "golden.tsv"


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """The facts of the ring's update 2, as a file with splits."""
    stream = tiny_stream()
    lines = ["head\trelation\ttail\tsplit\n"]
    for split in ("train", "valid", "test"):
        for head, relation, tail in stream.snapshots[2].facts([split]).tolist():
            labels = (
                stream.entities.label(head),
                stream.relations.label(relation),
                stream.entities.label(tail),
            )
            lines.append("\t".join((*labels, split)) + "\n")
    (tmp_path / "batch.tsv").write_text("".join(lines))
    return tmp_path / "batch.tsv"
