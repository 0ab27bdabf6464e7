"""How single values of a study file are read."""

from __future__ import annotations

import re
from typing import Any

BALANCE, VALIDATED = "balance", "validated"


def several(value: Any) -> Any:
    """`stream: ENTITY` means the same as `stream: [ENTITY]`."""
    return [value] if isinstance(value, str | int | float | dict) else value


def rule(value: Any) -> Any:
    """`balance`, `validated`, or a number that is the coefficient itself."""
    if value in (BALANCE, VALIDATED):
        return value
    try:
        number = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"is not one of {BALANCE}, {VALIDATED}, a number")
    return repr(number)


def folder_friendly(value: str) -> str:
    """The study's name is that of a folder."""
    if not re.fullmatch(r"[\w.-]{1,80}", value):
        allowed = "letters, digits, dots, hyphens and underscores, no space, at most 80"
        raise ValueError(f"{value!r} is no name of a folder: write {allowed}")
    return value
