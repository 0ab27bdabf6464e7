"""Take a stream's files out of an archive that nobody vouches for.

Only registered files are written, under names of ours and up to their registered size. An archive that holds
anything strange anywhere is refused as a whole: absolute or climbing names, links, devices, two
members of one name, too many members, or far more bytes than its own size explains.
"""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from meor.errors import StreamError
from meor.storage.disk import Disk
from meor.stream.registry import Entry, RegisteredFile

SUFFIXES = (".zip", ".tar.gz", ".tgz")
MAX_MEMBERS = 5_000
MAX_RATIO = 100  # text facts pack about 1:10
MAX_BYTES = 1 << 30
_CHUNK = 1 << 20
_REMEDY = "Nothing was kept; get the archive from the publisher again"


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    size: int
    is_file: bool
    is_folder: bool
    open: Callable[[], IO[bytes]]


def is_archive(source: str) -> bool:
    return source.lower().endswith(SUFFIXES)


def unpack(archive: Path, entry: Entry, target: Path) -> None:
    """Write the files of `entry` found in `archive` to the folder `target`; the caller checks hashes."""
    try:
        limit = min(MAX_BYTES, MAX_RATIO * archive.stat().st_size)
        zipped = archive.name.lower().endswith(".zip")
        members = _zip_members(archive) if zipped else _tar_members(archive, limit)
        missing = _unpack(members, entry, target, archive, limit)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise StreamError(f"is no whole archive ({error})", remedy=_REMEDY, path=archive.name) from error
    except (RuntimeError, ValueError) as error:  # packed or encrypted in ways we do not read
        raise StreamError(f"cannot be unpacked ({error})", remedy=_REMEDY, path=archive.name) from error
    if missing:
        problem = f"holds {len(entry.files) - len(missing)} of the {len(entry.files)} files of {entry.name}"
        raise StreamError(f"{problem}; {missing[0]} is missing", remedy=_REMEDY, path=archive.name)


def _unpack(members: Iterator[_Member], entry: Entry, target: Path, archive: Path, limit: int) -> list[str]:
    def refuse(problem: str) -> StreamError:
        return StreamError(f"is refused: {problem}", remedy=_REMEDY, path=archive.name)

    wanted = {file.path: file for file in entry.files}
    seen: set[str] = set()
    total = 0
    for count, member in enumerate(members, start=1):
        total += member.size
        if count > MAX_MEMBERS:
            raise refuse(f"more than {MAX_MEMBERS:,} members")
        if total > limit:
            raise refuse(f"it would unpack to more than {limit:,} bytes, over {MAX_RATIO} times its size")
        problem = _strange(member, seen)
        if problem:
            raise refuse(problem)
        file = _registered(member, entry, wanted)
        if file is not None:
            if member.size != file.size:
                raise refuse(f"{member.name!r} has {member.size:,} bytes instead of {file.size:,}")
            del wanted[file.path]
            _write(member, file, target / file.path)
    return list(wanted)


def _strange(member: _Member, seen: set[str]) -> str | None:
    """Why a member makes its archive untrustworthy; None if it does not. Adds its name to `seen`."""
    name = member.name
    # names that a file system could fold into one count as one
    plain = str(PurePosixPath(name)).casefold()
    if not name or "\0" in name or "\\" in name or ":" in name.split("/", 1)[0]:
        return f"the name {name!r}"
    if name.startswith("/") or ".." in name.split("/"):
        return f"{name!r} leads out of the folder"
    if not (member.is_file or member.is_folder):
        return f"{name!r} is a link or a device"
    if plain in seen:
        return f"two members are named {name!r}"
    seen.add(plain)
    return None


def _registered(member: _Member, entry: Entry, wanted: dict[str, RegisteredFile]) -> RegisteredFile | None:
    """The registered file in a member: its path ends in <the stream's folder>/<snapshot>/<split>.txt."""
    path = f"/{PurePosixPath(member.name)}"
    ends = (
        (f"/{folder}/{file.path}", file) for folder in (entry.path, entry.name) for file in wanted.values()
    )
    return next((file for end, file in ends if member.is_file and path.endswith(end)), None)


def _write(member: _Member, file: RegisteredFile, path: Path) -> None:
    Disk().make_folder(path.parent)
    with member.open() as source:
        Disk().write(path, source.read(file.size))


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"packing method {info.compress_type}")
            kind = stat.S_IFMT(info.external_attr >> 16)
            folder = info.is_dir() and kind in (0, stat.S_IFDIR)
            # orig_filename: what the archive says, before zipfile cuts it at a NUL
            yield _Member(
                info.orig_filename,
                info.file_size,
                not info.is_dir() and kind in (0, stat.S_IFREG),
                folder,
                lambda info=info: packed.open(info),  # type: ignore[misc]
            )


def _tar_members(archive: Path, limit: int) -> Iterator[_Member]:
    """Members in order, read once: each is checked before the bytes after it are unpacked."""
    with gzip.open(archive) as raw:
        limited = cast(IO[bytes], _Limited(raw, limit))
        packed = tarfile.open(fileobj=limited, mode="r|")  # noqa: SIM115 (closes nothing of its own)
        for info in packed:
            yield _Member(
                info.name,
                info.size,
                info.isreg() and not info.issparse(),
                info.isdir(),
                lambda info=info: packed.extractfile(info) or io.BytesIO(),  # type: ignore[misc]
            )


class _Limited:
    """Stops an archive that unpacks to more than the limit, whatever its headers declare."""

    def __init__(self, raw: gzip.GzipFile, limit: int) -> None:
        self._raw = raw
        self._left = limit + (1 << 20)  # headers and padding of honest archives

    def read(self, size: int = -1) -> bytes:
        chunk = self._raw.read(size if 0 <= size <= _CHUNK else _CHUNK)
        self._left -= len(chunk)
        if self._left < 0:
            raise tarfile.ReadError("it unpacks to far more than its size explains")
        return chunk
