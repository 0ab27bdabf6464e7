"""What is wrong with a study file as a whole, and in which of its lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError


class MisfitError(ValueError):
    """What is wrong with a key that is right by itself."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key} {problem}")
        self.key = key


def lines_of_problems(
    error: ValidationError, given: Mapping[str, Any], lines: Mapping[str, int]
) -> dict[str, int]:
    """As `lines`, with the line of a list for each of its items, and of the key a misfit is about."""
    found = dict(lines)
    for key, value in given.items():
        if key in lines and isinstance(value, list):
            found |= {f"{key}.{at}": lines[key] for at in range(len(value))}
    cause = error.errors()[0].get("ctx", {}).get("error")
    if isinstance(cause, MisfitError) and cause.key in lines:
        found[""] = lines[cause.key]
    return found
