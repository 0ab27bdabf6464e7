"""How a stream is read. A run records these rules, so whatever opens its stream again reads it alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from meor.errors import ConfigError

Duplicates = Literal["error", "drop"]
Unseen = Literal["error", "drop", "move"]


class Reading(TypedDict):
    """The keywords of `open_stream` that decide what a stream holds."""

    duplicates: Duplicates  # a fact that stands twice
    unseen: Unseen  # a valid or test fact about a name that no train fact has named by then
    columns: str | None  # of a single file: h=COL,r=COL,t=COL and, where needed, date=COL


def reading(duplicates: Duplicates | None, unseen: Unseen | None, columns: str | None) -> Reading:
    """The rules that were given, and the strict ones where none was."""
    return {"duplicates": duplicates or "error", "unseen": unseen or "error", "columns": columns}


def check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} is {value[:80]!r}", remedy=f"Choose one of {', '.join(allowed)}")
