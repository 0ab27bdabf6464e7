"""A label, a stream name and a path made by somebody who means harm, and a stream of them."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.tiny_run import tiny_stream

from meor.typing import SPLITS

TAG = "[red]<img src=x onerror=alert(1)>"
CODES = "\x1b[31m\x1b]0;t\x07\x08\x0b\x0c\x7f\x85\x9b2J\u200f\u202e\u2066\u200b\u2028\ufffe\U000e0041"
REST = """\"'&</title></script><b>**bold**_it_`code`[a](b://c)|~~s~~$x$ https://e.ee"""
LINES = "\n\r\t"
"""A name of a file may hold these; a label may not."""

LETTERS, SIZE = "L", 3_000
BEGINNINGS = ("", "=1+1", "+", "-", "@")


def label(text: str) -> str:
    """A label of 3,000 characters; different texts give different ones."""
    start = f"{BEGINNINGS[len(text) % len(BEGINNINGS)]}{TAG}{CODES}{REST}{text}"
    return start + LETTERS * (SIZE - len(start))


def component(text: str = "", size: int = 240) -> str:
    """A name of a file or folder, as long as one may be."""
    start = f"{text}{TAG}{CODES}{LINES}{REST}".replace("/", "\u2215")
    return start + LETTERS * (size - len(start.encode()))


def deep(root: Path) -> Path:
    """A folder whose path has some 3,000 bytes; a system takes 4,096."""
    while len(str(root).encode()) + 241 < SIZE:
        root /= component()
    root.mkdir(parents=True)
    return root


def unseen(text: str) -> set[str]:
    """Characters no output may hold: by Unicode's own tables, not by ours."""
    return {
        char for char in set(text) - {"\n"} if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    }


def write_stream_file(path: Path) -> Path:
    """The ring of `tests.tiny_run` with hostile labels, as one Parquet file."""
    stream = tiny_stream()
    rows = [
        (label(f"e{head}"), label(f"r{relation}"), label(f"e{tail}"), index, split.value)
        for index, snapshot in enumerate(stream.snapshots)
        for split in SPLITS
        for head, relation, tail in snapshot.facts([split]).tolist()
    ]
    names = ("head", "relation", "tail", "snapshot", "split")
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), path)
    return path
