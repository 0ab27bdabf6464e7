"""Hostile archives: each is refused as a whole, and nothing is written outside the target or kept in it."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.stream.published import ENTRY, FILES, members, serve, tar_of, zip_of

from meor.errors import StreamError
from meor.stream import archive as module
from meor.stream.archive import unpack
from meor.stream.fetch import fetch


def _link(kind: bytes, name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def _zip_link() -> bytes:
    raw = io.BytesIO(zip_of(members()))
    with zipfile.ZipFile(raw, "a") as packed:
        info = zipfile.ZipInfo("streams-0000/out")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(info, "/etc/passwd")
    return raw.getvalue()


def _zip_twice() -> bytes:
    raw = io.BytesIO(zip_of(members()))
    with zipfile.ZipFile(raw, "a") as packed, pytest.warns(UserWarning, match="Duplicate"):
        packed.writestr(next(iter(members())), b"another")
    return raw.getvalue()


def _zip_encrypted() -> bytes:
    raw = bytearray(zip_of(members()))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = raw.find(signature)
        while at >= 0:
            raw[at + offset] |= 1
            at = raw.find(signature, at + 1)
    return bytes(raw)


def _tar_huge_header() -> bytes:
    """A PAX header that claims to be far longer than the archive explains."""
    info = tarfile.TarInfo("long")
    info.type, info.size = tarfile.XHDTYPE, 1 << 29
    return gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) + b"0" * (4 << 20))


HOSTILE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "climbing name in a tar": ("a.tar.gz", lambda: tar_of({**members(), "x/../../escaped": b"out"})),
    "climbing name in a zip": ("a.zip", lambda: zip_of({**members(), "../escaped": b"out"})),
    "absolute name in a tar": ("a.tar.gz", lambda: tar_of({**members(), "/escaped": b"out"})),
    "absolute name in a zip": ("a.zip", lambda: zip_of({**members(), "/escaped": b"out"})),
    "drive and backslashes": ("a.zip", lambda: zip_of({**members(), "C:\\..\\escaped": b"out"})),
    "symbolic link": (
        "a.tar.gz",
        lambda: tar_of(members(), _link(tarfile.SYMTYPE, "streams-0000/out", "/etc")),
    ),
    "file through a link": (
        "a.tar.gz",
        lambda: tar_of(
            {}, _link(tarfile.SYMTYPE, "data/SMALL", "/"), (tarfile.TarInfo("data/SMALL/0/train.txt"), b"out")
        ),
    ),
    "hard link": ("a.tar.gz", lambda: tar_of(members(), _link(tarfile.LNKTYPE, "hard", "/etc/passwd"))),
    "device": ("a.tar.gz", lambda: tar_of(members(), _link(tarfile.CHRTYPE, "null", ""))),
    "named pipe": ("a.tar.gz", lambda: tar_of(members(), _link(tarfile.FIFOTYPE, "pipe", ""))),
    "symbolic link in a zip": ("a.zip", _zip_link),
    "ten thousand members": (
        "a.tar.gz",
        lambda: tar_of({**{f"f{i}": b"" for i in range(10_000)}, **members()}),
    ),
    "ten thousand members in a zip": ("a.zip", lambda: zip_of({f"f{i}": b"" for i in range(10_000)})),
    "a thousand to one in a tar": ("a.tar.gz", lambda: tar_of({"zeros": bytes(8 << 20), **members()})),
    "a thousand to one in a zip": ("a.zip", lambda: zip_of({"zeros": bytes(8 << 20), **members()})),
    "a registered file grown large": (
        "a.tar.gz",
        lambda: tar_of({**members(), "streams-0000/data/SMALL/0/train.txt": FILES["0/train.txt"] * 9}),
    ),
    "a header without end": ("a.tar.gz", _tar_huge_header),
    "two members of one name": (
        "a.tar.gz",
        lambda: tar_of(members(), (tarfile.TarInfo(next(iter(members()))), b"another")),
    ),
    "two members of one name in a zip": ("a.zip", _zip_twice),
    "two names that fold into one": (
        "a.zip",
        lambda: zip_of({**members(), "STREAMS-0000/data/small/0/train.txt": b""}),
    ),
    "encrypted": ("a.zip", _zip_encrypted),
    "no archive": ("a.zip", lambda: b"<html>not here</html>"),
    "no archive either": ("a.tar.gz", lambda: gzip.compress(b"<html>not here</html>")),
    "a file missing": ("a.zip", lambda: zip_of(dict(list(members().items())[:-1]))),
    "nothing": ("a.tar.gz", lambda: tar_of({})),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_refused_and_writes_nothing_outside(tmp_path: Path, case: str) -> None:
    name, make = HOSTILE[case]
    canary = tmp_path / "canary"
    canary.write_text("untouched")
    home = tmp_path / "deep" / "data"
    with serve({f"/{name}": make()}) as (url, _), pytest.raises(StreamError) as refused:
        fetch(ENTRY, home, source=f"{url}/{name}")
    assert name in str(refused.value)
    assert not home.exists()
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")} <= {"canary", "deep"}
    assert canary.read_text() == "untouched"
    assert not Path("/escaped").exists()


def test_a_liar_about_its_size_is_cut_off_at_the_registered_size(tmp_path: Path) -> None:
    first = ENTRY.files[0]
    endless = module._Member(
        "Small/" + first.path, first.size, True, False, lambda: io.BytesIO(bytes(1 << 20))
    )
    module._write(endless, first, tmp_path / "out")
    assert (tmp_path / "out").stat().st_size == first.size


def test_only_registered_files_are_written(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(tar_of({**members(), "streams-0000/data/SMALL/0/train_id.txt": b"1\t2\t3\n"}))
    unpack(archive, ENTRY, tmp_path / "out")
    written = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.txt")}
    assert written == set(FILES)
