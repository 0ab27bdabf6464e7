from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from tests.stream.published import ENTRY, FILES

from meor.errors import StreamError
from meor.stream import registry
from meor.stream.registry import (
    check_there,
    entries,
    entry_of,
    find_entry,
    find_folder,
    open_stream,
    verify,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entries", lambda: (ENTRY,))


def put(place: Path, name: str = "Small") -> Path:
    for path, raw in FILES.items():
        (place / name / path).parent.mkdir(parents=True, exist_ok=True)
        (place / name / path).write_bytes(raw)
    return place / name


def test_the_papers_four_streams_are_registered_with_publisher_commit_licence_and_hashes() -> None:
    assert [entry.name for entry in entries()] == ["ENTITY", "FBInc-S", "FBInc-L", "WN-CKGE"]
    for entry in entries():
        assert re.fullmatch(r"[\w-]+/[\w-]+", entry.repository)
        assert re.fullmatch(r"[0-9a-f]{40}", entry.commit)
        assert entry.licence in {"Apache-2.0", "MIT", "none stated"}
        assert [file.path for file in entry.files] == [
            f"{snapshot}/{split}.txt" for snapshot in range(5) for split in ("train", "valid", "test")
        ]
        assert all(re.fullmatch(r"[0-9a-f]{64}", file.sha256) and file.size > 0 for file in entry.files)


@pytest.mark.parametrize("name", ["ENTITY", "entity", "Entity", "fbinc-s", "wn-ckge"])
def test_names_count_in_any_case(name: str) -> None:
    entry = find_entry(name)
    assert entry is not None
    assert entry.name.lower() == name.lower()


@pytest.mark.parametrize(
    ("typed", "meant"), [("entitty", "ENTITY"), ("WNCKGE", "WN-CKGE"), ("wrld", "world")]
)
def test_an_unknown_name_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    for ask in (open_stream, entry_of):
        with pytest.raises(StreamError, match=f"Did you mean {meant}"):
            ask(typed)


def test_a_name_like_no_other_gets_the_list() -> None:
    with pytest.raises(StreamError, match="Registered are world, ENTITY") as said:
        open_stream("qqqqqq")
    assert "Did you mean" not in str(said.value)


def test_world_in_any_case() -> None:
    assert open_stream("WORLD").name == "world"


@pytest.mark.usefixtures("small")
def test_data_dir_goes_before_the_variable_and_the_variable_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_folder(ENTRY, tmp_path / "given") is None
    cached = put(tmp_path / "cache/meor/streams")
    assert find_folder(ENTRY) == cached
    named = put(tmp_path / "named")
    monkeypatch.setenv("MEOR_DATA", str(tmp_path / "named"))
    assert find_folder(ENTRY) == named
    given = put(tmp_path / "given", "SMALL")  # the publisher's own name of the folder
    assert find_folder(ENTRY, tmp_path / "given") == given
    assert open_stream("small", data_dir=tmp_path / "given").name == "Small"


@pytest.mark.usefixtures("small")
def test_a_data_dir_that_lacks_the_stream_is_refused_whatever_else_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "named")
    put(tmp_path / "cache/meor/streams")
    monkeypatch.setenv("MEOR_DATA", str(tmp_path / "named"))
    for ask in (open_stream, check_there):
        with pytest.raises(StreamError, match="the only place --data-dir allows") as said:
            ask("Small", data_dir=tmp_path / "nowhere")
        assert str(tmp_path / "named") not in str(said.value)
        ask("Small")


@pytest.mark.usefixtures("small")
def test_whether_a_stream_is_there_is_said_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "facts.tsv").write_text("no stream")
    for there in ("world", "broken", "./broken", str(tmp_path / "facts.tsv")):
        check_there(there)
    for ask in (open_stream, check_there):
        for absent, told in (("NOPE", "no stream, file or folder"), ("Small", "not on this machine"),
                             ("./no/where", "no/where")):  # fmt: skip
            with pytest.raises(StreamError, match=told):
                ask(absent)


@pytest.mark.usefixtures("small")
def test_opening_verifies_every_file(tmp_path: Path) -> None:
    folder = put(tmp_path)
    altered = folder / "1/test.txt"
    altered.write_bytes(altered.read_bytes().replace(b"e", b"f", 1))
    with pytest.raises(StreamError, match=r"1/test.txt: its SHA-256 is"):
        open_stream("Small", data_dir=tmp_path)
    altered.unlink()
    with pytest.raises(StreamError, match=r"1/test.txt: cannot be read"):
        open_stream("Small", data_dir=tmp_path)


@pytest.mark.usefixtures("small")
def test_opening_never_touches_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    with pytest.raises(StreamError, match="not on this machine"):
        open_stream("Small")
    put(tmp_path)
    open_stream("Small", data_dir=tmp_path)


@pytest.mark.usefixtures("small")
def test_a_path_is_read_as_it_is_even_where_a_name_would_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path)
    with (folder / "0/train.txt").open("a") as facts:
        facts.write("e0\tr0\te15\n")
    monkeypatch.chdir(tmp_path)
    assert len(open_stream("./Small").snapshots[0].train) == 25
    assert len(open_stream(Path("Small")).snapshots[0].train) == 25
    with pytest.raises(StreamError):
        verify(ENTRY, folder)


def test_a_recorded_folder_counts_while_it_is_there(tmp_path: Path) -> None:
    assert registry.recorded_place(str(tmp_path)) == tmp_path
    assert registry.recorded_place(str(tmp_path / "gone")) is None
    assert registry.recorded_place(None) is None


def test_a_data_folder_may_be_given_as_text(small: None, tmp_path: Path) -> None:
    folder = put(tmp_path)
    assert find_folder(ENTRY, str(tmp_path)) == folder
    assert open_stream("Small", data_dir=str(tmp_path)).name == "Small"
    verify(ENTRY, str(folder))
