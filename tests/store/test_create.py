"""Stores of facts that are trained now, and of embeddings made elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.tiny_run import SETTINGS, tiny_config, tiny_stream

from meor.errors import ConfigError, MeorError, StoreError
from meor.run.config import Config
from meor.store.answers import Answers
from meor.store.create import check_method, content_of_embeddings, content_of_facts, content_of_run
from meor.store.folder import Store, create
from meor.store.graph import through
from meor.store.settings import GateSettings


def facts_file(path: Path, *extra: str) -> Path:
    stream = tiny_stream()
    lines = ["head\trelation\ttail\tsplit"]
    for split in ("train", "valid", "test"):
        for head, relation, tail in stream.snapshots[0].facts([split]).tolist():
            names = stream.entities.label(head), stream.relations.label(relation), stream.entities.label(tail)
            lines.append("\t".join((*names, split)))
    path.write_text("\n".join([*lines, *extra]) + "\n")
    return path


def test_facts_are_trained_as_the_base_of_a_run(tmp_path: Path, finished: Path) -> None:
    from meor.run.view import RunView

    view = RunView.open(finished / "run")
    content = content_of_facts(facts_file(tmp_path / "facts.tsv"), view.config, GateSettings())
    assert torch.equal(content.model.entity, view.model(0).entity)
    assert content.stream.content_hash() == view.stream().content_hash(0)
    create(tmp_path / "store", content)
    assert len(Answers.of(Store.open(tmp_path / "store").version()).top("e0", "r0", 3)) == 3


def test_facts_without_splits_are_all_trained(tmp_path: Path) -> None:
    path = tmp_path / "plain.tsv"
    path.write_text("a\tknows\tb\nb\tknows\tc\nc\tlikes\ta\n")
    content = content_of_facts(path, Config.gather(sets=SETTINGS), GateSettings())
    assert len(content.stream.snapshots[0].train) == 3
    assert content.model.n_entities == 3


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("e0\tr0\te1\ttrain", "is already at .*, line"),
        ("e0\tr0\tnobody\ttest", "'nobody' appears in test .* --unseen move"),
        ("e0\tnothing\te1\ttest", "'nothing' appears in test .* --unseen move"),
        ("e0\tr0", "2 columns"),
        ("\tr0\te1\ttrain", "the head is empty"),
    ],
)
def test_bad_facts_name_their_place(tmp_path: Path, line: str, match: str) -> None:
    with pytest.raises(MeorError, match=match) as error:
        content_of_facts(facts_file(tmp_path / "facts.tsv", line), tiny_config(), GateSettings())
    assert "facts.tsv" in str(error.value)


def test_embeddings_made_elsewhere_answer_and_keep_their_base(tmp_path: Path) -> None:
    stream = through(tiny_stream(), 1)
    draw = np.random.default_rng(0)
    np.save(tmp_path / "E.npy", draw.normal(size=(len(stream.entities), 8)))
    np.save(tmp_path / "R.npy", draw.normal(size=(len(stream.relations), 8)))
    content = content_of_embeddings(
        stream, tiny_config("dim=99"), GateSettings(), tmp_path / "E.npy", tmp_path / "R.npy"
    )
    assert content.config.dim == 4
    create(tmp_path / "store", content)
    version = Store.open(tmp_path / "store").version()
    assert torch.equal(version.content().base.entity, content.model.entity[: stream.entity_counts[0]])
    assert len(Answers.of(version).top("e0", "r0")) == 10


def test_a_run_that_cannot_be_a_store_says_why(finished: Path) -> None:
    with pytest.raises(StoreError, match="no update 7"):
        content_of_run(finished / "run", GateSettings(), update=7)
    with pytest.raises(ConfigError, match="changes scores after training"):
        check_method(tiny_config("method=calibration"))


def test_the_rules_of_a_gate_are_checked() -> None:
    with pytest.raises(ConfigError, match="budget"):
        GateSettings().changed(budget=2.0)
    with pytest.raises(ConfigError, match="no setting"):
        GateSettings.resolve({"bugdet": 0.1})
    assert GateSettings().changed(budget=None, floor=0.3).floor == 0.3
