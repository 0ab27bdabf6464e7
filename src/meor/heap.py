"""Freed memory goes back to the system; glibc would keep it for this process, gigabytes at a time."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from functools import cache
from typing import Any


def give_memory_back() -> None:
    """Worth some milliseconds where much was freed: after a run, a file, or an update."""
    gc.collect()
    trim: Any = getattr(c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@cache
def c_library() -> ctypes.CDLL | None:
    with suppress(OSError, TypeError):
        return ctypes.CDLL(None)
    return None
