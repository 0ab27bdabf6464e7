"""Peak memory of `meor audit` on embeddings made elsewhere: a million float32 rows, 1,000 test facts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

MIB = 2**20
LIMIT = 1536 * MIB
_CHILD = """
import pathlib, re, sys
from meor.cli import main
try:
    main()
finally:  # not getrusage, which starts from what the parent had when this process was made
    status = pathlib.Path("/proc/self/status").read_text()
    print(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1], file=sys.stderr)
"""


def write_files(folder: Path, rows: int, width: int, facts: int, *, seed: int = 0) -> list[str]:
    """A stream whose last tenth of entities are newcomers, rows in another order; the audit's arguments."""
    rng = np.random.default_rng(seed)
    old = rows - rows // 10
    first = [(f"e{n}", f"r{n // 2 % 10}", f"e{n + 1}") for n in range(0, old - 1, 2)]
    then = [(f"e{n}", f"r{n % 10}", f"e{n - old}") for n in range(old, rows)]
    for snapshot, (train, bound) in enumerate(((first, old), (then, rows))):
        place = folder / "stream" / str(snapshot)
        place.mkdir(parents=True)
        known = set(train)
        test: set[tuple[str, str, str]] = set()
        while len(test) < facts // 2:
            head, relation, tail = rng.integers([bound, 10, bound])
            fact = (f"e{head}", f"r{relation}", f"e{tail}")
            if fact not in known:
                test.add(fact)
        for name, some in (("train", train), ("valid", []), ("test", sorted(test))):
            (place / f"{name}.txt").write_text("".join("\t".join(fact) + "\n" for fact in some))
    labels = [f"e{n}" for n in rng.permutation(rows)]
    lines = [f"entity\t{row}\t{label}\n" for row, label in enumerate(labels)]
    lines += [f"relation\t{row}\tr{row}\n" for row in range(10)]
    (folder / "names.tsv").write_text("".join(lines))
    target = np.lib.format.open_memmap(folder / "entity.npy", "w+", np.float32, (rows, width))
    for begin in range(0, rows, 10_000):
        target[begin : begin + 10_000] = rng.standard_normal((min(10_000, rows - begin), width), np.float32)
    target.flush()
    np.save(folder / "relation.npy", rng.standard_normal((10, width), np.float32))
    return [
        *("audit", "--stream", str(folder / "stream"), "--backbone", "distmult"),
        *("--entity", str(folder / "entity.npy"), "--relation", str(folder / "relation.npy")),
        *("--vocabulary", str(folder / "names.tsv"), "--out", str(folder / "audit")),
    ]


def peak_of(arguments: list[str]) -> int:
    """Resident bytes at most, of the command alone: mapped files count where they are in memory."""
    child = [sys.executable, "-c", _CHILD, *arguments]
    done = subprocess.run(child, capture_output=True, text=True, env=os.environ.copy(), check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return int(done.stderr.splitlines()[-1]) * 1024


def peak_memory(rows: int = 1_000_000, width: int = 200, facts: int = 1000) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        arguments = write_files(Path(folder), rows, width, facts)
        began = time.perf_counter()
        peak = peak_of(arguments)
        seconds = time.perf_counter() - began
    return {
        "what": f"audit of {rows:,} x {width} float32 rows made elsewhere, {facts:,} test facts",
        "file_mib": rows * width * 4 // MIB,
        "peak_mib": peak // MIB,
        "limit_mib": LIMIT // MIB,
        "seconds": round(seconds, 1),
    }


if __name__ == "__main__":
    print(json.dumps(peak_memory(), indent=2))
