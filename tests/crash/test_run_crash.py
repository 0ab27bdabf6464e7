"""C2, C3 for whole runs: a crash, or a refusal of the disk, at any call; then `resume` to the same bytes."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.failing_disk import Crash, FailingDisk
from tests.tiny_run import Hasty, each_step, results, tiny_config, tiny_stream

from meor.errors import RunError
from meor.run.layout import is_run
from meor.run.session import resume, start
from meor.stream.snapshot import Stream

SHORT = ("base.epochs=1", "refine.passes=1", "base.batch=64")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return tiny_stream()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, stream: Stream) -> tuple[dict[str, str], int]:
    """The results of a run that nothing disturbs, and how many calls to the disk it takes."""
    folder = tmp_path_factory.mktemp("whole")
    disk = FailingDisk(None, Crash())
    start(
        tiny_config(*SHORT), folder / "run", stream=stream, resources=each_step(folder / "cache"), disk=disk
    )
    return results(folder / "run"), disk.calls


def go_on(run: Path, stream: Stream, cache: Path) -> None:
    if is_run(run):
        resume(run, stream=stream, resources=each_step(cache), disk=Hasty())
    else:  # it was stopped before it had begun
        start(tiny_config(*SHORT), run, stream=stream, resources=each_step(cache), disk=Hasty())


def crash_everywhere(folder: Path, stream: Stream, expected: tuple[dict[str, str], int], stride: int) -> None:
    wanted, calls = expected
    assert calls > 100
    for at in range(1, calls + 1, stride):
        run, cache = folder / str(at), folder / f"cache-{at}"
        torn, after = bool(at & 1), bool(at & 2)
        disk = FailingDisk(at, Crash(), after=after or torn, torn=torn)
        with pytest.raises(Crash):
            start(tiny_config(*SHORT), run, stream=stream, resources=each_step(cache), disk=disk)
        go_on(run, stream, cache)
        assert results(run) == wanted, f"call {at} of {calls}"


def test_c2_a_run_that_crashes_at_a_call_to_the_disk_is_resumed_to_the_same_bytes(
    tmp_path: Path, stream: Stream, expected: tuple[dict[str, str], int]
) -> None:
    crash_everywhere(tmp_path, stream, expected, 5)


@pytest.mark.long
def test_c2_a_run_that_crashes_at_any_call_to_the_disk_is_resumed_to_the_same_bytes(
    tmp_path: Path, stream: Stream, expected: tuple[dict[str, str], int]
) -> None:
    crash_everywhere(tmp_path, stream, expected, 1)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_c3_a_refusal_of_the_disk_is_a_sentence_and_the_run_goes_on_later(
    tmp_path: Path, stream: Stream, expected: tuple[dict[str, str], int], code: int
) -> None:
    wanted, calls = expected
    for at in range(1 + code % 13, calls + 1, 13):
        run, cache = tmp_path / str(at), tmp_path / f"cache-{at}"
        disk = FailingDisk(at, OSError(code, "refused"))
        try:
            start(tiny_config(*SHORT), run, stream=stream, resources=each_step(cache), disk=disk)
        except RunError:
            assert is_run(run) or not run.exists(), "a run that could not begin leaves nothing behind"
        else:  # only the shared cache was refused, which costs nothing
            assert results(run) == wanted
        if run.exists():
            go_on(run, stream, cache)
            assert results(run) == wanted, f"call {at} of {calls}"
