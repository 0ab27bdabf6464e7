"""Compiled kernels: where their machine code is kept, and how their work is divided between threads.

numba keeps the code beside the package or in the user's cache. Where neither can be written (a container with
a read-only package and home) numba refuses to compile anything, so another folder stands in, and one line
says so. What numba keeps is unpickled when it is read: the folder must be one that nobody else can write to.

A shared kernel is a function `kernel(begin, end, ...)` that does items begin..end-1 of its work, each from
end to end: no sum crosses items, so no division of the work, and no thread count, changes a bit. Threads are
ours and not numba's: a kernel without a parallel region of its own compiles in a quarter of the time.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import numba
from llvmlite import binding
from numba.core import event

_KEPT: Final = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}  # C never calls a kernel
_INLINED: Final = {**_KEPT, "forceinline": True}

FAST: Final = {"reassoc", "contract", "nsz"}
"""Sums may be vectorised (reassociated) and fused, but NaN and infinity keep their meaning."""

_REFUSED = "cannot cache function"
_VARIABLE = "NUMBA_CACHE_DIR"
_PLACES = ("MEOR_CACHE", "XDG_RUNTIME_DIR")
"""Variables that name a folder which outlives this process, tried in this order."""

_FAMILIES: Final = (
    ("icelake-server", ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni")),
    ("haswell", ("avx2", "fma", "bmi2")),
)
"""Processors that code is made for, and what a machine must have to run it, the best one first."""

BLOCKS_PER_THREAD: Final = 8  # so that a thread with light items takes over from one with heavy items

_threads = 1
_pool: ThreadPoolExecutor | None = None


def family(has: Mapping[str, bool]) -> str | None:
    """The processor that code is made for, by the instructions that a machine has.

    Made for the very processor it runs on, code would add up vectors of another width on another model, and
    last bits would differ between machines.
    """
    return next((name for name, needs in _FAMILIES if all(map(has.get, needs))), None)


if numba.config.CPU_NAME is None:  # type: ignore[attr-defined]
    with suppress(RuntimeError):  # LLVM cannot tell what some processors have
        numba.config.CPU_NAME = family(binding.get_host_cpu_features())  # type: ignore[attr-defined]


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, once per machine where its code can be kept."""
    return _compiled(function, _KEPT)


def elementwise_kernel(function: Callable[..., Any]) -> Any:
    """`kernel` that divides by 0 as numpy does: a check before each division forbids vector code.

    They change no bit where nothing is summed.
    """
    return _compiled(function, {**_KEPT, "error_model": "numpy"})


def fast_kernel(function: Callable[..., Any]) -> Any:
    """`kernel` whose sums LLVM may reorder to use vector instructions."""
    return _compiled(function, {**_KEPT, "fastmath": FAST})


def kernel_part(function: Callable[..., Any]) -> Any:
    """A small function that is inlined in each kernel that calls it: a call would cost more than its work."""
    return _compiled(function, _INLINED)


def fast_part(function: Callable[..., Any]) -> Any:
    """`kernel_part` whose sums LLVM may reorder.

    If it were called as a function of its own, there would be two compiled copies of it, and their sums
    would have different orders. Which copy runs would depend on whether this process compiled the code or
    loaded it.
    """
    return _compiled(function, {**_INLINED, "fastmath": FAST})


class _Once(event.Listener):  # type: ignore[misc]
    def __init__(self, say: Callable[[], None]) -> None:
        self.say: Callable[[], None] | None = say

    def on_start(self, event: Any) -> None:
        if self.say is not None:
            say, self.say = self.say, None
            say()

    def on_end(self, event: Any) -> None:
        pass


def on_first_compile(say: Callable[[], None]) -> None:
    """Be told once, when a kernel is about to be compiled: code that was kept is only loaded."""
    event.register("numba:compile", _Once(say))  # type: ignore[no-untyped-call]


def _compiled(function: Any, options: dict[str, Any]) -> Any:
    made = _made(function, options)
    if made is None and _settled():
        made = _made(function, options)
    return made or _made(function, {**options, "cache": False})


def _made(function: Any, options: dict[str, Any]) -> Any:
    """None where numba has no place to keep the code."""
    try:
        return numba.njit(**options)(function)
    except RuntimeError as error:
        if _REFUSED not in str(error):
            raise
        return None


@cache
def _settled() -> bool:
    """Choose a folder once, for this process and those it starts. False where there is none."""
    again = f"every start compiles again, for about a minute, unless {_VARIABLE} names a folder of yours"
    lasting = _lasting_folder()
    folder = lasting or _passing_folder()
    if folder is None:
        _tell(f"compiled code cannot be kept: no folder can be written. So {again}.")
        return False
    os.environ[_VARIABLE] = str(folder)
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    kept = f"goes to {folder}" if lasting else f"goes to {folder} until this command ends: {again}"
    _tell(f"neither the package nor your cache can be written, so compiled code {kept}.")
    return True


def _lasting_folder() -> Path | None:
    named = (os.environ.get(variable) for variable in _PLACES)
    folders = (_private(Path(place).absolute() / f"meor-compiled-{os.getuid()}") for place in named if place)
    return next((folder for folder in folders if folder is not None), None)


def _passing_folder() -> Path | None:
    """Of mode 0700 and with a name nobody can guess; gone when this process ends."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="meor-compiled-"))
    except OSError:
        return None
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork, which would take it from under its parent
        shutil.rmtree(folder, ignore_errors=True)


def _private(folder: Path) -> Path | None:
    """The folder, where it is or becomes ours alone; None where another user could replace what is in it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        above = folder.parent.stat()
        others_write = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
        if others_write or above.st_uid not in (0, os.getuid()):
            return None
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()  # a link would lead somewhere that was not looked at
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
        if ours:
            tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return folder if ours else None


def _tell(text: str) -> None:
    print(f"meor: {text}", file=sys.stderr)


def set_threads(count: int) -> None:
    """Threads of the kernels; results do not depend on it."""
    global _threads, _pool
    count = max(1, min(count, os.cpu_count() or 1))
    if count != _threads:
        _threads, _pool = count, None


def share(work: Callable[..., Any], count: int, *arguments: Any, most: int | None = None) -> None:
    """Call `work(begin, end, *arguments)` until all `count` items are done, on as many threads as are set.

    `most` items come at a time, where the work on some of them has several parts that find them in the cache.
    """
    global _pool  # noqa: PLW0603
    alone = _threads == 1 or count < 2
    size = max(1, count if alone else -(-count // (BLOCKS_PER_THREAD * _threads)))
    size = size if most is None else min(size, most)
    blocks = iter(range(0, count, size))  # taking the next one is atomic
    if alone:
        _work_off(work, blocks, size, count, arguments)
        return
    pool = _threads_pool()
    try:
        others = [pool.submit(_work_off, work, blocks, size, count, arguments) for _ in range(_threads - 1)]
    except BaseException:
        # Ctrl-C while a thread starts: the pool does not know that thread yet, and Python would wait for it
        # at its end without telling it to stop.
        pool.shutdown(wait=False)
        _pool = None
        raise
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
