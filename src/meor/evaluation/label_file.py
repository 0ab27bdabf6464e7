"""Lines of a small tab-separated file that names labels: strict, with the line of every fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from meor.errors import InputError

LONGEST_LINE = 1 << 20
"""Bytes; a label that long is a fault of the file, and reading on could fill the memory."""


def read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of every line; each must hold exactly the named columns, none of them empty."""
    shape = " TAB ".join(columns)
    for number, text in _lines(path):
        row = text.split("\t")
        if len(row) != len(columns):
            raise InputError(
                f"{len(row)} columns instead of {len(columns)}",
                remedy=f"Write {shape}, with tabs between",
                path=path,
                line=number,
            )
        for column, value in zip(columns, row, strict=True):
            if not value.strip():
                raise InputError(
                    f"the {column} is empty", remedy=f"Write {shape} on every line", path=path, line=number
                )
        yield number, row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file():
        problem = "is a directory" if path.is_dir() else "is not a file"
        raise InputError(problem, remedy="Name a tab-separated text file", path=path)
    try:
        with path.open("rb") as file:
            number = 0
            while raw := file.readline(LONGEST_LINE + 1):
                number += 1
                yield number, _decode(raw, path, number)
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", remedy="Name a file you may read", path=path
        ) from None


def _decode(raw: bytes, path: Path, number: int) -> str:
    if len(raw) > LONGEST_LINE:
        raise InputError(
            "a line of more than 1 MiB", remedy="Break it into one entry a line", path=path, line=number
        )
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", remedy="Save it as UTF-8", path=path, line=number) from None
    if "\0" in text:
        raise InputError("a NUL character", remedy="Save it as plain text", path=path, line=number)
    return text.removesuffix("\n").removesuffix("\r")
