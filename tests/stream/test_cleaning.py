"""Duplicates and facts held out too early: refused with the command that helps, dropped, or moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stream.faulty import early_in_valid, repeated, write
from tests.stream.test_files import labelled

from meor.errors import ConfigError, StreamError
from meor.stream.files import clean_stream, read_stream
from meor.stream.rules import Duplicates, Unseen
from meor.stream.snapshot import Stream


def read(path: Path, **rules: str) -> tuple[Stream, list[str]]:
    told: list[str] = []
    return read_stream(path, report=told.append, **rules), told  # type: ignore[arg-type]


def test_188_repeated_facts_are_refused_with_the_command_and_load_with_one_option(tmp_path: Path) -> None:
    path = repeated(tmp_path / "published", 188)
    with pytest.raises(StreamError) as refused:
        read_stream(path)
    assert "188 such facts" in str(refused.value)
    assert f"`meor data clean {path} OUT --duplicates drop`" in str(refused.value)
    assert "unseen" not in str(refused.value)
    stream, told = read(path, duplicates="drop")
    assert [sentence.split(";")[0] for sentence in told] == ["dropped 188 duplicate facts"]
    assert stream.content_hash() == read_stream(repeated(tmp_path / "sound", 0)).content_hash()


def test_an_entity_first_seen_in_valid_is_refused_with_the_command_and_loads_with_one_option(
    tmp_path: Path,
) -> None:
    path = early_in_valid(tmp_path / "published")
    with pytest.raises(StreamError, match=r"entity 'late' appears in valid of snapshot 1") as refused:
        read_stream(path)
    assert refused.value.path == path / "1/valid.txt"
    assert f"`meor data clean {path} OUT --unseen move`" in str(refused.value)
    moved, _ = read(path, unseen="move")
    dropped, _ = read(path, unseen="drop")
    assert "late" in moved.entities
    assert "late" not in dropped.entities


def test_a_moved_fact_joins_the_train_facts_of_its_snapshot_and_later_ones_stay(tmp_path: Path) -> None:
    path = early_in_valid(tmp_path / "s")
    stream, told = read(path, unseen="move")
    first, second = labelled(stream)
    assert second["train"] == [("dan", "knows", "ann"), ("late", "knows", "ann")]
    assert second["valid"] == []
    assert second["test"] == [("late", "likes", "cat")]
    assert first == labelled(read_stream(write(tmp_path / "t", {"0": labelled(stream)[0]})))[0]
    assert stream.entities.admitted_at[stream.entities.id("late")] == 1
    assert told == [
        "moved 1 valid or test fact to train, because no train fact had named what they name; the first is "
        f"{path}/1/valid.txt, line 1: 'late', 'knows', 'ann' (new is the entity 'late')"
    ]


def test_dropping_leaves_out_every_fact_about_what_was_never_trained(tmp_path: Path) -> None:
    stream, told = read(early_in_valid(tmp_path / "s"), unseen="drop")
    assert labelled(stream)[1] == {"train": [("dan", "knows", "ann")], "valid": [], "test": []}
    assert "dropped 2 valid or test facts" in told[0]


def test_a_name_trained_in_an_earlier_snapshot_is_seen_and_one_of_a_later_is_not(tmp_path: Path) -> None:
    facts = {
        "0": {"train": [("a", "r", "b")], "test": [("b", "r", "z")]},
        "1": {"train": [("z", "r", "a")], "test": [("b", "r", "a")]},
    }
    stream, _ = read(write(tmp_path / "s", facts), unseen="drop")
    assert [snapshot["test"] for snapshot in labelled(stream)] == [[], [("b", "r", "a")]]


def test_a_dropped_fact_is_no_duplicate_of_the_train_fact_that_follows(tmp_path: Path) -> None:
    facts = {
        "0": {"train": [("a", "r", "b")], "valid": [("a", "r", "x")]},
        "1": {"train": [("a", "r", "x")], "test": [("x", "r", "a")]},
    }
    stream, told = read(write(tmp_path / "s", facts), unseen="drop")
    assert labelled(stream)[1] == {"train": [("a", "r", "x")], "valid": [], "test": [("x", "r", "a")]}
    assert len(told) == 1


def test_a_snapshot_may_get_its_only_train_facts_from_those_that_move(tmp_path: Path) -> None:
    facts = {"0": {"train": [("a", "r", "b")]}, "1": {"train": [], "test": [("n", "r", "a")]}}
    stream, _ = read(write(tmp_path / "s", facts), unseen="move")
    assert labelled(stream)[1]["train"] == [("n", "r", "a")]
    with pytest.raises(StreamError, match="snapshot 1 has no train fact"):
        read(tmp_path / "s", unseen="drop")


def test_both_faults_are_told_at_once(tmp_path: Path) -> None:
    path = early_in_valid(repeated(tmp_path / "s", 3))
    with pytest.raises(StreamError, match=r"3 such facts .* and 2 that name") as refused:
        read_stream(path)
    assert f"`meor data clean {path} OUT --duplicates drop --unseen move`" in str(refused.value)


def test_a_path_that_a_shell_would_split_is_quoted_in_the_command(tmp_path: Path) -> None:
    path = repeated(tmp_path / "my stream", 1)
    with pytest.raises(StreamError, match=r"meor data clean '.*my stream' OUT"):
        read_stream(path)


@pytest.mark.parametrize("duplicates", ["error", "drop"])
@pytest.mark.parametrize("unseen", ["error", "drop", "move"])
def test_a_sound_stream_is_the_same_under_every_rule(
    tmp_path: Path, duplicates: Duplicates, unseen: Unseen
) -> None:
    path = repeated(tmp_path / "s", 0)
    stream, told = read(path, duplicates=duplicates, unseen=unseen)
    assert stream.content_hash() == read_stream(path).content_hash()
    assert not told


@pytest.mark.parametrize("unseen", ["drop", "move"])
def test_a_clean_copy_holds_what_the_rules_read(tmp_path: Path, unseen: Unseen) -> None:
    path = early_in_valid(repeated(tmp_path / "s", 3))
    stream, changes = clean_stream(path, tmp_path / "clean", unseen=unseen)
    assert read_stream(tmp_path / "clean").content_hash() == stream.content_hash()
    assert read(path, duplicates="drop", unseen=unseen)[0].content_hash() == stream.content_hash()
    assert [change.count for change in changes] == [3, 1 if unseen == "move" else 2]


def test_a_rule_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="error, drop, move"):
        read(repeated(tmp_path / "s", 0), unseen="keep")
