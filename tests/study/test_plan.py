from __future__ import annotations

from pathlib import Path

import pytest

from meor.errors import ConfigError
from meor.study.plan import FIRST_SELECTION_SEED, Study
from meor.study.presets import PRESET_STUDIES

SMALL = {"study": "small", "stream": "world", "methods": ["none", "meor"]}


@pytest.mark.parametrize("name", PRESET_STUDIES)
def test_every_preset_is_a_sound_plan(name: str) -> None:
    plan = Study.load(name)
    assert plan.study == name
    assert "none" in plan.methods


def test_presets_are_the_papers_comparisons() -> None:
    assert Study.load("primary").methods == ("none", "calibration", "mmr", "uor", "meor")
    assert set(Study.load("ablation").methods) >= {"mmr", "uor", "shuffled", "uncentered", "meor"}
    transfer = Study.load("transfer")
    assert (transfer.stream, transfer.backbone) == (("FBInc-S", "FBInc-L"), ("complex", "distmult", "transe"))
    assert Study.load("boundary").stream == ("WN-CKGE",)
    frontier = Study.load("frontier")
    assert frontier.schedule == "own"
    assert {curve.method for curve in frontier.curves.values()} >= {"none", "cap", "meor", "cap+mmr"}
    assert {Study.load(name).schedule for name in ("primary", "ablation", "transfer")} == {"pair"}
    assert Study.load("primary").pairs == 8


def test_what_comes_later_wins(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("stream: world\nmethods: [none, meor]\nsettings: {dim: 8, base: {epochs: 5}}\n")
    plan = Study.load(str(path), changes={"pairs": 3, "stream": None}, sets=["dim=4", "base.batch=64"])
    assert (plan.study, plan.pairs, plan.stream) == ("mine", 3, ("world",))
    config = plan.config(plan.groups[0], "meor", 2, coefficient=0.5)
    assert (config.dim, config.base.epochs, config.base.batch) == (4, 5, 64)
    assert (config.seed, config.coefficient, config.evaluation.split) == (2, 0.5, ("test",))


def test_the_frontier_ranks_a_sample_unless_told_otherwise() -> None:
    assert Study.load("frontier").sample == 5000
    assert Study.load("frontier", sets=["evaluation.sample=0"]).sample == 0
    assert Study.load("frontier", sets=["dim=8"]).sample == 5000
    assert {Study.load(name).sample for name in PRESET_STUDIES if name != "frontier"} == {0}


def test_a_plan_reads_back_from_what_it_writes(tmp_path: Path) -> None:
    plan = Study.load("primary", sets=["dim=8"])
    (tmp_path / "again.yaml").write_text(plan.to_yaml())
    assert Study.load(str(tmp_path / "again.yaml")) == plan


MEOR_CURVE = {"method": "meor", "values": [1]}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"metods": ["meor"]}, "nearest setting is methods"),
        ({"methods": ["meor"]}, "must name none"),
        ({"methods": ["none", "meorr"]}, "nearest option is meor"),
        ({"methods": ["none", "replay"]}, "twice"),
        ({"pairs": 0}, "pairs cannot be 0"),
        ({"preset": "best"}, "preset"),
        ({"coefficient_rule": "guess"}, "balance, validated"),
        ({"coefficient_rule": -1}, "balance, validated"),
        ({"curves": {"c": {"method": "none", "values": [1]}}}, "c goes along a multiple"),
        (
            {"curves": {"c": {"method": "meor", "along": "penalty.beta", "values": [1]}}},
            "c goes along penalty.beta, so its settings give the coefficient of meor",
        ),
        ({"curves": {"c": {"method": "cap+meor", "values": [1]}}}, "must name cap"),
        ({"curves": {"c": {"method": "cap", "along": "length", "values": [1]}}}, "its method is none"),
        ({"curves": {"a/b": MEOR_CURVE, "a b": MEOR_CURVE}}, "share one folder"),
        ({"curves": {"c": {"method": "none", "along": "refine.stps", "values": [1]}}}, "refine.steps"),
        ({"settings": {"seed": 3}}, "settings cannot hold seed, .* write first_seed in the study file"),
        (
            {"sets": ["evaluation.split=valid"]},
            "--set cannot hold evaluation.split, .* write judged in the study file",
        ),
        ({"sets": ["stream=x"]}, "--set cannot hold stream, .* give --stream"),
        ({"stream": ["a/facts", "b/facts"]}, "a/facts and b/facts, whose runs would share one folder"),
        ({"stream": ["x/my facts", "my-facts"]}, "would share one folder, my-facts"),
        ({"settings": {"dmi": 8}}, "nearest setting is dim"),
        ({"settings": {"evaluation": 3}}, "group of settings"),
        ({"settings": {"evaluation": {"sample": -5}}}, "evaluation.sample cannot be -5"),
        ({"sets": ["evaluation.sample=few"]}, "evaluation.sample cannot be 'few'"),
        ({"backbone": "unknown"}, "complex"),
        ({"study": "../out"}, "study: '../out' is no name of a folder"),
        ({"study": "my study"}, "no space"),
        ({"stream": []}, "stream"),
    ],
)
def test_whatever_is_wrong_is_one_sentence(change: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Study.resolve({**SMALL, **change})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("stream: world\nmethods: [none, meorr]\n", "line 2: methods.1 cannot be 'meorr'"),
        ("stream: world\n\nmethods: [meor]\n", "line 3: methods must name none"),
        ("methods: [none]\nstream: [a/x, b/x]\n", "line 2: stream names a/x and b/x"),
        ("methods: [none]\nstream: x\nsettings:\n  seed: 3\n", "line 3: settings cannot hold seed"),
        ("study: my study\nmethods: [none]\nstream: x\n", "line 1: study: 'my study'"),
    ],
)
def test_an_error_in_a_study_file_names_the_file_and_the_line(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as said:
        Study.load(str(path))
    assert f"{path}, {told}" in str(said.value)
    with pytest.raises(ConfigError) as said:
        Study.load(str(path), changes={"methods": ["mmr"], "stream": ["x"], "study": "mine"}, sets=["seed=3"])
    assert "line 2" not in str(said.value)  # what was given on the command line stands on no line


def test_an_unknown_study_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="primary, ablation"):
        Study.load("primery")


def test_a_number_is_a_rule() -> None:
    plan = Study.resolve({**SMALL, "coefficient_rule": ["balance", 0.3, "1"]})
    assert plan.coefficient_rule == ("balance", "0.3", "1.0")


def test_selection_pairs_are_never_pairs_of_the_study() -> None:
    plan = Study.resolve({**SMALL, "coefficient_rule": "validated", "selection_pairs": 2})
    assert list(plan.selection_seeds) == [FIRST_SELECTION_SEED, FIRST_SELECTION_SEED + 1]
    assert not set(plan.selection_seeds) & {seed for seed, _ in plan.runs_of(plan.groups[0])}
    assert not list(Study.resolve(SMALL).selection_seeds)
    with pytest.raises(ConfigError):
        Study.resolve({**SMALL, "first_seed": FIRST_SELECTION_SEED})
