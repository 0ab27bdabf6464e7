"""How the work of compiled kernels is divided between threads.

A shared kernel is a function `kernel(begin, end, ...)` that does items begin..end-1 of its work, each from
end to end: no sum crosses items, so no division of the work, and no thread count, changes a bit. Threads are
ours and not numba's: a kernel without a parallel region of its own compiles in a quarter of the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

BLOCKS_PER_THREAD: Final = 8  # so that a thread with light items takes over from one with heavy items

_threads = 1
_pool: ThreadPoolExecutor | None = None


def set_threads(count: int) -> None:
    """Threads of the kernels; results do not depend on it."""
    global _threads, _pool
    count = max(1, min(count, os.cpu_count() or 1))
    if count != _threads:
        _threads, _pool = count, None


def share(work: Callable[..., Any], count: int, *arguments: Any) -> None:
    """Call `work(begin, end, *arguments)` until all `count` items are done, on as many threads as are set."""
    if _threads == 1 or count < 2:
        work(0, count, *arguments)
        return
    size = max(1, -(-count // (BLOCKS_PER_THREAD * _threads)))
    blocks = iter(range(0, count, size))  # taking the next one is atomic
    others = [
        _threads_pool().submit(_work_off, work, blocks, size, count, arguments) for _ in range(_threads - 1)
    ]
    _work_off(work, blocks, size, count, arguments)
    for other in others:
        other.result()


def _work_off(work: Callable[..., Any], blocks: Iterator[int], size: int, count: int, arguments: Any) -> None:
    for begin in blocks:
        work(begin, min(begin + size, count), *arguments)


def _threads_pool() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603
    if _pool is None:
        _pool = ThreadPoolExecutor(_threads - 1, thread_name_prefix="meor")
    return _pool
