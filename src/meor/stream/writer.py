"""Write a stream as the folder layout `readers` reads: complete under its name, or not there at all."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from meor.errors import StreamError
from meor.storage.disk import Disk, fill_folder
from meor.stream.records import shown
from meor.stream.snapshot import Stream
from meor.stream.vocabulary import Vocabulary
from meor.typing import SPLITS, Facts

# What a line of the layout cannot carry, and halves of characters, which UTF-8 has no bytes for.
_UNWRITABLE = re.compile("[\0\t\n\r\ufeff\ud800-\udfff]")


def write_stream(stream: Stream, folder: Path | str) -> None:
    """Create `folder` with one sub-folder a snapshot; an existing target is never touched."""
    folder = Path(folder)
    check_target(folder)
    for vocabulary in (stream.entities, stream.relations):
        _check_labels(vocabulary)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".meor-", dir=folder.parent) as staging:
            disk, whole = Disk(), Path(staging) / "stream"
            fill_folder(disk, whole, _files(stream))
            # A rename on one file system is one step: readers see nothing, then everything.
            os.rename(whole, folder)
            disk.sync(folder.parent)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise StreamError(problem, remedy="Free some space or choose another folder", path=folder) from error


def check_target(folder: Path) -> None:
    """Refuse a target that exists; called early so that no work is done in vain."""
    if "\0" in str(folder):
        raise StreamError("a path cannot hold a NUL", remedy="Check the path", path=folder)
    if os.path.lexists(folder):
        raise StreamError("already exists", remedy="Remove it or choose another folder", path=folder)


def _check_labels(vocabulary: Vocabulary) -> None:
    for label in vocabulary:
        if not label or label.isspace() or _UNWRITABLE.search(label):
            problem = f"the label {shown(label)} is empty or holds a tab, a line end or a NUL"
            raise StreamError(problem, remedy="Rename it before writing the stream")


def _files(stream: Stream) -> dict[str, bytes]:
    return {
        f"{index}/{split}.txt": "".join(_lines(stream, snapshot.facts([split]))).encode()
        for index, snapshot in enumerate(stream.snapshots)
        for split in SPLITS
    }


def _lines(stream: Stream, facts: Facts) -> Iterable[str]:
    entity, relation = stream.entities.labels, stream.relations.labels
    return (f"{entity[head]}\t{relation[kind]}\t{entity[tail]}\n" for head, kind, tail in facts.tolist())
