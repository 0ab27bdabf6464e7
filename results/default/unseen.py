"""Judged by validation facts that no run has seen, neither to train nor to decide where an update stops.

    python results/default/unseen.py            (resumable; MEOR_DATA names the streams' folder)

Each update stops by validation facts; a choice by the same facts counts the luck of stopping as a gain, and
the host, which has more of it to find, looks better than it is. So, seed by seed, the validation facts of
every snapshot are divided at random: one half stops, the other half judges. A folder is written in which the
second half stands as `test.txt`; no test fact of the stream is in it. Six seeds are tried, none of which is
part of results.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from choose import ENDPOINTS, MARGIN, RUNS, WORKERS, known, measure

HERE = Path(__file__).parent
TABLE = HERE / "unseen.jsonl"
STREAMS = RUNS / "unseen-streams"
SEEDS = tuple(range(1_000_100, 1_000_106))
ALONE = (None, None, None)
TRIED: dict[str, tuple[tuple[float, float, float], ...]] = {
    "FBInc-L": (
        (1.5, 0.6, 0.0024),
        (1.3, 0.6, 0.0024),
        (1.15, 0.6, 0.0024),
        (1.3, 0.75, 0.0024),
        (1.15, 0.75, 0.0024),
        (1.5, 0.75, 0.0024),
        (1.3, 0.9, 0.0024),
        (1.15, 0.9, 0.0024),
        (1.3, 0.75, 0.0048),
        (1.3, 0.75, 0.0012),
        (1.3, 0.9, 0.0048),
        (1.0, 0.9, 0.0024),
        (1.3, 1.1, 0.0024),
        (1.15, 1.0, 0.0024),
        (1.15, 1.2, 0.0024),
        (1.0, 1.2, 0.0024),
        (1.0, 1.5, 0.0024),
        (1.15, 1.0, 0.0012),
        (1.15, 1.0, 0.0048),
    ),
}
"""Factor of the cap, lift, shrink."""


def divided(stream: str, seed: int) -> Path:
    """The stream, half of whose validation facts stand where its test facts were."""
    out = STREAMS / f"{stream}-{seed}"
    if not out.exists():
        half = out.with_suffix(".part")
        shutil.rmtree(half, ignore_errors=True)
        draw = random.Random(seed)  # a split, no secret
        for snapshot in sorted((Path(os.environ["MEOR_DATA"]) / stream).iterdir()):
            facts = (snapshot / "valid.txt").read_text().splitlines(keepends=True)
            draw.shuffle(facts)
            into = half / snapshot.name
            into.mkdir(parents=True)
            shutil.copy(snapshot / "train.txt", into)
            (into / "valid.txt").write_text("".join(facts[: len(facts) // 2]))
            (into / "test.txt").write_text("".join(facts[len(facts) // 2 :]))
        half.rename(out)
    return out


def command(setting: tuple[Any, ...], out: Path) -> list[str]:
    stream, factor, lift, shrink, seed = setting
    words = ["meor", "run", "--stream", str(divided(stream, seed)), "--seed", str(seed), "--out", str(out)]
    words += ["--threads", "1", "--force", "--quiet", "--method", "none" if factor is None else "cap+guard"]
    said = {"cap.factor": factor, "lift": lift, "shrink": shrink}
    return words + [
        part for key, value in said.items() if value is not None for part in ("--set", f"{key}={value}")
    ]


def make(setting: tuple[Any, ...]) -> None:
    out = RUNS / "-".join(("unseen", *map(str, setting)))
    measure(setting, command(setting, out), TABLE, judged="test")
    shutil.rmtree(out)


def effects(setting: tuple[Any, ...], found: dict[tuple[Any, ...], dict[str, float]]) -> tuple[str, ...]:
    """Means over seeds minus the host alone, the standard error of the first, and is A_TN kept?"""
    effect = {
        name: [found[*setting, seed][name] - found[setting[0], *ALONE, seed][name] for seed in SEEDS]
        for name in ENDPOINTS
    }
    means = (f"{statistics.mean(effect[name]):+.4f}" for name in ("H_cur", "D_MCI", "A_TN", "A_QN"))
    errors = (f"{statistics.stdev(effect[name]) / len(SEEDS) ** 0.5:.4f}" for name in ("H_cur", "A_TN"))
    return *means, *errors, "yes" if statistics.mean(effect["A_TN"]) > -MARGIN else "no"


def main() -> None:
    settings = [(stream, *one) for stream, several in TRIED.items() for one in several]
    hosts = [(stream, *ALONE) for stream in TRIED]
    there = known(TABLE, judged="test")
    missing = [(*one, seed) for seed in SEEDS for one in (*hosts, *settings) if (*one, seed) not in there]
    for stream in TRIED:
        for seed in SEEDS:
            divided(stream, seed)
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else WORKERS
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(make, missing))
    found = known(TABLE, judged="test")
    lines = [
        __doc__.split("\n\n", 1)[0],
        "",
        f"Minus the host alone; means over {len(SEEDS)} seeds, and the standard errors of two of them.",
        "",
        "| stream | cap | lift | shrink | H_cur | D_MCI | A_TN | A_QN | error of H_cur | error of A_TN "
        "| A_TN kept within .005 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in settings:
        told = (one[0], *(f"{each:g}" for each in one[1:]))
        lines.append(f"| {' | '.join((*told, *effects(one, found)))} |")
    (HERE / "unseen.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
