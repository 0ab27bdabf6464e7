"""Files made elsewhere: arrays (`.npy`, `.safetensors`) and tab-separated lines that name labels or rows.

Nothing that a file holds is ever run, and every fault is named with its file and line.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from meor.errors import InputError, ModelError
from meor.stream.snapshot import Stream, Vocabulary
from meor.typing import Ids

Array = NDArray[Any]

KINDS = ("entity", "relation")
LONGEST_LINE = 1 << 20
"""Bytes; a label that long is a fault of the file, and reading on could fill the memory."""


def read_array(path: Path, name: str) -> Array:
    """The array of a file; of several tensors in a safetensors file, the one called `name`."""
    if not path.is_file():
        problem = "is a directory" if path.is_dir() else "is not a file"
        raise ModelError(problem, remedy="Name an array file, .npy or .safetensors", path=path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _read_npy(path)
    if suffix == ".safetensors":
        return _read_safetensors(path, name)
    raise ModelError(
        f"the ending {suffix or '(none)'} is not known",
        remedy="Save the array as .npy or .safetensors",
        path=path,
    )


def _read_npy(path: Path) -> Array:
    # A memory map checks the header against the file's length before anything is allocated, and refuses
    # arrays of Python objects, which only unpickling could fill. numpy reads the header with Python's own
    # tokenizer, which fails in more ways than can be listed.
    try:
        with np.errstate(over="raise"):
            return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:
        raise ModelError(
            f"not a readable .npy array ({_first_line(error)})",
            remedy="Save it with numpy.save(path, array, allow_pickle=False)",
            path=path,
        ) from None


def _read_safetensors(path: Path, name: str) -> Array:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            names = list(file.keys())
            chosen = names[0] if len(names) == 1 else name
            if chosen not in names:
                raise ModelError(
                    f"holds {len(names)} tensors, none of them called {name!r}",
                    remedy=f"Call it {name!r}, or keep it alone in its file",
                    path=path,
                )
            return _numbers(path, chosen, file.get_tensor(chosen))
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise ModelError(
            f"not a readable safetensors file ({_first_line(error)})", remedy="Save it again", path=path
        ) from None


def _numbers(path: Path, name: str, tensor: torch.Tensor) -> Array:
    # A file may claim more than an array can be, such as no rows of 2^60 numbers: numpy says so, not torch.
    if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float32)  # bfloat16 and the like have no numpy counterpart, and fit
    elif tensor.numel():
        return _mapped(path, name, tensor.numpy())
    return tensor.numpy()


def _mapped(path: Path, name: str, like: Array) -> Array:
    """A tensor as our own map of the file, which `release` can let go of."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        begin, _ = json.loads(file.read(size))[name]["data_offsets"]
    # "c", copy on write: torch takes no array that is read-only
    return np.memmap(path, like.dtype, "c", 8 + size + begin, like.shape)


def release(array: Array) -> None:
    """Let go of the pages of a mapped file that were read; reading them again maps them again."""
    mapping = getattr(array, "_mmap", None)
    if mapping is not None and hasattr(mapping, "madvise"):
        mapping.madvise(mmap.MADV_DONTNEED)


def _first_line(error: Exception) -> str:
    text = str(error).splitlines()
    return text[0][:200] if text else type(error).__name__


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
            "a line of more than 1 MiB", remedy="Break it into one entry per line", path=path, line=number
        )
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", remedy="Save it as UTF-8", path=path, line=number) from None
    if "\0" in text:
        raise InputError("a NUL character", remedy="Save it as plain text", path=path, line=number)
    return text.removesuffix("\n").removesuffix("\r")


@dataclass(frozen=True, slots=True)
class RowNames:
    """The names of one table's rows, as arrays: there may be millions."""

    known: Vocabulary
    row_of: Ids  # [ids] -1 where a label has no row
    line_of: Ids  # [ids] of the file
    named: NDArray[np.bool_]  # [rows]
    beyond: set[int] = field(default_factory=set)  # rows that the table does not have

    @classmethod
    def none(cls, known: Vocabulary, n_rows: int) -> RowNames:
        row_of = np.full(len(known), -1, np.int64)
        return cls(known, row_of, np.zeros(len(known), np.int64), np.zeros(n_rows, np.bool_))

    def fault(self, kind: str, row: int, label: str) -> str | None:
        """Why a label cannot have a row."""
        if row in self.beyond or (row < len(self.named) and self.named[row]):
            return f"{kind} row {row} was already named"
        earlier = int(self.line_of[self.known.id(label)])
        return f"the {kind} {label!r} was already given on line {earlier}" if earlier else None

    def add(self, row: int, label: str, line: int) -> None:
        id = self.known.id(label)
        self.row_of[id], self.line_of[id] = row, line
        if row < len(self.named):
            self.named[row] = True
        else:
            self.beyond.add(row)


def read_row_names(path: Path, stream: Stream, n_rows: dict[str, int]) -> dict[str, RowNames]:
    """By kind; each line must name a row and a label of the stream that no other line has named."""
    known = {"entity": stream.entities, "relation": stream.relations}
    found = {kind: RowNames.none(known[kind], n_rows[kind]) for kind in KINDS}
    for line, (kind, row, label) in read_rows(path, ("entity|relation", "row", "label")):
        problem = None
        if kind not in KINDS:
            problem = f"the kind {kind!r} is neither entity nor relation"
        elif not (row.isascii() and row.isdecimal() and len(row) <= 18):
            problem = f"the row {row!r} is not a number counted from 0"
        elif label not in known[kind]:
            problem = f"the stream {stream.name} has no {kind} {label!r}"
        else:
            problem = found[kind].fault(kind, int(row), label)
        if problem is not None:
            raise InputError(
                problem, remedy="Write entity|relation TAB row TAB label, each once", path=path, line=line
            )
        found[kind].add(int(row), label, line)
    return found
