"""What is wrong with a study file as a whole, and in which of its lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

_BESIDE = "write {0} in the study file, beside `settings` and not in it"
_OR_OPTION = "give --{1}, or " + _BESIDE
_OWNED = {
    **{name: _OR_OPTION.format(name, name) for name in ("stream", "backbone", "host", "preset")},
    "method": _OR_OPTION.format("methods", "method"),
    "seed": _BESIDE.format("first_seed"),
    "coefficient_from": "leave it out; a coefficient acts from the update on that decides it",
    **dict.fromkeys(("coefficient", "coefficient_rule"), _OR_OPTION.format("coefficient_rule", "rule")),
    "evaluation.split": _BESIDE.format("judged"),
}
"""What the study itself decides for each run, and how to say it."""


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


def refuse_owned(key: str, names: Iterable[str]) -> None:
    """Settings of every run, of which none may be the study's own."""
    for name in names:
        if name in _OWNED:
            problem = f"cannot hold {name}, which is no setting of its runs but of the study"
            raise MisfitError(key, f"{problem}: {_OWNED[name]}")
