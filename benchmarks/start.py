"""Processor seconds until the first result, with kernels compiled and with kernels loaded."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SETTINGS = ("dim=16", "base.epochs=2", "refine.passes=1")
COMMAND = "from meor.cli import main; main()"


def processor_seconds(*words: str, environment: dict[str, str]) -> float:
    """User and system seconds of a Python process: other work on the machine hardly changes them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *words], env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_result(place: Path, environment: dict[str, str]) -> float:
    """A run of the embedded world with everything but the kernels made anew."""
    with tempfile.TemporaryDirectory(dir=place) as fresh:
        words = [word for each in SETTINGS for word in ("--set", each)]
        where = ["--out", f"{fresh}/run", "--cache", f"{fresh}/cache", "--threads", "1"]
        run = ["run", "--stream", "world", "--method", "meor", *words, *where]
        return processor_seconds(COMMAND, *run, environment=environment)


def against_torch(repeats: int = 5) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        one_thread = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        environment = {**os.environ, **one_thread, "NUMBA_CACHE_DIR": str(place / "kernels")}
        compiled = first_result(place, environment)
        pairs = [
            (
                processor_seconds("import torch", environment=environment),
                first_result(place, environment),
            )
            for _ in range(repeats)
        ]
    torch, loaded = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {
        "what": f"processor seconds of meor run --method meor, {', '.join(SETTINGS)}, one thread",
        "kernels_compiled": compiled,
        "kernels_loaded": loaded,
        "import_torch": torch,
        "loaded_over_import_torch": loaded / torch,
    }
