"""Files and folders appear whole, under their own name, whoever else writes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from meor.errors import RunError
from meor.storage.disk import Disk, commit_file, commit_folder, replace_folder


class Noting(Disk):
    """Remembers the name of every file that is written."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, path: Path, content: bytes) -> None:
        self.written.append(path.name)
        super().write(path, content)


def test_a_shared_file_has_a_temporary_name_of_its_own_and_another_file_has_not(tmp_path: Path) -> None:
    disk = Noting()
    commit_file(disk, tmp_path / "plain", b"1")
    commit_file(disk, tmp_path / "shared", b"2", shared=True)
    own = f"{os.getpid()}-{threading.get_ident()}"
    assert disk.written == ["plain.tmp", f"shared.{own}.tmp"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "shared"]


def test_making_a_folder_again_is_fine(tmp_path: Path) -> None:
    for _ in range(2):
        Disk().make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("commit", [commit_folder, replace_folder])
def test_a_folder_is_replaced_whole(tmp_path: Path, commit) -> None:  # type: ignore[no-untyped-def]
    target = tmp_path / "folder"
    commit(Disk(), target, {"a": b"1", "in/b": b"2"})
    commit(Disk(), target, {"c": b"3"})
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {"c": b"3"}


def test_a_folder_that_cannot_be_replaced_stays(tmp_path: Path) -> None:
    class Full(Disk):
        def write(self, path: Path, content: bytes) -> None:
            raise OSError(28, "No space left on device")

    target = tmp_path / "folder"
    replace_folder(Disk(), target, {"a": b"1"})
    with pytest.raises(OSError, match="space"):
        replace_folder(Full(), target, {"b": b"2"})
    with pytest.raises(RunError, match="disk is full"):
        commit_file(Full(), tmp_path / "file", b"")
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {"a": b"1"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
