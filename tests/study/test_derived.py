"""Curves that are made from the finished runs of others: dialled, or with their scores transformed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.study.tiny_study import tiny_plan

from meor.errors import ConfigError
from meor.run.view import RunView
from meor.study.conduct import RUNS_FOLDER, Findings, conduct
from meor.study.plan import Study
from meor.study.rows import ENDPOINTS, Row
from meor.study.task import Means, Observer, Outcome

CAP = {"method": "cap", "along": "cap.factor", "values": [0.8, 1.2]}
CURVES: dict[str, Any] = {
    "cap": CAP,
    "dialled": {"method": "cap", "of": "cap", "place": 0.8, "along": "dial", "values": [1.0, 4.0]},
    "calibrated": {"method": "calibration", "of": "cap", "along": "place", "values": [0.8, 1.2]},
}


def plan(folder: Path, **changes: Any) -> Study:
    return tiny_plan(folder, methods=["none"], curves=CURVES, schedule="own", tables=["frontier"], **changes)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Findings]:
    place = tmp_path_factory.mktemp("derived")
    means = Means(cache=place / "cache", keep_weights=False)
    return place, conduct(plan(place), place / "out", means=means)


def row(found: Findings, curve: str, at: float, pair: int = 0) -> Row:
    (only,) = [one for one in found.rows if (one.curve, one.at, one.pair) == (curve, at, pair)]
    return only


def values(one: Row) -> list[float | None]:
    return [one.endpoint(name) for name in ENDPOINTS]


def test_a_scale_of_one_is_the_run_itself_and_others_are_not(made: tuple[Path, Findings]) -> None:
    _, found = made
    assert found.failures == {}
    for pair in range(2):
        source = row(found, "cap", 0.8, pair)
        assert values(row(found, "dialled", 1.0, pair)) == values(source)
        assert values(row(found, "dialled", 4.0, pair)) != values(source)


def test_transforms_read_the_models_of_their_place_and_belong_to_the_pair(
    made: tuple[Path, Findings],
) -> None:
    place, found = made
    for at in (0.8, 1.2):
        calibrated, source = row(found, "calibrated", at), row(found, "cap", at)
        assert calibrated.pair_hash == source.pair_hash
        runs = [RunView.open(place / "out" / RUNS_FOLDER / each.run) for each in (calibrated, source)]
        listed = [view.manifest["sha256"]["update-2/model.safetensors"] for view in runs]
        assert listed[0] == listed[1]
        assert runs[0].config.method == "calibration"


def test_only_weights_that_others_are_made_from_are_kept(made: tuple[Path, Findings]) -> None:
    place, found = made
    for one in found.rows:
        weights = list((place / "out" / RUNS_FOLDER / one.run).glob("update-*/model.safetensors"))
        assert bool(weights) == (one.curve in (None, "cap"))


def test_a_second_call_makes_nothing_again(made: tuple[Path, Findings]) -> None:
    place, found = made
    outcomes: list[Outcome] = []

    class Seen(Observer):
        def cell(self, outcome: Outcome) -> None:
            outcomes.append(outcome)

    again = conduct(plan(place), place / "out", means=Means(cache=place / "cache"), observer=Seen())
    assert again.rows == found.rows
    assert all(outcome.reused for outcome in outcomes)


def test_what_needs_a_run_that_failed_is_named_and_the_rest_is_made(tmp_path: Path) -> None:
    curves = {**CURVES, "cap": {**CAP, "settings": {"refine.learning_rate": 1e300}}}
    short = tiny_plan(tmp_path, methods=["none"], curves=curves, schedule="own", tables=["frontier"], pairs=1)
    found = conduct(short, tmp_path / "out", means=Means(cache=tmp_path / "cache"))
    assert [one.curve for one in found.rows] == [None]
    assert any("starts from it" in reason for reason in found.failures.values())


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        ({"of": "nobody", "place": 0.8, "along": "dial"}, "no curve whose runs are trained"),
        ({"of": "cap", "place": 0.9, "along": "dial"}, "no values of cap"),
        ({"of": "cap", "along": "dial"}, "at which `place`"),
        ({"place": 0.8, "along": "dial"}, "must name a curve with `of`"),
        ({"of": "cap", "place": 0.8, "along": "dial", "method": "none"}, "its method is cap"),
        ({"of": "cap", "along": "place"}, "only then"),
        ({"method": "calibration", "along": "refine.steps"}, "only then"),
    ],
)
def test_a_curve_that_starts_from_nothing_is_refused(tmp_path: Path, curve: Any, said: str) -> None:
    given = {"cap": CAP, "odd": {"method": "cap", "values": [1.0], **curve}}
    with pytest.raises(ConfigError, match=said):
        tiny_plan(tmp_path, methods=["none"], curves=given)


def test_validation_facts_alone_may_judge_a_study(tmp_path: Path) -> None:
    short = tiny_plan(tmp_path, methods=["none"], judged="valid", pairs=1)
    found = conduct(short, tmp_path / "out", means=Means(cache=tmp_path / "cache"))
    view = RunView.open(tmp_path / "out" / RUNS_FOLDER / found.rows[0].run)
    assert set(view.endpoints()) == {"valid"}
    assert found.rows[0].H_cur == view.endpoints()["valid"]["H_cur"]["value"]
