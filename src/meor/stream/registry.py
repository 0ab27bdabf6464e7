"""Named streams: who publishes them, at which commit, under which licence, and every file's SHA-256.

A registered stream is looked for as a folder of its name: in `--data-dir` alone where that is given, else in
the folder the environment variable MEOR_DATA names, then in the cache. Nothing here touches the network;
`fetch` does, and only `meor data fetch` calls it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path

from meor.errors import StreamError
from meor.storage.disk import sha256_of
from meor.stream.files import read_stream
from meor.stream.rules import Duplicates, Unseen
from meor.stream.snapshot import Stream
from meor.stream.source import Report, check_regular
from meor.stream.world import world

WORLD = "world"
DATA_VARIABLE = "MEOR_DATA"


@dataclass(frozen=True, slots=True)
class RegisteredFile:
    path: str  # "<snapshot>/<split>.txt"
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One published stream; its files are pinned by hash, wherever they come from."""

    name: str
    repository: str  # GitHub owner/name
    commit: str
    path: str  # the stream's folder in that repository
    licence: str
    files: tuple[RegisteredFile, ...]

    @property
    def page(self) -> str:
        """The web page that shows it."""
        return f"https://github.com/{self.repository}/tree/{self.commit}/{self.path}"

    @property
    def folder_names(self) -> tuple[str, ...]:
        """The names that its folder may have: ours and the publisher's."""
        return tuple(dict.fromkeys((self.name, self.path.rsplit("/", 1)[-1])))


@cache
def entries() -> tuple[Entry, ...]:
    """Every registered stream, in the paper's order."""
    text = resources.files("meor.stream").joinpath("registry.json").read_text(encoding="utf-8")
    return tuple(
        Entry(
            name,
            raw["repository"],
            raw["commit"],
            raw["path"],
            raw["licence"],
            tuple(RegisteredFile(path, of["sha256"], of["bytes"]) for path, of in raw["files"].items()),
        )
        for name, raw in json.loads(text).items()
    )


def find_entry(name: str) -> Entry | None:
    """The registered stream of a name, in any case."""
    return next((entry for entry in entries() if entry.name.casefold() == name.casefold()), None)


def entry_of(name: str) -> Entry:
    """The registered stream of a name; the error for an unknown name suggests the nearest one."""
    entry = find_entry(name)
    if entry is None:
        raise StreamError(f"there is no registered stream named {name!r}", remedy=_suggestion(name))
    return entry


def cache_folder() -> Path:
    """Where fetched streams are kept unless the user names a place."""
    from platformdirs import user_cache_path

    return user_cache_path("meor", appauthor=False) / "streams"


def places(data_dir: Path | str | None = None) -> Iterator[Path]:
    """The folders that may hold registered streams, in the order they are looked at."""
    if data_dir is not None:
        yield Path(data_dir)  # only this one: whoever names a folder does not want data from another
        return
    named = os.environ.get(DATA_VARIABLE)
    if named:
        yield Path(named)
    yield cache_folder()


def recorded_place(named: object) -> Path | None:
    """The data folder that a run was made with; None, for the usual places, if it is gone."""
    place = Path(named) if isinstance(named, str) else None
    return place if place is not None and place.is_dir() else None


def find_folder(entry: Entry, data_dir: Path | str | None = None) -> Path | None:
    """The folder that holds a registered stream on this machine, unverified; None where there is none."""
    for place in places(data_dir):
        for name in entry.folder_names:
            if (place / name / entry.files[0].path).is_file():
                return place / name
    return None


def folder_of(entry: Entry, data_dir: Path | str | None = None) -> Path:
    folder = find_folder(entry, data_dir)
    if folder is None:
        looked = ", ".join(str(place) for place in places(data_dir))
        wanted = f"the folder that holds {entry.name}/{entry.files[0].path}"
        if data_dir is not None:
            raise StreamError(
                f"{entry.name} is not in {looked}, the only place --data-dir allows",
                remedy=f"Let --data-dir name {wanted}, or leave it out",
            )
        raise StreamError(
            f"{entry.name} is not on this machine (looked in {looked})",
            remedy=f"Run `meor data fetch {entry.name}`, or let --data-dir or {DATA_VARIABLE} name {wanted}",
        )
    return folder


def verify(entry: Entry, folder: Path | str) -> None:
    """Compare every file with its registered SHA-256; the first that differs is an error."""
    remedy = f"Remove {folder} and run `meor data fetch {entry.name}`, or point to an unchanged copy"
    for file in entry.files:
        path = Path(folder, file.path)
        try:
            found = sha256_of(path)
        except OSError as error:
            raise StreamError(f"cannot be read ({error.strerror})", remedy=remedy, path=path) from error
        if found != file.sha256:
            problem = f"its SHA-256 is {found}, but the published {entry.name} has {file.sha256}"
            raise StreamError(problem, remedy=remedy, path=path)


def open_stream(
    name_or_path: str | Path,
    *,
    data_dir: Path | str | None = None,
    duplicates: Duplicates = "error",
    unseen: Unseen = "error",
    columns: str | None = None,
    report: Report | None = None,
) -> Stream:
    """The stream of a registered name (any case), "world", or a path; registered files are verified first.

    A name wins over a file or folder of the same name: write `./ENTITY` for the latter. The other arguments
    are those of `read_stream`; registered streams are sound and need none of them.
    """
    name = str(name_or_path)
    if not isinstance(name_or_path, Path):
        if name.casefold() == WORLD:
            return world()
        entry = find_entry(name)
        if entry is not None:
            folder = folder_of(entry, data_dir)
            verify(entry, folder)
            return read_stream(folder, name=entry.name)
        _check_lies_here(name)
    path = Path(name_or_path)
    return read_stream(path, duplicates=duplicates, unseen=unseen, columns=columns, report=report)


def check_there(name: str, *, data_dir: Path | str | None = None) -> None:
    """Raise what `open_stream` would raise for a stream that is not there, without reading one that is."""
    entry = find_entry(name)
    if entry is not None:
        folder_of(entry, data_dir)
    elif name.casefold() != WORLD:
        _check_lies_here(name)
        if not Path(name).is_dir():
            check_regular(Path(name))


def _check_lies_here(name: str) -> None:
    if Path(name).name == name and not os.path.lexists(name):
        raise StreamError(f"there is no stream, file or folder named {name!r}", remedy=_suggestion(name))


def _suggestion(name: str) -> str:
    known = {label.casefold(): label for label in (WORLD, *(entry.name for entry in entries()))}
    nearest = get_close_matches(name.casefold(), known, n=1, cutoff=0.5)
    guess = f"Did you mean {known[nearest[0]]}? " if nearest else ""
    return f"{guess}Registered are {', '.join(known.values())}; anything else must be a path"
