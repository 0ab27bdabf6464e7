"""JSON files of ours: of bounded size, without NaN, and some that state the sha256 of their own content.

A sealed file is one that many processes write beside each other: a manifest of them all would have to be
rewritten by every worker at every cell, on every machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from meor.errors import RunError, StudyError
from meor.storage.disk import explained

REMOVE_AND_REPEAT = "Remove it and repeat the command that made it, or put it back as it was."
LARGEST = 16 << 20
LARGEST_SEALED = 1 << 20
"""Bytes; a row has 2 kB."""


def read_json(path: Path) -> Any:
    """A JSON document of bounded size, or a `RunError`."""
    try:
        if path.stat().st_size > LARGEST:
            raise RunError(f"{path} is too large to be a run's own file. {REMOVE_AND_REPEAT}")
        return parse_json(path.read_bytes(), path)
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}). {REMOVE_AND_REPEAT}") from None


def parse_json(data: bytes, path: Path) -> Any:
    """The document in the bytes of a file. NaN and infinity are no JSON, and none of ours holds them."""
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise RunError(f"{path} is not valid JSON: it is damaged. {REMOVE_AND_REPEAT}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def to_json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def sealed(content: dict[str, Any]) -> bytes:
    """The bytes of the file: the content and its sha256."""
    return to_json({**content, "sha256": hashlib.sha256(to_json(content)).hexdigest()})


def read_sealed(path: Path) -> dict[str, Any]:
    """The content of a sealed file; one that is not byte for byte as written is an error."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_SEALED + 1)
    except OSError as error:
        raise StudyError(f"{path} cannot be read ({error.strerror}).") from None
    if len(data) > LARGEST_SEALED:
        raise StudyError(f"{path} is too large to be a file of a study.")
    content = parse_json(data, path)
    if not isinstance(content, dict) or content.pop("sha256", None) is None:
        raise StudyError(f"{path} states no sha256: an earlier version or something else wrote it.")
    if data != sealed(content):
        raise StudyError(f"{path} does not have the sha256 it states: it was changed or is damaged.")
    return content


def drop_half_line(path: Path) -> None:
    """Cut a file of lines after its last whole one, where it was left in the middle of writing the next."""
    if path.exists():
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            with explained(path):
                os.truncate(path, whole)
