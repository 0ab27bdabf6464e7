"""What interrupts a run, and what is damaged in one: it is said, and made again where that is possible."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meor.errors import Interrupted, is_interrupt
from meor.run.folder import RunFolder
from meor.run.layout import ENDPOINTS, LOG, VOCABULARY, is_run, vocabulary_bytes
from meor.run.trainer import Watcher
from meor.stream.snapshot import Stream


@contextmanager
def released(folder: RunFolder) -> Iterator[RunFolder]:
    try:
        yield folder
    finally:
        folder.release()


@contextmanager
def resumable(path: Path) -> Iterator[None]:
    """Ctrl-C in here says how to go on, if the run has begun."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error) and is_run(path):
            raise Interrupted(f"go on with: meor resume {shlex.quote(str(path))}") from error
        raise


def mended(folder: RunFolder, stream: Stream, watcher: Watcher) -> None:
    """Report damaged files outside the updates, and make them again where that is possible."""

    def say(text: str) -> None:
        watcher.say(text)
        folder.log("warning", text=text)

    listed = folder.manifest["sha256"]
    if LOG in listed and folder.files.problem(LOG):  # before anything is added to it
        say(f"{LOG} does not match the manifest; a log cannot be made again, so it is kept as it is")
    if ENDPOINTS in listed and folder.files.problem(ENDPOINTS):
        say(f"{ENDPOINTS} does not match the manifest; it is made again from the ranks")
    if folder.files.problem(VOCABULARY):
        say(f"{VOCABULARY} does not match the manifest; it is made again from the stream")
        folder.commit_result(VOCABULARY, vocabulary_bytes(stream))
