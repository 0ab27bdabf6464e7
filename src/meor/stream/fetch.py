"""Fetch a registered stream: every file through pooch against its SHA-256, all of them or nothing.

By default each file comes straight from the publisher's repository at the pinned commit, since hashes are
known for files and not for archives. A mirror (`source`, or the environment variable MEOR_MIRROR) is
either a base URL with files at `<base>/<stream>/<snapshot>/<split>.txt`, or an archive (.zip, .tar.gz,
.tgz; a URL or a local file) that holds the stream's folder anywhere, such as one GitHub makes of a commit.
Whatever the source, the hashes decide.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meor.errors import StreamError
from meor.storage.disk import Disk, publish, receiving, staging
from meor.stream.archive import MAX_BYTES, is_archive, unpack
from meor.stream.registry import Entry, cache_folder, verify

MIRROR_VARIABLE = "MEOR_MIRROR"
_TIMEOUT = 30.0  # seconds without a byte


def fetch(
    entry: Entry,
    data_dir: Path | str | None = None,
    *,
    source: str | None = None,
    retries: int = 2,
    report: Callable[[str], None] = lambda _: None,
) -> Path:
    """Bring a stream to `data_dir/<name>` (by default to the cache) and return that folder.

    A verified folder that is already there is left alone. A folder that differs is never overwritten.
    """
    home = cache_folder() if data_dir is None else Path(data_dir)
    target = home / entry.name
    if os.path.lexists(target):
        verify(entry, target)
        return target
    source = source or os.environ.get(MIRROR_VARIABLE) or None
    with staging(home) as place:
        files = place / entry.name
        files.mkdir()
        if source is not None and is_archive(source):
            unpack(_archive(source, place, report), entry, files)
        else:
            _download_files(entry, _base_url(entry, source), files, retries, report)
        verify(entry, files)
        _publish(entry, files, target)
    return target


def _publish(entry: Entry, files: Path, target: Path) -> None:
    try:
        publish(Disk(), files, target)
    except OSError:
        if not target.is_dir():
            raise
        verify(entry, target)  # somebody else fetched it meanwhile


def _base_url(entry: Entry, source: str | None) -> str:
    if source is None:
        return f"https://raw.githubusercontent.com/{entry.repository}/{entry.commit}/{entry.path}/"
    if not source.lower().startswith(("https://", "http://")):
        raise StreamError(
            f"{source!r} is no source to fetch from",
            remedy="Give a URL (https:// or http://), or an archive whose name ends in .zip, .tar.gz or .tgz",
        )
    return f"{source.rstrip('/')}/{entry.name}/"


def _archive(source: str, place: Path, report: Callable[[str], None]) -> Path:
    if "://" not in source:
        if not Path(source).is_file():
            raise StreamError("there is no such file", remedy="Check the name of the archive", path=source)
        return Path(source)
    import pooch

    report(source)
    with _explained(source):
        # no hash is known for an archive: what comes out of it is verified file by file
        name = source.rsplit("/", 1)[-1]
        path = pooch.retrieve(source, None, fname=name, path=place, downloader=_Downloader(MAX_BYTES))
    return Path(path)


def _download_files(
    entry: Entry, base_url: str, target: Path, retries: int, report: Callable[[str], None]
) -> None:
    import pooch

    registry = {file.path: f"sha256:{file.sha256}" for file in entry.files}
    mirror = pooch.create(path=target, base_url=base_url, registry=registry, retry_if_failed=retries)
    for file in entry.files:
        url = base_url + file.path
        report(url)
        with _explained(url):
            mirror.fetch(file.path, downloader=_Downloader(file.size))


@contextmanager
def _explained(url: str) -> Iterator[None]:
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")  # `report` says what is fetched
    try:
        yield
    except (requests.RequestException, ValueError) as error:
        raise StreamError(
            f"could not be fetched ({_reason(error)})",
            remedy="Nothing was kept. Try again later or from a mirror (--from), or put the files in place "
            "by hand and let --data-dir name their folder",
            path=url,
        ) from error


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return f"no answer for {_TIMEOUT:.0f} seconds"
    if isinstance(error, requests.ConnectionError):
        return "no connection to the server, or it was cut"
    return " ".join(str(error).split())


class _Downloader:
    """pooch's HTTP downloader, cut off when an answer is longer than the file can be."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __call__(self, url: str, output_file: Any, pooch_: Any, check_only: bool = False) -> None:
        import pooch

        with receiving(Path(output_file), self._limit) as out:
            pooch.HTTPDownloader(timeout=_TIMEOUT, chunk_size=1 << 16)(url, out, pooch_)
