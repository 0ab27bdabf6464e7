"""A file of `torch.save` (a zip with `data.pkl` and one entry per storage), read without unpickling it."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from meor.errors import ModelError
from meor.escape import terminal
from meor.evaluation.inert_names import Placed, RefusedPickle
from meor.evaluation.inert_pickle import read_pickle

LARGEST_PICKLE: Final = 2**26  # bytes of data.pkl; a model's are thousands
_REMEDY: Final = "Save the model again with PyKEEN's save_to_directory, or export arrays and use --entity"


class TorchFile:
    """The content of the file as plain data (`inert_pickle`), and its tensors as arrays."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise self.fault("is not a file" if not path.is_dir() else "is a directory")
        self.zip, self.root = self._opened()
        try:
            order = (
                self._bytes("byteorder", 16) if f"{self.root}byteorder" in self.zip.namelist() else b"little"
            )
            if order != b"little":
                raise self.fault("its numbers are not little-endian")
            self.content: Any = read_pickle(self._bytes("data.pkl", LARGEST_PICKLE))
        except RefusedPickle as refused:
            raise self.fault(f"is refused and nothing in it was run: {refused}") from None

    def _opened(self) -> tuple[zipfile.ZipFile, str]:
        try:
            opened = zipfile.ZipFile(self.path)
            pickles = [name for name in opened.namelist() if name.endswith("/data.pkl")]
        except Exception as error:  # a damaged zip fails in more ways than can be listed
            raise self.fault(f"is not a zip file of torch.save ({_first(error)})") from None
        if len(pickles) != 1 or pickles[0].count("/") != 1:
            raise self.fault("is a zip file, but not one of torch.save")
        return opened, pickles[0].removesuffix("data.pkl")

    def _bytes(self, name: str, most: int) -> bytes:
        """An entry, its checksum verified. Compressed entries are refused: torch writes none."""
        try:
            entry = self.zip.getinfo(self.root + name)
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > most:
                raise self.fault(f"its entry {terminal(name[:40])} is compressed, or larger than any model's")
            return self.zip.read(entry)
        except ModelError:
            raise
        except Exception as error:
            raise self.fault(f"its entry {terminal(name[:40])} cannot be read ({_first(error)})") from None

    def array(self, placed: Any, what: str) -> NDArray[Any]:
        """The numbers of a tensor."""
        if not isinstance(placed, Placed):
            raise self.fault(f"{what} is no tensor")
        size = self.path.stat().st_size
        flat = self._bytes(f"data/{placed.storage.key}", size)
        dtype = np.dtype(placed.storage.dtype)
        count = math.prod(placed.shape)
        row_major = tuple(math.prod(placed.shape[at + 1 :]) for at in range(len(placed.shape)))
        if placed.stride != row_major or len(flat) < dtype.itemsize * (placed.offset + count):
            raise self.fault(f"{what} is larger than what is stored of it, or not stored row by row")
        return np.frombuffer(flat, dtype, count, placed.offset * dtype.itemsize).reshape(placed.shape)

    def fault(self, problem: str) -> ModelError:
        return ModelError(problem, remedy=_REMEDY, path=self.path)


def _first(error: Exception) -> str:
    return terminal(str(error)[:120]) or type(error).__name__
