"""End to end against a server on loopback: a whole verified stream, or nothing at all."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.stream.published import ENTRY, FILES, members, on_mirror, serve, tar_of, whole, zip_of

from meor.errors import StreamError
from meor.stream.fetch import fetch
from meor.stream.files import read_stream
from meor.stream.registry import verify


def _nothing_is_left(home: Path) -> bool:
    return not home.exists()


def truncated(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])


def truncated_without_a_length(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])


def altered(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    whole(handler, body[:-2] + b"X\n")


def too_long(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    whole(handler, body + b"e0\tr0\te9\n" * 100_000)


def empty(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    whole(handler, b"")


def broken(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    handler.send_error(500)


def cut(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    handler.close_connection = True


def test_a_stream_comes_whole_and_verified_and_can_be_read(home: Path) -> None:
    with serve(on_mirror()) as (url, asked):
        folder = fetch(ENTRY, home, source=url)
        assert len(asked) == len(FILES)
    assert folder == home / "Small"
    assert sorted(p.relative_to(home).as_posix() for p in home.rglob("*.*")) == sorted(
        f"Small/{path}" for path in FILES
    )
    verify(ENTRY, folder)
    assert read_stream(folder).entity_counts == (20, 40)


def test_what_is_already_there_is_not_fetched_again(home: Path) -> None:
    with serve(on_mirror()) as (url, asked):
        fetch(ENTRY, home, source=url)
        count = len(asked)
        fetch(ENTRY, home, source=url)
        assert len(asked) == count


def test_a_folder_that_differs_is_never_overwritten(home: Path) -> None:
    (home / "Small/0").mkdir(parents=True)
    (home / "Small/0/train.txt").write_text("mine\tis\tthis\n")
    with serve(on_mirror()) as (url, asked), pytest.raises(StreamError, match="SHA-256"):
        fetch(ENTRY, home, source=url)
    assert asked == []
    assert (home / "Small/0/train.txt").read_text() == "mine\tis\tthis\n"


def test_without_a_place_it_goes_to_the_cache_and_the_mirror_variable_counts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(on_mirror()) as (url, _):
        monkeypatch.setenv("MEOR_MIRROR", url + "/")
        folder = fetch(ENTRY)
    assert folder == home.parent / "cache/meor/streams/Small"
    verify(ENTRY, folder)


@pytest.mark.parametrize(
    "answer",
    [truncated, truncated_without_a_length, altered, too_long, empty, broken, cut],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("only", ["0/train.txt", "1/test.txt"])
def test_one_bad_answer_leaves_nothing_behind(home: Path, answer: object, only: str) -> None:
    with (
        serve(on_mirror(), answer, only) as (url, _),
        pytest.raises(StreamError, match="could not be fetched"),
    ):  # type: ignore[arg-type]
        fetch(ENTRY, home, source=url, retries=0)
    assert _nothing_is_left(home)


def test_a_bad_answer_leaves_other_streams_of_the_folder_alone(home: Path) -> None:
    (home / "Other").mkdir(parents=True)
    with serve(on_mirror(), altered) as (url, _), pytest.raises(StreamError):
        fetch(ENTRY, home, source=url, retries=0)
    assert [path.name for path in home.iterdir()] == ["Other"]


def test_a_missing_file_says_which_and_what_the_server_said(home: Path) -> None:
    bodies = on_mirror()
    del bodies["/Small/1/valid.txt"]
    with serve(bodies) as (url, _), pytest.raises(StreamError, match=r"1/valid.txt.*404 Not Found"):
        fetch(ENTRY, home, source=url, retries=0)
    assert _nothing_is_left(home)


def test_a_passing_fault_is_tried_again(home: Path) -> None:
    faults = [1]

    def once_altered(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        (altered if faults and faults.pop() else whole)(handler, body)

    with serve(on_mirror(), once_altered, "0/valid.txt") as (url, asked):
        fetch(ENTRY, home, source=url, retries=1)
    assert asked.count("/Small/0/valid.txt") == 2


def test_no_server_at_all_is_explained(home: Path) -> None:
    with serve({}) as (url, _):
        pass
    with pytest.raises(StreamError, match="no connection"):
        fetch(ENTRY, home, source=url, retries=0)
    assert _nothing_is_left(home)


@pytest.mark.parametrize("source", ["ftp://127.0.0.1/streams", "file:///etc", "somewhere"])
def test_other_sources_are_refused(home: Path, source: str) -> None:
    with pytest.raises(StreamError, match="no source"):
        fetch(ENTRY, home, source=source)
    assert _nothing_is_left(home)


@pytest.mark.parametrize(("suffix", "pack"), [(".zip", zip_of), (".tar.gz", tar_of), (".tgz", tar_of)])
@pytest.mark.parametrize("prefix", ["streams-0000/data/SMALL/", "Small/", "a/b/Small/"])
def test_an_archive_from_a_server_serves_as_well(home: Path, suffix: str, pack: object, prefix: str) -> None:
    content = {
        "streams-0000/README.md": b"hello",
        "streams-0000/data/OTHER/0/train.txt": b"x",
        **members(prefix),
    }
    with serve({f"/some{suffix}": pack(content)}) as (url, asked):  # type: ignore[operator]
        folder = fetch(ENTRY, home, source=f"{url}/some{suffix}")
        assert len(asked) == 1
    verify(ENTRY, folder)
    assert sorted(path.relative_to(home).as_posix() for path in home.rglob("*.*")) == sorted(
        f"Small/{path}" for path in FILES
    )


def test_an_archive_brought_by_hand_serves_too_and_stays(home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "brought.zip"
    archive.write_bytes(zip_of(members()))
    verify(ENTRY, fetch(ENTRY, home, source=str(archive)))
    assert archive.exists()


@pytest.mark.parametrize(
    "answer", [truncated, truncated_without_a_length, empty, broken], ids=lambda f: f.__name__
)
@pytest.mark.parametrize(("name", "pack"), [("a.zip", zip_of), ("a.tar.gz", tar_of)])
def test_a_bad_answer_instead_of_an_archive_leaves_nothing_behind(
    home: Path, answer: object, name: str, pack: object
) -> None:
    with serve({f"/{name}": pack(members())}, answer) as (url, _), pytest.raises(StreamError):  # type: ignore[arg-type,operator]
        fetch(ENTRY, home, source=f"{url}/{name}")
    assert _nothing_is_left(home)


@pytest.mark.parametrize(("name", "pack"), [("a.zip", zip_of), ("a.tar.gz", tar_of)])
def test_an_archive_with_an_altered_file_of_the_same_size_is_caught_by_its_hash(
    home: Path, name: str, pack: object
) -> None:
    content = members()
    first = next(iter(content))
    content[first] = content[first][:-2] + b"X\n"
    with serve({f"/{name}": pack(content)}) as (url, _), pytest.raises(StreamError, match="SHA-256"):  # type: ignore[operator]
        fetch(ENTRY, home, source=f"{url}/{name}")
    assert _nothing_is_left(home)
