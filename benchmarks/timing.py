"""Interleaved timing: machines are noisy, so two things are measured in turn and compared."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable


def seconds(job: Callable[[], object]) -> float:
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


def processor_seconds(job: Callable[[], object]) -> float:
    """What this process computed, on all its threads: what others do on the machine does not count."""
    begin = time.process_time()
    job()
    return time.process_time() - begin


def alternate(
    jobs: dict[str, Callable[[], object]],
    repeats: int = 3,
    clock: Callable[[Callable[[], object]], float] = seconds,
) -> dict[str, float]:
    """Median seconds of each job, run in turn after one warm-up each."""
    for job in jobs.values():
        job()
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            found[name].append(clock(job))
    return {name: statistics.median(values) for name, values in found.items()}


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
