"""Memory: amounts as people write them, and giving back what was freed."""

from __future__ import annotations

import ctypes
import gc
import re
from contextlib import suppress
from functools import cache
from typing import Any

from meor.errors import InputError

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


def give_memory_back() -> None:
    """To the system: glibc would keep freed memory for this process, gigabytes at a time.

    Worth some milliseconds where much was freed: after a run, a file, or an update.
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
