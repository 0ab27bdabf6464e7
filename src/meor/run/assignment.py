"""`--set key=value`, and where among nested settings it belongs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from meor.errors import ConfigError
from meor.storage.yaml_file import DEEPEST, read_value

SHOWN = 200
"""Letters of a `--set` that an error repeats."""


def parsed(text: str) -> tuple[str, Any]:
    key, equals, raw = text.partition("=")
    option = f"`--set {text if len(text) <= SHOWN else f'{text[:SHOWN]}...'}`"
    parts = key.strip().split(".")
    if not equals or not all(parts) or len(parts) > DEEPEST:
        raise ConfigError(f"{option} is not key=value", remedy="Write e.g. --set base.epochs=50")
    return key.strip(), read_value(raw, option)


def flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted key, however they are nested."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def place(given: dict[str, Any], keys: list[str], value: Any) -> None:
    for depth, key in enumerate(keys[:-1]):
        inner = given.get(key)
        if inner is not None and not isinstance(inner, dict):
            raise ConfigError(
                f"{'.'.join(keys)} cannot be set: {'.'.join(keys[: depth + 1])} is a single value",
                remedy=f"Set {'.'.join(keys[: depth + 1])} itself",
            )
        given[key] = dict(inner or {})
        given = given[key]
    given[keys[-1]] = value
