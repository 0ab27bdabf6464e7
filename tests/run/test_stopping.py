"""An update stops by itself: judged as endpoints are, at its best, and to the same bits when resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.run.test_runner import StopAt, Stopped
from tests.tiny_run import each_step, results, tiny_config, tiny_stream

from meor.evaluation.endpoints import Endpoint, endpoint
from meor.evaluation.rank import Rules, rank_update
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.run.config import Config
from meor.run.session import resume, start
from meor.run.stopping import UpdateScore
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.typing import Split

STOPS = ("refine.validate_steps=1", "refine.patience=2", "refine.passes=30", "refine.learning_rate=0.1")
SELECTION = (Split.TRAIN, Split.VALID)


@pytest.fixture(scope="module")
def stream() -> Stream:
    return tiny_stream()


@pytest.fixture(scope="module")
def run(stream: Stream, tmp_path_factory: pytest.TempPathFactory) -> RunView:
    place = tmp_path_factory.mktemp("stops")
    start(tiny_config(*STOPS), place / "run", stream=stream, resources=each_step(place / "cache"))
    return RunView.open(place / "run")


def scored(stream: Stream, update: int, *, frozen: bool = True) -> UpdateScore:
    return UpdateScore(stream, update, SELECTION, DEFAULT_MEMORY, frozen)


@pytest.mark.parametrize("frozen", [True, False])
def test_it_is_the_harmonic_mean_of_the_endpoints_on_validation_facts(
    run: RunView, stream: Stream, frozen: bool
) -> None:
    for update in stream.updates:
        score = scored(stream, update, frozen=frozen)
        model = run.model(update)
        for step in range(3):
            ranks = rank_update(
                stream, model, update, split=Split.VALID, rules=Rules(filter_splits=SELECTION)
            )
            kept, gained = (endpoint(name, ranks) for name in ("H_cur", "A_TN"))
            assert isinstance(kept, Endpoint)
            assert isinstance(gained, Endpoint)
            wanted = 2 * kept.value * gained.value / (kept.value + gained.value)
            assert score(model) == pytest.approx(wanted, rel=1e-14)
            model.entity[stream.entity_counts[update - 1] :] += 0.3 * (step + 1)


def test_an_update_ends_with_the_rows_of_its_best_validation(run: RunView, stream: Stream) -> None:
    for event in (each for each in run.events() if each["event"] == "updated"):
        seen = [value for _, value in event["validations"]]
        best = max(seen)
        assert len(seen) < 30, "the limit did not end it"
        assert len(seen) - 1 - seen.index(best) == 2, "patience did"
        assert scored(stream, event["update"])(run.model(event["update"])) == best


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(
    run: RunView, stream: Stream, tmp_path: Path
) -> None:
    for steps in (9, 15, 21):
        place, resources = tmp_path / str(steps), each_step(tmp_path / f"cache-{steps}")
        with pytest.raises(Stopped):
            start(tiny_config(*STOPS), place, stream=stream, resources=resources, watcher=StopAt(steps))
        resume(place, stream=stream, resources=resources)
        assert results(place) == results(run.path)


def test_a_penalty_is_balanced_against_the_host_that_stops_by_itself(stream: Stream, tmp_path: Path) -> None:
    sets = (*STOPS, "refine.replay_size=60", "method=uncentered")
    start(tiny_config(*sets), tmp_path / "run", stream=stream, resources=each_step(tmp_path / "cache"))
    alone = tiny_config(*sets).model_copy(update={"method": "none"})
    start(alone, tmp_path / "none", stream=stream, resources=each_step(tmp_path / "other"))
    given = each_step(tmp_path / "third", alone=tmp_path / "none")
    start(tiny_config(*sets), tmp_path / "given", stream=stream, resources=given)
    for update in stream.updates:
        one, two = (RunView.open(tmp_path / name).model(update).entity for name in ("run", "given"))
        assert torch.equal(one, two)


def test_without_validation_facts_it_says_so_and_makes_all_passes(stream: Stream, tmp_path: Path) -> None:
    bare = Stream(
        stream.name,
        stream.entities,
        stream.relations,
        tuple(type(each)(each.train, each.valid[:0], each.test) for each in stream.snapshots),
        stream.entity_counts,
        stream.relation_counts,
    )
    config = tiny_config(*STOPS).model_copy(update={"refine": tiny_config(*STOPS, "refine.passes=3").refine})
    start(config, tmp_path / "run", stream=bare, resources=each_step(tmp_path / "cache"))
    events = list(RunView.open(tmp_path / "run").events())
    said = [each["text"] for each in events if each["event"] == "warning"]
    assert any("update 1 has no validation facts to stop by" in text for text in said)
    assert sum(each["event"] == "pass" and each["update"] == 1 for each in events) == 3


def test_settings_that_stop_nothing_are_not_written() -> None:
    assert "validate_steps" not in Config().model_dump(mode="json")["refine"]
    assert tiny_config(*STOPS).model_dump(mode="json")["refine"]["patience"] == 2
