"""An update stops by itself: judged as endpoints are, at its best, and to the same bits when resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.run.test_runner import StopAt, Stopped
from tests.tiny_run import each_step, results, tiny_config, tiny_stream

from meor.errors import ConfigError
from meor.evaluation.endpoints import Endpoint, endpoint
from meor.evaluation.rank import Rules, rank_update
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.run.config import Config
from meor.run.session import resume, start
from meor.run.stopping import UpdateScore
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.shared import passes_made
from meor.training.training import Cursor
from meor.typing import Split

STOPS = (
    "refine.validate_steps=1", "refine.least_steps=0", "refine.patience=2", "refine.passes=30",
    "refine.learning_rate=0.1",
)  # fmt: skip
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


def test_an_update_does_not_stop_before_its_least_steps(run: RunView, stream: Stream, tmp_path: Path) -> None:
    """At first newcomers may learn nothing that a validation sees."""
    ended = [event["steps"] for event in run.events() if event["event"] == "updated"]
    least = max(ended) + 1
    config = tiny_config(*STOPS, f"refine.least_steps={least}")
    start(config, tmp_path / "run", stream=stream, resources=each_step(tmp_path / "cache"))
    later = [event for event in RunView.open(tmp_path / "run").events() if event["event"] == "updated"]
    assert all(least <= event["steps"] < 30 * 8 for event in later)
    seen = [value for _, value in later[0]["validations"]]
    assert later[0]["kept_pass"] == 1 + seen.index(max(seen))


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


def test_settings_that_stop_nothing_are_not_written_and_all_are_read_back_as_they_were(
    tmp_path: Path,
) -> None:
    decided = ("refine.passes=9", "refine.steps=70", "refine.schedule=[3, 4]", "preset=paper")
    for sets in (*decided, "refine.validate_steps=0", "refine.patience=2", "seed=0"):
        config = Config.gather(sets=[sets])
        (tmp_path / "config.yaml").write_text(config.to_yaml())
        assert Config.load(tmp_path / "config.yaml") == config
        stops = config.refine.validate_steps > 0
        assert stops == (sets in ("refine.patience=2", "seed=0"))
        assert ("validate_steps" in config.model_dump(mode="json")["refine"]) == stops


@pytest.mark.parametrize(
    ("sets", "problem"),
    [
        (("refine.steps=5", "refine.validate_steps=1"), "steps decides how long"),
        (("refine.steps=5", "refine.schedule=[1, 2]"), "give one of them"),
    ],
)
def test_an_update_is_decided_or_stops_by_itself(sets: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Config.gather(sets=sets)


def test_a_schedule_and_steps_say_how_long_each_update_is_trained(stream: Stream, tmp_path: Path) -> None:
    enough = [-(-5 // -(-len(each.train) // 16)) for each in stream.snapshots[1:]]
    for name, sets, wanted in (
        ("schedule", "refine.schedule=[3, 1]", [3, 1]),
        ("steps", "refine.steps=5", enough),
    ):
        config = tiny_config(sets, "refine.batch=16")
        start(config, tmp_path / name, stream=stream, resources=each_step(tmp_path / "cache"))
        view = RunView.open(tmp_path / name)
        made = [each["number"] for each in view.events() if each["event"] == "pass" and each["update"]]
        assert made == [number for passes in wanted for number in range(1, passes + 1)]
        assert list(passes_made(view, stream).values()) == wanted


def test_the_kept_pass_is_the_best_one_by_more_than_the_tolerance() -> None:
    cursor = Cursor(1, pass_number=5, best_mrr=0.5, validations=[(1, 0.4), (3, 0.5), (5, 0.501)])
    assert cursor.kept_pass == 3
    assert Cursor(1, pass_number=5).kept_pass == 5
