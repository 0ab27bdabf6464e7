from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from tests.stream.faulty import early_in_valid, repeated
from typer.testing import CliRunner

from meor.cli import app

KEYS = ["entities", "relations", "facts", "train", "valid", "test", "new_entities", "new_relations"]


@pytest.fixture(autouse=True)
def _no_data_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MEOR_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["data", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_list_names_every_registered_stream_with_its_licence() -> None:
    code, out, _ = call("list")
    assert code == 0
    for words in (["world"], ["ENTITY", "Apache-2.0"], ["FBInc-S", "MIT"], ["WN-CKGE", "none stated"]):
        assert any(all(word in line for word in words) for line in out.splitlines())


def test_info_json_has_exactly_the_promised_shape() -> None:
    code, out, _ = call("info", "World", "--json")
    said = json.loads(out)
    assert code == 0
    assert list(said) == ["name", "snapshots"]
    assert said["name"] == "world"
    assert len(said["snapshots"]) == 5
    for row in said["snapshots"]:
        assert list(row) == KEYS
        assert row["facts"] == row["train"] + row["valid"] + row["test"]
    totals = [row["entities"] for row in said["snapshots"]]
    assert [row["new_entities"] for row in said["snapshots"][1:]] == [
        after - before for before, after in itertools.pairwise(totals)
    ]


def test_info_shows_whole_numbers_to_a_person() -> None:
    _, out, _ = call("info", "world")
    assert "4,744" in out
    assert "world" in out


def test_a_stream_that_is_not_here_is_explained_with_the_way_to_get_it() -> None:
    for command in ("info", "check"):
        code, _, err = call(command, "entity")
        assert code == 2
        assert "meor data fetch ENTITY" in err
        assert len(err.splitlines()) == 1


def test_a_misspelt_name_gets_the_nearest_registered_one() -> None:
    for command in ("info", "check", "fetch"):
        code, _, err = call(command, "fbincs")
        assert code == 2
        assert "Did you mean FBInc-S?" in err


def test_there_is_nothing_to_fetch_for_the_world() -> None:
    code, out, _ = call("fetch", "world")
    assert code == 0
    assert "nothing to fetch" in out


def test_grow_writes_a_stream_that_info_and_check_can_read(tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"e{i}\tr{i % 3}\te{(7 * i + 1) % 60}\n" for i in range(240)))
    out = tmp_path / "grown"
    code, said, err = call("grow", str(facts), str(out), "--snapshots", "3", "--by", "degree", "--seed", "4")
    assert code == 0, err
    assert "3 snapshots" in said
    code, said, _ = call("info", str(out), "--json")
    assert code == 0
    assert len(json.loads(said)["snapshots"]) == 3
    code, said, _ = call("check", str(out))
    assert code == 0
    assert "sound" in said


def test_grow_refuses_an_unknown_order(tmp_path: Path) -> None:
    code, _, err = call("grow", "facts.tsv", str(tmp_path / "out"), "--by", "size")
    assert code == 2
    assert "random" in err
    assert not (tmp_path / "out").exists()


def test_clean_writes_a_sound_stream_and_says_what_it_changed(tmp_path: Path) -> None:
    faulty, out = early_in_valid(repeated(tmp_path / "faulty", 7)), tmp_path / "clean"
    code, said, err = call("clean", str(faulty), str(out))
    assert code == 0, err
    assert "dropped 7 duplicate facts" in said
    assert "1/train.txt, line 2: 'p0', 'knows', 'p1' (also " in said
    assert "and 2 more" in said
    assert "moved 1 valid or test fact to train" in said
    assert call("check", str(out))[0] == 0
    assert call("clean", str(faulty), str(out))[0] == 2
    assert "nothing to change" in call("clean", str(out), str(tmp_path / "again"))[1]


def test_clean_can_be_told_to_refuse(tmp_path: Path) -> None:
    faulty, out = repeated(tmp_path / "faulty", 7), tmp_path / "clean"
    code, _, err = call("clean", str(faulty), str(out), "--duplicates", "error")
    assert code == 2
    assert "7 such facts" in err
    assert not out.exists()


def test_check_and_info_say_what_a_rule_left_out(tmp_path: Path) -> None:
    faulty = early_in_valid(tmp_path / "faulty")
    for command in ("check", "info"):
        code, _, err = call(command, str(faulty), "--unseen", "drop")
        assert code == 0
        assert "dropped 2 valid or test facts" in err
