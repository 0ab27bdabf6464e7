"""How long a run of a study is trained: as long as the host alone of its pair, or a share of that."""

from __future__ import annotations

from pathlib import Path

from tests.run.test_stopping import STOPS
from tests.study.tiny_study import tiny_plan
from tests.tiny_run import SETTINGS

from meor.run.view import RunView
from meor.study.conduct import RUNS_FOLDER, conduct
from meor.study.plan import Study
from meor.study.rows import ENDPOINTS
from meor.study.task import Means

CURVES = {"length": {"method": "none", "along": "length", "values": [0.5, 1, 2]}}


def plan(folder: Path, *sets: str) -> Study:
    chosen = {"sets": [*SETTINGS, *sets], "schedule": "own", "tables": ["frontier"]}
    return tiny_plan(folder, methods=["none"], curves=CURVES, **chosen)


def test_one_is_the_host_alone_and_others_are_shares_of_its_passes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = conduct(plan(tmp_path, *STOPS), out, means=Means(cache=tmp_path / "cache"))
    assert found.failures == {}
    for pair in range(2):
        mine = {row.at: row for row in found.rows if row.pair == pair}
        ends = {at: [row.endpoint(name) for name in ENDPOINTS] for at, row in mine.items()}
        assert ends[1.0] == ends[None]
        assert ends[0.5] != ends[None]
        schedule = {
            at: RunView.open(out / RUNS_FOLDER / row.run).config.refine.schedule for at, row in mine.items()
        }
        own = schedule[1.0]
        assert own is not None
        assert schedule == {None: None, 1.0: own} | {
            times: tuple(max(1, round(times * made)) for made in own) for times in (0.5, 2.0)
        }


def test_a_host_whose_steps_are_given_is_trained_for_a_share_of_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = conduct(plan(tmp_path, "refine.passes=4"), out, means=Means(cache=tmp_path / "cache"))
    assert found.failures == {}
    runs = {row.at: RunView.open(out / RUNS_FOLDER / row.run) for row in found.rows if row.pair == 0}
    made = {
        at: [each["number"] for each in view.events() if each["event"] == "pass"] for at, view in runs.items()
    }
    ends = {at: numbers[-1] for at, numbers in made.items()}
    assert ends == {None: 4, 0.5: 2, 1.0: 4, 2.0: 8}


def test_a_run_as_long_as_the_host_alone_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    sets = {"sets": [*SETTINGS, *STOPS], "coefficient_rule": 0.1, "pairs": 1, "tables": ["absolute"]}
    plan, out = tiny_plan(tmp_path, methods=["none", "meor"], **sets), tmp_path / "out"
    means = Means(cache=tmp_path / "cache")
    whole = conduct(plan, out, means=means)
    row = next(row for row in whole.rows if row.method == "meor")
    (out / RUNS_FOLDER / f"{row.run}.json").unlink()  # the run was begun, and has no row yet
    again = conduct(plan, out, means=means)
    assert again.failures == {}
    assert again.rows == whole.rows
