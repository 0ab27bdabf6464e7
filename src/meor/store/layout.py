"""What a store holds: the names of its files, and the name of a version, which its content decides.

STORE/
  CURRENT              the name of the version that answers; replaced atomically
  admissions.jsonl     one line per admission, refusal and rollback; never rewritten
  verdicts/0003/       what was found at line 3 of it
  versions/0007-<sha>/ whole and immutable; the name ends in the sha256 of its manifest
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from meor.errors import RunError, StoreError
from meor.storage.json_file import parse_json, to_json

CURRENT, LOG, LOCK, VERSIONS, VERDICTS = "CURRENT", "admissions.jsonl", ".lock", "versions", "verdicts"
MANIFEST, MODEL, BASE, VOCABULARY = (
    "manifest.json",
    "model.safetensors",
    "base.safetensors",
    "vocabulary.parquet",
)
FACTS, WAITING, CONFIG, GATE = "facts.parquet", "waiting.parquet", "config.yaml", "gate.yaml"
STATE, VERDICT, HOLD_BACK = "state.json", "verdict.json", "hold-back.txt"
FORMAT = 1
NAME = re.compile(r"(\d{4,9})-([0-9a-f]{12})")
_FILES = {MODEL, BASE, VOCABULARY, FACTS, WAITING, CONFIG, GATE, STATE, VERDICT}
LARGEST_MANIFEST = 1 << 20


def is_store(path: Path) -> bool:
    return (path / CURRENT).is_file()


def version_name(number: int, manifest: bytes) -> str:
    """The manifest lists the sha256 of every other file, so the name stands for every byte."""
    return f"{number:04d}-{hashlib.sha256(manifest).hexdigest()[:12]}"


def number_of(name: str) -> int:
    found = NAME.fullmatch(name)
    if found is None:
        raise StoreError(f"{name!r} is not the name of a version, such as 0007-0123456789ab.")
    return int(found[1])


def manifest_bytes(
    number: int, parent: str | None, sha256: dict[str, str], versions: dict[str, str]
) -> bytes:
    return to_json(
        {"format": FORMAT, "number": number, "parent": parent, "sha256": sha256, "versions": versions}
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a version, which must be the one its name stands for."""
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_MANIFEST)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}). {remedy_of(folder)}") from None
    if version_name(number_of(folder.name), data) != folder.name:
        raise StoreError(f"{path} does not have the sha256 its folder is named by. {remedy_of(folder)}")
    try:
        found = parse_json(data, path)
    except RunError as error:
        raise StoreError(str(error)) from None
    listed = found.get("sha256") if isinstance(found, dict) else None
    if not isinstance(listed, dict) or not {MODEL, CONFIG, STATE} <= set(listed) <= _FILES:
        raise StoreError(f"{path} is not the manifest of a version. {remedy_of(folder)}")
    if found.get("format") != FORMAT:
        raise StoreError(f"{path} is of another format than {FORMAT}. Open it with the meor that wrote it.")
    return dict(found)


def remedy_of(folder: Path) -> str:
    store = folder.parent.parent
    return f"Put it back as it was, or go to another version: meor rollback {store} VERSION."


@contextmanager
def written(path: Path) -> Iterator[None]:
    """What the system refuses inside is told with what it means for a store."""
    try:
        yield
    except RunError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        reason = str(error).partition(". ")[0]
        raise StoreError(
            f"{reason}. The store {path} is as it was before. Put that right and repeat the command."
        ) from error
