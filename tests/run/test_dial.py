"""The curve of a run, and the run that is kept at one of its points."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.tiny_run import each_step, tiny_config, tiny_stream

from meor import dial
from meor.errors import ConfigError, ModelError, RunError
from meor.evaluation.endpoints import MEANING
from meor.report.html import page_of, render
from meor.run.dialled import keep
from meor.run.session import resume, start
from meor.run.view import RunView
from meor.stream.files import write_stream
from meor.study.shared import pair_hash

SCALES = [0.5, 0.9, 1.0, 1.2, 2.0]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that rank test and validation facts, as the dial does: with train and valid as filter."""
    folder = tmp_path_factory.mktemp("dialled")
    write_stream(tiny_stream(), folder / "ring")
    made = each_step(folder / "cache")
    sets = ("evaluation.split=[test, valid]", "evaluation.filter_splits=[train, valid]", "seed=5")
    for name, more in {"none": (), "meor": ("method=meor", "coefficient=0.5")}.items():
        start(tiny_config(*sets, *more, stream=folder / "ring"), folder / name, resources=made)
    return folder


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_point_of_the_curve_is_what_the_run_kept_there_says(here: Path, tmp_path: Path, split: str) -> None:
    curve = dial(here / "none", scales=SCALES, split=split)
    as_trained = RunView.open(here / "none").endpoints()[split]
    for point, scale in enumerate(SCALES):
        kept = keep(here / "none", scale, tmp_path / "kept", force=True)[split]
        for name in MEANING:
            assert curve.points[point][name].to_json() == kept[name]
            if scale == 1.0:
                assert kept[name] == as_trained[name]
    assert len(set(curve.values("A_TN"))) > 2


def test_a_kept_run_is_whole_and_says_where_it_comes_from(here: Path, tmp_path: Path) -> None:
    source = RunView.open(here / "meor")
    keep(source, 1.5, tmp_path / "kept")
    view, stream = RunView.open(tmp_path / "kept"), tiny_stream()
    assert view.complete
    assert all(view.files.problem(name) is None for name in view.manifest["sha256"])
    assert set(view.manifest["sha256"]) == set(source.manifest["sha256"])
    assert view.config == source.config.model_copy(update={"dial": 1.5})
    assert view.manifest["config_hash"] != source.manifest["config_hash"]
    n_base = stream.entity_counts[0]
    for update in view.updates:
        assert torch.equal(view.model(update).entity[:n_base], source.model(update).entity[:n_base])
        assert torch.equal(view.model(update).entity[n_base:], 1.5 * source.model(update).entity[n_base:])
        assert torch.equal(view.model(update).relation, source.model(update).relation)
    events = {event["event"]: event for event in view.events()}
    assert events["dialled"]["run"] == "meor"
    assert events["dialled"]["scale"] == 1.5
    assert [event["event"] for event in view.events()].count("coefficient") == 1
    assert view.endpoints()["control"] == source.endpoints()["control"]


def test_readers_take_a_kept_run_and_its_pair_is_that_of_the_run(here: Path, tmp_path: Path) -> None:
    keep(here / "none", 0.7, tmp_path / "kept")
    view, stream = RunView.open(tmp_path / "kept"), tiny_stream()
    assert pair_hash(view, stream) == pair_hash(RunView.open(here / "none"), stream)
    assert "<svg" in render(page_of(tmp_path / "kept"))
    assert resume(tmp_path / "kept") == view.endpoints()


def test_a_kept_run_is_never_trained(here: Path, tmp_path: Path) -> None:
    keep(here / "none", 0.7, tmp_path / "kept")
    (tmp_path / "kept" / "endpoints.json").write_text("{}")
    with pytest.raises(RunError, match=r"meor dial RUN --keep 0\.7"):
        resume(tmp_path / "kept")
    config = RunView.open(tmp_path / "kept").config
    with pytest.raises(ConfigError, match="no setting of a training"):
        start(config, tmp_path / "again", resources=each_step(here / "cache"))


def test_what_cannot_be_dialled_is_said_with_its_reason(here: Path, tmp_path: Path) -> None:
    keep(here / "none", 0.7, tmp_path / "kept")
    with pytest.raises(RunError, match=r"dialled to 0\.7 already"):
        dial(tmp_path / "kept")
    with pytest.raises(RunError, match="is the run that is dialled"):
        keep(here / "none", 0.7, here / "none", force=True)
    with pytest.raises(RunError, match="holds a run"):
        keep(here / "none", 0.7, tmp_path / "kept")
    made = each_step(here / "cache")
    for name, more in {"calibration": ("method=calibration",), "transe": ("backbone=transe",)}.items():
        start(tiny_config(*more, stream=here / "ring"), tmp_path / name, resources=made)
    with pytest.raises(RunError, match="transformed scores"):
        dial(tmp_path / "calibration")
    with pytest.raises(ModelError, match="no inner product"):
        dial(tmp_path / "transe")
    manifest = json.loads((tmp_path / "transe" / "manifest.json").read_text())
    (tmp_path / "transe" / "manifest.json").write_text(json.dumps({**manifest, "complete": False}))
    with pytest.raises(RunError, match="unfinished"):
        dial(tmp_path / "transe")


def test_the_scale_that_is_proposed_keeps_newcomers(here: Path) -> None:
    curve = dial(here / "none", scales=SCALES)
    kept, gained = curve.values("H_cur"), curve.values("A_TN")
    chosen = SCALES.index(curve.safest())
    assert gained[chosen] >= gained[2] - 0.005
    fair = [old for old, new in zip(kept, gained, strict=True) if new >= gained[2] - 0.005]
    assert kept[chosen] == max(fair)
    assert dial(here / "none", scales=[0.5, 2.0]).safest() is None
