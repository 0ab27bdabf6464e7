"""The classes that newcomers may start from: a file of lines `entity TAB class`, several of them per entity.

Entities that the stream does not know are passed over, so one file may serve many streams. What counts for a
run is the file's content, not where it lies.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from meor.errors import ConfigError
from meor.evaluation.foreign_file import read_rows
from meor.run.config import Config
from meor.stream.snapshot import Stream
from meor.training.initialise import Classes


def classes_of(config: Config, stream: Stream) -> Classes | None:
    """By entity id; None where newcomers do not start from their classes."""
    if config.refine.classes is None:
        return None
    found: dict[int, list[str]] = {}
    for _, (label, name) in read_rows(Path(config.refine.classes), ("entity", "class")):
        if label in stream.entities:
            mine = found.setdefault(stream.entities.id(label), [])
            if name not in mine:
                mine.append(name)
    return found


def classes_hash(config: Config) -> str | None:
    """sha256 of the file; None where there is none."""
    if config.refine.classes is None:
        return None
    try:
        return hashlib.sha256(Path(config.refine.classes).read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"refine.classes cannot be read ({error.strerror})",
            remedy="Name a file of lines `entity TAB class`",
            path=Path(config.refine.classes),
        ) from None


def class_remark(config: Config, stream: Stream) -> str:
    """How many newcomers start from their classes; it is refused that none does."""
    classes = classes_of(config, stream)
    if classes is None:
        return ""
    base = stream.entity_counts[0]
    known = {name for id, names in classes.items() if id < base for name in names}
    started = sum(not known.isdisjoint(names) for id, names in classes.items() if id >= base)
    if not started:
        raise ConfigError(
            f"no newcomer of {stream.name} shares a class with an entity of snapshot 0",
            remedy="Write lines `entity TAB class` with the labels of the stream",
            path=Path(str(config.refine.classes)),
        )
    newcomers = stream.entity_counts[-1] - base
    told = f"{started:,} of {newcomers:,} newcomers start from their classes"
    return f"{told}." if started == newcomers else f"{told}; snapshot 0 knows no class of the others."
