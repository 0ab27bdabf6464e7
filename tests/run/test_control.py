"""When a balanced coefficient is decided, that it is the same however a run is made, and what is said where
nothing was controlled (decision 34)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.run.test_runner import HASTY, StopAt, Stopped
from tests.tiny_run import SETTINGS, each_step, results, tiny_config, tiny_stream
from typer.testing import CliRunner

from meor.cli import app
from meor.errors import ConfigError
from meor.methods.coefficient import MULTIPLES, Candidate, end_of_grid, goes_on
from meor.report.run_page import run_page
from meor.run import session
from meor.run.config import Config
from meor.run.session import resume, start
from meor.run.view import RunView
from meor.stream.files import write_stream
from meor.stream.snapshot import LabelFact, Stream, build_stream
from meor.study.conduct import conduct
from meor.study.plan import Study
from meor.study.task import Means
from meor.typing import Split

PRESSED = ("refine.learning_rate=0.3", "refine.passes=4", "refine.replay_size=60")
"""Newcomers that move fast enough to outrank, and records enough to decide by."""

UNCONTROLLED = "nothing was controlled: this run equals the host without a penalty"


def late_stream() -> Stream:
    """The ring, with an update before its others that admits nobody."""
    ring = tiny_stream()
    name, relation = ring.entities.label, ring.relations.label
    cut: list[dict[Split, list[LabelFact]]] = [
        {
            split: [(name(int(h)), relation(int(r)), name(int(t))) for h, r, t in snapshot.facts([split])]
            for split in Split
        }
        for snapshot in ring.snapshots
    ]
    known = {fact for parts in cut for facts in parts.values() for fact in facts}
    fresh = [
        fact
        for head in range(24)
        for tail in range(24)
        if (fact := (f"e{head}", "r0", f"e{tail}")) not in known and head != tail
    ]
    quiet = {Split.TRAIN: fresh[:20], Split.VALID: fresh[20:24], Split.TEST: fresh[24:28]}
    return build_stream("late", [cut[0], quiet, *cut[1:]])


@pytest.fixture(scope="module")
def stream() -> Stream:
    return late_stream()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, stream: Stream) -> Callable[..., Path]:
    done: dict[tuple[str, ...], Path] = {}

    def run(*sets: str) -> Path:
        if sets not in done:
            folder = tmp_path_factory.mktemp("late")
            resources = each_step(folder / "cache")
            start(tiny_config(*sets), folder / "run", stream=stream, disk=HASTY, resources=resources)
            done[sets] = folder / "run"
        return done[sets]

    return run


def coefficients(run: Path) -> list[dict[str, Any]]:
    return [event for event in RunView.open(run).events() if event["event"] == "coefficient"]


def weights(run: Path, update: int) -> bytes:
    return (run / f"update-{update}" / "model.safetensors").read_bytes()


def test_the_first_update_with_enough_active_records_decides_and_those_before_have_no_penalty(
    made: Callable[..., Path],
) -> None:
    replay, run = made(*PRESSED), made(*PRESSED, "method=uncentered")
    first, second = coefficients(run)
    assert (first["update"], first["records"], first["inactive"]) == (1, 0, True)
    assert (second["update"], second["inactive"]) == (2, False)
    assert second["active"] >= 16
    assert second["coefficient"] == second["host_norm"] / second["penalty_norm"] > 0
    assert weights(run, 1) == weights(replay, 1)
    assert weights(run, 2) != weights(replay, 2)  # made again, with the coefficient
    told = RunView.open(run).endpoints()["control"]
    assert told == {
        "controlled": True,
        "rule": "balance",
        "coefficient": second["coefficient"],
        "first_update": 2,
    }


def test_a_run_killed_after_any_update_decides_as_it_did(
    tmp_path: Path, stream: Stream, made: Callable[..., Path]
) -> None:
    sets = (*PRESSED, "method=uncentered")
    expected = results(made(*sets))
    counted = StopAt()
    resources = each_step(tmp_path / "c")
    start(tiny_config(*sets), tmp_path / "0", stream=stream, disk=HASTY, resources=resources, watcher=counted)
    for n in range(3, counted.seen + 1, 11):
        run, resources = tmp_path / str(n), each_step(tmp_path / f"cache-{n}")
        with pytest.raises(Stopped):
            start(tiny_config(*sets), run, stream=stream, disk=HASTY, resources=resources, watcher=StopAt(n))
        again = each_step(tmp_path / f"other-{n}")  # nothing of what was balanced is kept
        resume(run, stream=stream, disk=HASTY, resources=again)
        assert results(run) == expected, f"stopped at {n}"
        assert {event["update"] for event in coefficients(run) if not event["inactive"]} == {2}


def test_the_replay_run_of_the_pair_gives_the_same_bytes(
    tmp_path: Path, stream: Stream, made: Callable[..., Path]
) -> None:
    sets = (*PRESSED, "method=uncentered")
    resources = each_step(tmp_path / "cache", alone=made(*PRESSED))
    start(tiny_config(*sets), tmp_path / "run", stream=stream, disk=HASTY, resources=resources)
    assert results(tmp_path / "run") == results(made(*sets))


def test_a_cell_of_a_study_is_the_run_by_itself(tmp_path: Path, stream: Stream) -> None:
    write_stream(stream, tmp_path / "late")
    plan = Study.resolve(
        {
            "study": "late",
            "stream": str(tmp_path / "late"),
            "methods": ["none", "uncentered"],
            "pairs": 1,
            "sets": [*SETTINGS, *PRESSED],
        }
    )
    found = conduct(plan, tmp_path / "study", means=Means(cache=tmp_path / "cache"))
    assert found.failures == {}
    _, penalized = found.rows
    alone = tmp_path / "alone"
    config = tiny_config(*PRESSED, "method=uncentered", stream=tmp_path / "late")
    start(config, alone, stream=stream, disk=HASTY, resources=each_step(tmp_path / "cache"))
    assert penalized.coefficient == RunView.open(alone).endpoints()["control"]["coefficient"] > 0
    for update in stream.updates:
        assert weights(tmp_path / "study" / "runs" / penalized.run, update) == weights(alone, update)


def test_where_no_update_decides_endpoints_table_and_report_say_that_nothing_was_controlled(
    stream: Stream, made: Callable[..., Path]
) -> None:
    still = ("refine.learning_rate=1e-9", "refine.replay_size=4", "method=meor")  # 8 records at most
    run = made(*still)
    assert [event["inactive"] for event in coefficients(run)] == [True] * len(stream.updates)
    assert UNCONTROLLED in coefficients(run)[-1]["text"]
    told = RunView.open(run).endpoints()
    assert told["control"] == {
        "controlled": False,
        "rule": "balance",
        "coefficient": 0.0,
        "first_update": None,
        "reason": UNCONTROLLED,
    }
    replay = RunView.open(made(*still[:2])).endpoints()
    assert replay == {"test": told["test"]}
    page = run_page(RunView.open(run))
    assert "Nothing was controlled: this run equals the host without a penalty." in page.lead[-1].answer
    said = CliRunner().invoke(app, ["resume", str(run)])  # complete: it prints the table again
    assert said.exit_code == 0
    assert UNCONTROLLED in " ".join(said.stdout.split())


def test_a_given_coefficient_acts_from_the_update_that_is_named(made: Callable[..., Path]) -> None:
    replay = made(*PRESSED)
    run = made(*PRESSED, "method=uncentered", "coefficient=5.0", "coefficient_from=3")
    assert [weights(run, update) == weights(replay, update) for update in (1, 2, 3)] == [True, True, False]
    assert RunView.open(run).endpoints()["control"]["first_update"] == 3


def test_a_validated_multiple_acts_from_the_deciding_update_in_its_trials_too(
    tmp_path: Path, stream: Stream
) -> None:
    sets = (*PRESSED, "method=uncentered", "coefficient_rule=validated", "evaluation.updates=[2, 3]")
    start(tiny_config(*sets), tmp_path / "run", stream=stream, resources=each_step(tmp_path / "cache"))
    _, balanced, chosen = coefficients(tmp_path / "run")
    assert (balanced["update"], chosen["update"], chosen["rule"]) == (2, 2, "validated")
    tried = [one["multiple"] for one in chosen["candidates"]]
    assert tried == list(MULTIPLES[: len(tried)])
    assert len(tried) >= 6
    trials = next((tmp_path / "cache" / "trials").iterdir())
    config = RunView.open(trials / "uncentered-300").config
    assert config.seed == RunView.open(tmp_path / "run").config.seed + 1_000_000
    assert (config.coefficient_from, config.evaluation.filter_splits) == (2, ("train", "valid"))


def candidates(*values: tuple[float, float]) -> list[Candidate]:
    replay = Candidate(0.0, 0.2, 0.1)
    return [Candidate.against(replay, m, *each) for m, each in zip(MULTIPLES, values, strict=False)]


def test_multiples_go_at_least_through_300_and_end_after_two_in_vain() -> None:
    assert MULTIPLES[:6] == (1, 3, 10, 30, 100, 300)
    assert MULTIPLES[-1] == 1e5
    poor, good, lost = (0.19, 0.1), (0.25, 0.1), (0.3, 0.0)
    assert goes_on(candidates(*[poor] * 5))
    assert not goes_on(candidates(good, *[poor] * 5))
    assert not goes_on(candidates(good, good, good, good, poor, lost))
    assert goes_on(candidates(good, good, good, good, good, lost))  # only one in vain
    assert goes_on(candidates(*[poor] * 5, good, poor))
    assert not goes_on(candidates(*[poor] * 5, good, poor, lost))
    assert not goes_on(candidates(*[lost] * 6))
    assert not goes_on(candidates(*[good] * 11))


def test_a_choice_at_the_end_of_the_grid_is_said(
    tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def better_and_better(config: Config, path: Path, runner: object) -> dict[str, Any]:
        found = 0.2 if config.coefficient is None else 0.2 + config.coefficient / 1e12
        return {"valid": {"H_cur": {"value": found}, "A_TN": {"value": 0.1}}}

    monkeypatch.setattr(session, "_trial", better_and_better)
    sets = (*PRESSED, "method=uncentered", "coefficient_rule=validated")
    start(tiny_config(*sets), tmp_path / "run", stream=stream, resources=each_step(tmp_path / "cache"))
    *_, chosen = coefficients(tmp_path / "run")
    assert (chosen["multiple"], len(chosen["candidates"])) == (1e5, len(MULTIPLES))
    said = [event["text"] for event in RunView.open(tmp_path / "run").events() if event["event"] == "warning"]
    told = "takes the largest multiple that was tried, 100000; a larger one may give more"
    assert f"uncentered {told}" in said
    tried = [Candidate(**one) for one in chosen["candidates"]]
    assert f"takes {end_of_grid(1e5, tried)}" == told
    assert end_of_grid(3.0, tried) == ""


def test_a_validated_coefficient_without_a_newcomer_to_judge_by_says_so_and_what_to_do(
    tmp_path: Path, stream: Stream
) -> None:
    # Update 1 has no newcomer to find.
    sets = (*PRESSED, "method=uncentered", "coefficient_rule=validated", "evaluation.updates=[1]")
    with pytest.raises(ConfigError, match=r"has a place in A_TN.*balance"):
        start(tiny_config(*sets), tmp_path / "run", stream=stream, resources=each_step(tmp_path / "cache"))
