from __future__ import annotations

from pathlib import Path

import pytest

from meor.errors import ConfigError
from meor.study.plan import FIRST_SELECTION_SEED, PRESET_STUDIES, Study

SMALL = {"study": "small", "stream": "world", "methods": ["replay", "meor"]}


@pytest.mark.parametrize("name", PRESET_STUDIES)
def test_every_preset_is_a_sound_plan(name: str) -> None:
    plan = Study.load(name)
    assert plan.study == name
    assert "replay" in plan.methods


def test_presets_are_the_papers_comparisons() -> None:
    assert Study.load("primary").methods == ("replay", "calibration", "mmr", "uor", "meor")
    assert set(Study.load("ablation").methods) >= {"mmr", "uor", "shuffled", "uncentered", "meor"}
    transfer = Study.load("transfer")
    assert (transfer.stream, transfer.backbone) == (("FBInc-S", "FBInc-L"), ("complex", "distmult", "transe"))
    assert Study.load("boundary").stream == ("WN-CKGE",)
    assert Study.load("frontier").multiples == (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
    assert Study.load("primary").pairs == 8


def test_what_comes_later_wins(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("stream: world\nmethods: [replay, meor]\nsettings: {dim: 8, base: {epochs: 5}}\n")
    plan = Study.load(str(path), changes={"pairs": 3, "stream": None}, sets=["dim=4", "base.batch=64"])
    assert (plan.study, plan.pairs, plan.stream) == ("mine", 3, ("world",))
    config = plan.config("world", "complex", "replay", "practical", "meor", 2, coefficient=0.5)
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


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"metods": ["meor"]}, "nearest setting is methods"),
        ({"methods": ["meor"]}, "must name replay"),
        ({"methods": ["replay", "meorr"]}, "nearest option is meor"),
        ({"methods": ["replay", "replay"]}, "twice"),
        ({"pairs": 0}, "pairs cannot be 0"),
        ({"preset": "best"}, "preset"),
        ({"coefficient_rule": "guess"}, "balance, validated"),
        ({"coefficient_rule": -1}, "balance, validated"),
        ({"multiples": [3], "coefficient_rule": "validated"}, "name the rule balance"),
        ({"settings": {"seed": 3}}, "seed is no setting of its runs"),
        ({"sets": ["evaluation.split=valid"]}, "evaluation.split is no setting"),
        ({"settings": {"dmi": 8}}, "nearest setting is dim"),
        ({"settings": {"evaluation": 3}}, "group of settings"),
        ({"settings": {"evaluation": {"sample": -5}}}, "evaluation.sample cannot be -5"),
        ({"sets": ["evaluation.sample=few"]}, "evaluation.sample cannot be 'few'"),
        ({"backbone": "rotate"}, "complex"),
        ({"study": "../out"}, "study cannot be"),
        ({"stream": []}, "stream"),
    ],
)
def test_whatever_is_wrong_is_one_sentence(change: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Study.resolve({**SMALL, **change})


def test_an_unknown_study_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="primary, ablation"):
        Study.load("primery")


def test_a_number_is_a_rule() -> None:
    plan = Study.resolve({**SMALL, "coefficient_rule": ["balance", 0.3, "1"]})
    assert plan.coefficient_rule == ("balance", "0.3", "1.0")


def test_selection_pairs_are_never_pairs_of_the_study() -> None:
    plan = Study.resolve({**SMALL, "coefficient_rule": "validated", "selection_pairs": 2})
    assert list(plan.selection_seeds) == [FIRST_SELECTION_SEED, FIRST_SELECTION_SEED + 1]
    assert not set(plan.selection_seeds) & set(plan.seeds)
    assert not list(Study.resolve(SMALL).selection_seeds)
    with pytest.raises(ConfigError):
        Study.resolve({**SMALL, "first_seed": FIRST_SELECTION_SEED})
