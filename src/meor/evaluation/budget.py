"""Byte budgets as people write them, what ranking takes of one, and how freed memory is given back."""

from __future__ import annotations

import ctypes
import gc
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from meor.errors import InputError, MemoryBudgetError
from meor.search.screen import TILE_CANDIDATES, TILE_QUERIES

SMALLEST_BLOCK: Final = 64  # queries
LARGEST_BLOCK: Final = 8192
SMALLEST_TILE: Final = 1024  # rows
TILE_BYTES: Final = 2**24  # of widened rows: more of them at a time would not be faster

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def parse_bytes(text: str) -> int:
    """`1GiB`, `512 MiB`, `1.5G`, `800MB`, `1000000`."""
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-zA-Z]*)\s*", text, re.ASCII)
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None or float(match[1]) * unit < 1:
        raise InputError(f"{text!r} is not an amount of memory", remedy="Write it like 1GiB or 512MiB")
    return int(float(match[1]) * unit)


@dataclass(frozen=True, slots=True)
class RankingPlan:
    """How many queries and how many candidates are looked at together, so that ranking keeps to a budget.

    Rows stored in float64 are prepared once if the budget allows it. Narrower rows are widened a tile at a
    time: the whole of them would take twice the memory of the file they come from.
    """

    queries: int
    rows: int
    width: int
    widened: bool  # rows are stored narrower than float64
    candidates: int

    @classmethod
    def within(cls, memory: int, candidates: int, width: int, *, widened: bool = False) -> RankingPlan:
        """The largest plan; a `MemoryBudgetError` before anything is allocated if there is none."""

        def plan(queries: int, rows: int) -> RankingPlan:
            return cls(queries, rows, width, widened, candidates)

        query, row = (plan(*unit).bytes - plan(0, 0).bytes for unit in ((1, 0), (0, 1)))
        whole = (memory - plan(0, candidates).bytes) // query
        if not widened and whole >= SMALLEST_BLOCK:
            return plan(min(whole, LARGEST_BLOCK), max(candidates, 1))
        smallest = plan(SMALLEST_BLOCK, min(SMALLEST_TILE, candidates))
        if smallest.bytes > memory:
            raise MemoryBudgetError(
                f"A budget of {memory:,} bytes is too small: ranking {candidates:,} candidates of width "
                f"{width} needs {smallest.bytes:,}. Raise --memory."
            )
        room = memory - plan(SMALLEST_BLOCK, 0).bytes
        rows = min(max(min(room // 2, TILE_BYTES) // row, smallest.rows, 1), max(candidates, 1))
        return plan(min((memory - plan(0, rows).bytes) // query, LARGEST_BLOCK), rows)

    @property
    def bytes(self) -> int:
        """What ranking takes beside the model: screened (and widened) rows, a tile of scores, queries."""
        row = max(self.width, 1) * (8 + 4 if self.widened else 4)
        query = self.width * (8 + 8 + 4 + 8) + 256  # rows gathered, query, its float32 copy, bookkeeping
        scores = 4 * TILE_QUERIES * min(TILE_CANDIDATES, self.candidates)
        return scores + self.rows * row + self.queries * query


def give_memory_back() -> None:
    """Return freed memory to the system: glibc would keep gigabytes of it for this process.

    It takes some milliseconds, which are well spent after a run, a file or an update.
    """
    gc.collect()
    trim: Any = getattr(c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@cache
def c_library() -> ctypes.CDLL | None:
    with suppress(OSError, TypeError):
        return ctypes.CDLL(None)
    return None
