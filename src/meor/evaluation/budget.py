"""Byte budgets as people write them, and what ranking takes of one."""

from __future__ import annotations

import re
from typing import Final

from meor.errors import InputError, MemoryBudgetError
from meor.search.screen import TILE_CANDIDATES, TILE_QUERIES

SMALLEST_BLOCK: Final = 64  # queries
LARGEST_BLOCK: Final = 8192

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


def ranking_bytes(rows: int, width: int, queries: int) -> int:
    """What ranking takes beside the model: screened rows, one tile, and a block of queries."""
    each = width * (8 + 8 + 4 + 8) + 256  # rows gathered, query, its float32 copy, bookkeeping
    return 4 * rows * width + 4 * TILE_QUERIES * min(TILE_CANDIDATES, rows) + queries * each


def ranking_block(memory: int, rows: int, width: int) -> int:
    """Queries formed at a time: what the budget leaves after the screened rows and one tile."""
    fixed = ranking_bytes(rows, width, 0)
    queries = (memory - fixed) // (ranking_bytes(rows, width, 1) - fixed)
    if queries < SMALLEST_BLOCK:
        raise MemoryBudgetError(
            f"A budget of {memory:,} bytes is too small: ranking {rows:,} candidates of width {width} "
            f"needs {ranking_bytes(rows, width, SMALLEST_BLOCK):,}. Raise --memory."
        )
    return min(queries, LARGEST_BLOCK)
