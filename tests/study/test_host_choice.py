from __future__ import annotations

from pathlib import Path

import pytest

from meor.errors import ConfigError
from meor.study import plan as plan_module
from meor.study.cells import alone_cells, capped_cells, method_cells, validated_cells
from meor.study.host_choice import host_settings, host_text
from meor.study.plan import Study

SMALL = {"study": "small", "stream": "world", "methods": ["none", "meor"]}


def study(**changes: object) -> Study:
    return Study.resolve({**SMALL, **changes})


@pytest.mark.parametrize(
    "written",
    [
        {"name": "lkge", "variant": "released", "alpha": 0.5},
        "lkge variant=released alpha=0.5",
        " lkge  variant=released alpha=0.5 ",
    ],
)
def test_a_host_with_settings_is_named_by_one_text_however_it_is_written(written: object) -> None:
    assert host_text(written) == "lkge variant=released alpha=0.5"
    assert host_settings(host_text(written)) == {"name": "lkge", "variant": "released", "alpha": 0.5}
    plan = study(host=[written, "lkge"])
    assert plan.host == ("lkge variant=released alpha=0.5", "lkge")
    assert study(host=written).host == plan.host[:1]
    first, second = (plan.config(group, "none", 0).host for group in plan.groups)
    assert (first.variant, first.alpha, second.variant) == ("released", 0.5, "clean")  # type: ignore[attr-defined]
    assert Study.resolve(plan.model_dump(mode="json")) == plan


def test_hosts_with_other_settings_have_folders_of_their_own() -> None:
    plan = study(host=["lkge", "lkge variant=released"])
    names = [cell.name for cell in alone_cells(plan)]
    assert len(set(names)) == len(names)
    assert "world-lkge-variant-released-transe-inverse-practical/pair-0/none" in names
    assert "world-lkge-transe-inverse-practical/pair-0/none" in names


def test_a_backbone_is_for_hosts_that_take_any_and_others_bring_theirs() -> None:
    plan = study(host=["replay", "lkge"], backbone=["complex", "transe"])
    found = [(group.host, group.backbone) for group in plan.groups]
    assert found == [("replay", "complex"), ("replay", "transe"), ("lkge", "transe-inverse")]
    assert [group.backbone for group in study(host=["replay", "ewc"]).groups] == ["complex", "transe-inverse"]
    for group in plan.groups:
        assert plan.config(group, "none", 0).backbone == group.backbone


def test_transfer_has_the_ten_rows_of_the_papers_table() -> None:
    plan = Study.load("transfer")
    assert plan.preset == ("practical",)
    assert Study.load("transfer", changes={"preset": ["paper"]}).preset == ("paper",)
    learners = [(group.host, group.backbone) for group in plan.groups]
    wanted = [("replay", name) for name in ("complex", "distmult", "transe")]
    assert learners == 2 * [*wanted, ("lkge", "transe-inverse"), ("incde", "transe-inverse")]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"host": "lkge", "backbone": "complex"},
            "backbone names complex, which no host of the study trains",
        ),
        ({"host": ["lkge", {"name": "lkge"}]}, "host names something twice"),
        ({"host": "lkge variant=relased"}, "variant"),
        ({"host": "lkge released"}, r"`lkge released` has a setting that is not key=value: released"),
        ({"host": {"variant": "released"}}, "host"),
        ({"host": "lkg"}, "host.*nearest option is lkge"),
        ({"controlled_pairs": {"ewc": 1}}, "controlled_pairs names ewc, which is no host of the study"),
        ({"controlled_pairs": {"replay": -1}}, "controlled_pairs"),
    ],
)
def test_what_is_wrong_with_hosts_is_one_sentence(change: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        study(**change)


def test_methods_run_in_fewer_pairs_where_the_plan_says_so_and_the_host_alone_in_all() -> None:
    plan = study(
        host=["ewc variant=released", "ewc", "lkge"],
        pairs=3,
        controlled_pairs={"ewc variant=released": 0, "ewc": 1, "lkge": 7},
        coefficient_rule=["balance", "validated"],
    )
    released, ewc, lkge = plan.groups
    assert [(cell.group, cell.seed) for cell in alone_cells(plan) if cell.split == "test"] == [
        (group, seed) for group in plan.groups for seed in range(3)
    ]
    wanted = [(ewc, 0), *((lkge, seed) for seed in range(3))]
    assert [(cell.group, cell.seed) for cell in method_cells(plan)] == wanted
    chosen = {(group, "meor"): 3.0 for group in plan.groups}
    assert [(cell.group, cell.seed) for cell in validated_cells(plan, chosen)] == wanted
    assert plan.methods_of(released) == ("none",)


def test_the_default_control_is_that_of_each_group_with_what_it_starts_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def chosen(backbone: str, host: str) -> str:
        asked.append((backbone, host))
        return "cap+meor" if backbone == "complex" else "meor"

    monkeypatch.setattr(plan_module, "default_method", chosen)
    plan = study(host=["replay", "lkge variant=released"], methods=["none", "meor", "default"], pairs=1)
    assert [plan.methods_of(group) for group in plan.groups] == [
        ("none", "meor", "cap", "cap+meor"),
        ("none", "meor"),
    ]
    assert set(asked) == {("complex", "replay"), ("transe-inverse", "lkge")}
    assert [cell.method for cell in capped_cells(plan)] == ["cap"]
    assert [cell.method for cell in method_cells(plan)] == ["meor", "cap+meor", "meor"]


def test_a_part_of_the_field_is_chosen_by_its_hosts() -> None:
    plan = Study.load("field", changes={"host": ["ewc", "lkge variant=released"]})
    assert plan.host == ("ewc", "lkge variant=released")
    assert plan.controlled_pairs == {"ewc": 1, "lkge variant=released": 0}
    assert [group.backbone for group in Study.load("transfer", changes={"host": ["incde"]}).groups] == [
        "transe-inverse",
        "transe-inverse",
    ]
    some = Study.load("transfer", changes={"host": ["replay", "incde"], "backbone": ["transe"]})
    assert [group.backbone for group in some.groups[:2]] == ["transe", "transe-inverse"]


def test_the_field_controls_lkge_and_incde_in_every_pair_and_the_others_in_one() -> None:
    plan = Study.load("field")
    assert plan.asks_for_protocols
    assert (plan.stream, plan.pairs) == (("ENTITY",), 3)
    counted = {
        group.host: sum(method != "none" for _, method in plan.runs_of(group)) for group in plan.groups
    }
    released = {host: count for host, count in counted.items() if "released" in host}
    assert len(released) == 5
    assert set(released.values()) == {0}
    assert (counted["lkge"], counted["incde"]) == (3, 3)
    assert {counted[host] for host in ("fine-tune", "ewc", "emr", "fastkge")} == {1}
    assert counted["replay"] == 2, "MEOR, and the cap, which is the default there"


def test_a_host_in_a_study_file_may_have_settings(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("stream: world\nmethods: [none]\nhost:\n  - replay\n  - {name: emr, memory: 100}\n")
    plan = Study.load(str(path))
    assert plan.host == ("replay", "emr memory=100")
