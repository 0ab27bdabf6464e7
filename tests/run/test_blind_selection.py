"""No test fact is seen by whatever selects: other test facts leave every choice as it is, to the bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.test_runner import HASTY
from tests.tiny_run import each_step, tiny_config, tiny_stream

from meor.evaluation.endpoints import measure
from meor.evaluation.rank import Rules, rank_update
from meor.run.session import start
from meor.run.view import RunView
from meor.stream.snapshot import LabelFact, Stream, build_stream
from meor.typing import Split

PRESSED = ("refine.learning_rate=0.3", "refine.passes=4", "refine.replay_size=60")


def with_other_test_facts(stream: Stream) -> Stream:
    """Test facts that answer the queries of validation facts, so that a filter by them would be noticed."""
    name, relation = stream.entities.label, stream.relations.label
    known = {tuple(fact) for snapshot in stream.snapshots for fact in snapshot.facts().tolist()}
    cut: list[dict[Split, list[LabelFact]]] = []
    for index, snapshot in enumerate(stream.snapshots):
        newest = range(stream.entity_counts[index - 1] if index else 0, stream.entity_counts[index])
        planted = [
            fact
            for h, r, t in snapshot.valid.tolist()
            for other in newest
            for fact in ((h, r, other), (other, r, t))
            if fact not in known and (index == 0 or fact[0] in newest or fact[2] in newest)
        ]
        facts = {
            Split.TRAIN: snapshot.train.tolist(),
            Split.VALID: snapshot.valid.tolist(),
            Split.TEST: list(dict.fromkeys(planted)),
        }
        cut.append(
            {split: [(name(h), relation(r), name(t)) for h, r, t in some] for split, some in facts.items()}
        )
    return build_stream(stream.name, cut)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, Path]]:
    """The same run on both streams."""
    plain = tiny_stream()
    both = plain, with_other_test_facts(plain)
    assert both[0].content_hash() != both[1].content_hash()

    def run(*sets: str) -> tuple[Path, Path]:
        found = []
        for stream in both:
            folder = tmp_path_factory.mktemp("run")
            resources = each_step(folder / "cache")
            start(tiny_config(*sets), folder / "run", stream=stream, disk=HASTY, resources=resources)
            found.append(folder / "run")
        return found[0], found[1]

    return run


def events(run: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in RunView.open(run).events() if event["event"] == name]


def digest(run: Path, name: str) -> str:
    return hashlib.sha256((run / name).read_bytes()).hexdigest()


def test_base_stopping_and_the_fit_of_calibration_do_not_depend_on_test_facts(
    made: Callable[..., tuple[Path, Path]],
) -> None:
    runs = made(*PRESSED, "method=calibration")
    validations = [events(run, "base")[0]["validations"] for run in runs]
    assert len(validations[0]) == 3
    assert validations[0] == validations[1]
    names = ["update-0/model.safetensors"]
    names += [f"update-{u}/{name}" for u in (1, 2) for name in ("model.safetensors", "calibration.parquet")]
    for name in names:
        assert digest(runs[0], name) == digest(runs[1], name), name


def test_a_validated_coefficient_does_not_depend_on_test_facts(
    made: Callable[..., tuple[Path, Path]],
) -> None:
    chosen = []
    for run in made(*PRESSED, "method=uncentered", "coefficient_rule=validated"):
        balanced, validated = events(run, "coefficient")
        assert not balanced["inactive"]
        chosen.append((balanced["coefficient"], validated["multiple"], validated["candidates"]))
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize("given", [(Split.TRAIN,), (Split.TRAIN, Split.VALID, Split.TEST)])
def test_base_stopping_filters_by_train_and_valid_or_by_less_where_less_is_asked_for(
    made: Callable[..., tuple[Path, Path]], given: tuple[Split, ...]
) -> None:
    names = ", ".join(split.value for split in given)
    _, run = made(f"evaluation.filter_splits=[{names}]")  # where test facts are known answers of valid ones
    wanted = [split for split in given if split is not Split.TEST]
    stream, model = with_other_test_facts(tiny_stream()), RunView.open(run).model(0)
    ranks = rank_update(stream, model, 0, split=Split.VALID, rules=Rules(filter_splits=wanted))
    best = measure(np.concatenate([each.cur for each in ranks]))
    assert events(run, "base")[0]["best_mrr"] == best
