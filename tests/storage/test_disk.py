"""Files and folders appear whole, under their own name, whoever else writes."""

from __future__ import annotations

import ast
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import meor
from meor.errors import RunError
from meor.storage.disk import (
    Disk,
    ListedFiles,
    commit_file,
    commit_folder,
    explain_os_error,
    replace_folder,
    staging,
)


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


WRITES = {"write_bytes", "write_text", "touch", "rename", "unlink", "symlink_to", "hardlink_to", "rmtree"}
WRITES |= {"copyfile", "copytree", "move", "to_csv", "to_parquet", "write_table", "savez", "save_file"}
WRITES |= {"mkdtemp", "mkstemp", "TemporaryFile", "NamedTemporaryFile", "TemporaryDirectory", "fdopen"}


def _writers(tree: ast.AST) -> Iterator[str]:
    """Calls that put a file on disk, or take one away."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        whole = ast.unparse(node.func)
        name = whole.rsplit(".", 1)[-1]
        mode = [
            *node.args[int(whole == "open") :][:1],
            *(each.value for each in node.keywords if each.arg == "mode"),
        ]
        written = any(isinstance(part, ast.Constant) and set(str(part.value)) & set("wax+") for part in mode)
        if name in WRITES or whole in ("os.replace", "np.save") or (name == "open" and written):
            yield f"{whole} in line {node.lineno}"


def test_storage_is_the_only_place_that_writes_a_file() -> None:
    source = Path(meor.__file__).parent
    found = {
        f"{file.relative_to(source)}: {writer}"
        for file in source.rglob("*.py")
        if file.parent.name != "storage" and file.name != "compiled.py"  # which finds numba a folder
        for writer in _writers(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert found == set()


@pytest.mark.parametrize(
    "line",
    [
        "open(p, 'wb')",
        "p.open('xb')",
        "open(p, mode='a')",
        "os.replace(p, q)",
        "np.savez(p)",
        "os.rename(p, q)",
    ],
)
def test_a_line_that_writes_is_noticed(line: str) -> None:
    assert list(_writers(ast.parse(line)))
    assert not list(_writers(ast.parse("open(p, 'rb'); p.open('rb'); t.replace('a', 'b'); tarfile.open(p)")))


def test_what_the_system_says_is_repeated_and_its_number_where_it_says_nothing(tmp_path: Path) -> None:
    assert "strange matter" in str(explain_os_error(OSError(9999, "strange matter"), tmp_path))
    assert "odd" in str(explain_os_error(OSError("odd"), tmp_path))


def test_a_listed_file_is_had_by_path_and_by_content_and_another_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    files = ListedFiles(tmp_path, {"a": hashlib.sha256(b"abc").hexdigest()}, lambda name: f"Mend {name}.")
    assert files.path("a") == tmp_path / "a"
    assert files.read("a") == b"abc"
    assert files.problem("a") is None
    (tmp_path / "a").write_bytes(b"abd")
    fresh = ListedFiles(tmp_path, files.sha256, files.remedy)
    for refused in (fresh.path, fresh.read):
        with pytest.raises(RunError, match=r"Mend a\."):
            refused("a")
    assert "Mend a." in str(fresh.problem("a"))


def test_a_place_to_prepare_is_made_with_all_above_it_and_leaves_nothing(tmp_path: Path) -> None:
    with staging(tmp_path / "x" / "y") as folder:
        (folder / "file").write_text("half")
        assert folder.parent == tmp_path / "x" / "y"
    assert not (tmp_path / "x" / "y").exists()
