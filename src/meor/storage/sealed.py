"""JSON files that many processes write beside each other: each states the sha256 of its own content.

A manifest of them all would have to be rewritten by every worker at every cell, on every machine.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from meor.errors import StudyError
from meor.run.checkpoint import parse_json, to_json

LARGEST = 1 << 20
"""Bytes; a row has 2 kB."""


def sealed(content: dict[str, Any]) -> bytes:
    """The bytes of the file: the content and its sha256."""
    return to_json({**content, "sha256": hashlib.sha256(to_json(content)).hexdigest()})


def read_sealed(path: Path) -> dict[str, Any]:
    """The content of a file, which is to the byte what was written."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise StudyError(f"{path} cannot be read ({error.strerror}).") from None
    if len(data) > LARGEST:
        raise StudyError(f"{path} is too large to be a file of a study.")
    content = parse_json(data, path)
    if not isinstance(content, dict) or content.pop("sha256", None) is None:
        raise StudyError(f"{path} states no sha256: an earlier version or something else wrote it.")
    if data != sealed(content):
        raise StudyError(f"{path} does not have the sha256 it states: it was changed or is damaged.")
    return content
