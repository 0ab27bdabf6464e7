"""The search behind the preset `practical`: how the replay host refines, chosen on validation facts.

    python results/practical/search.py            (resumable; MEOR_DATA names the streams' folder)

Every setting is one `meor run` of method `none` with ComplEx 200, float64, on one thread, ranked on all
validation facts and filtered by train and valid facts. Each update stops by itself, so what is chosen is the
learning rate and the rows that newcomers start from, for each stream on its own. The criterion is the
harmonic mean of H_cur and A_TN. Every setting is tried with the first selection seed; where the best rate is
the largest one tried, the next one is tried as well. The best three settings are tried with two more seeds.
Among those within 2 % of the best one, the largest rate is taken: it needs a third of the time. Selection
seeds are never part of results. No regularizer and no test fact is looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from threading import Lock

HERE = Path(__file__).parent
TABLE = HERE / "search.jsonl"
RUNS = Path("runs/practical-search")
STREAMS = ("ENTITY", "FBInc-L", "FBInc-S", "WN-CKGE")
SEEDS = (1_000_100, 1_000_101, 1_000_102)
RATES, INITIALISATIONS = (1e-3, 3e-3, 1e-2), ("base", "neighbours")
BEYOND = (3e-2, 1e-1)
ALIKE = 0.02
FINALISTS = 3
WORKERS = 2
ENDPOINTS = ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")

Setting = tuple[float, str]
Key = tuple[str, Setting, int]
_writing = Lock()


def command(stream: str, setting: Setting, seed: int, out: Path) -> list[str]:
    rate, init = setting
    options = {
        "refine.learning_rate": rate,
        "refine.newcomer_init": init,
        "refine.passes": 1000,
        "refine.validate_steps": 10,
        "refine.least_steps": 300,
        "refine.patience": 5,
        "refine.tolerance": 0.005,
        "refine.order": "permuted",
        "evaluation.split": "valid",
        "evaluation.filter_splits": "[train, valid]",
    }
    words = ["meor", "run", "--stream", stream, "--method", "none", "--seed", str(seed), "--out", str(out)]
    words += ["--threads", "1", "--force", "--quiet"]
    return words + [part for key, value in options.items() for part in ("--set", f"{key}={value}")]


def measure(key: Key) -> None:
    """One run; its line is added to the table."""
    stream, (rate, init), seed = key
    out = RUNS / f"{stream}-{rate:g}-{init}-{seed}"
    began = time.monotonic()
    words = command(stream, (rate, init), seed, out)
    subprocess.run([str(Path(sys.executable).parent / words[0]), *words[1:]], check=True)
    found = json.loads((out / "endpoints.json").read_text())["valid"]
    events = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    updates = [event for event in events if event["event"] == "updated"]
    row = {
        "stream": stream,
        "learning_rate": rate,
        "newcomer_init": init,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "best_pass": [event["kept_pass"] for event in updates],
        "valid": {name: shown(found[name]) for name in ENDPOINTS},
    }
    with _writing, TABLE.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(stream, rate, init, seed, row["best_pass"], row["valid"], flush=True)


def shown(endpoint: dict[str, object]) -> object:
    """Its value, or the mean over the cells that exist (where others hold no query)."""
    return endpoint["value"] if endpoint["value"] is not None else endpoint["mean_over_existing_cells"]


def known() -> dict[Key, dict[str, float]]:
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    rows = [json.loads(line) for line in lines]
    return {
        (row["stream"], (row["learning_rate"], row["newcomer_init"]), row["seed"]): row["valid"]
        for row in rows
    }


def make(keys: list[Key]) -> None:
    missing = [key for key in keys if key not in known()]
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(measure, missing))


def criterion(stream: str, setting: Setting, seeds: tuple[int, ...]) -> float:
    found = [known()[stream, setting, seed] for seed in seeds]
    return sum(2 * one["H_cur"] * one["A_TN"] / (one["H_cur"] + one["A_TN"]) for one in found) / len(found)


def ranked(stream: str, settings: list[Setting], seeds: tuple[int, ...]) -> list[Setting]:
    return sorted(settings, key=lambda setting: -criterion(stream, setting, seeds))


def tried(stream: str) -> list[Setting]:
    """Settings of the first seed; the grid goes on while its largest rate is the best."""
    rates = list(RATES)
    for further in (*BEYOND, None):
        settings = list(product(rates, INITIALISATIONS))
        make([(stream, setting, SEEDS[0]) for setting in settings])
        if further is None or ranked(stream, settings, SEEDS[:1])[0][0] < rates[-1]:
            break
        rates.append(further)
    return settings


def chosen(stream: str, finalists: list[Setting]) -> list[Setting]:
    """The finalists, the one that is taken first."""
    found = {setting: criterion(stream, setting, SEEDS) for setting in finalists}
    alike = [setting for setting in finalists if found[setting] > (1 - ALIKE) * max(found.values())]
    taken = max(alike, key=lambda setting: (setting[0], found[setting]))
    return [taken, *(setting for setting in ranked(stream, finalists, SEEDS) if setting != taken)]


def table(stream: str, settings: list[Setting]) -> list[str]:
    """All settings with the first seed, then the finalists with all of them; the chosen one first."""
    first = ranked(stream, settings, SEEDS[:1])
    finalists = chosen(stream, first[:FINALISTS])
    lines = [
        f"\n## {stream}\n",
        "| learning rate | newcomers | seeds | criterion | H_cur | A_TN | D_MCI | A_QN |",
        "|---|---|---|---|---|---|---|---|",
    ]
    shown = [(setting, SEEDS) for setting in finalists]
    shown += [(setting, SEEDS[:1]) for setting in first[FINALISTS:]]
    for setting, seeds in shown:
        found = [known()[stream, setting, seed] for seed in seeds]
        means = (sum(one[name] for one in found) / len(found) for name in ("H_cur", "A_TN", "D_MCI", "A_QN"))
        values = " | ".join(f"{mean:.4f}" for mean in means)
        score = criterion(stream, setting, seeds)
        lines.append(f"| {setting[0]:g} | {setting[1]} | {len(seeds)} | {score:.4f} | {values} |")
    return lines


def main() -> None:
    lines = [__doc__.split("\n\n", 1)[0] + "\n\nThe setting that `practical` takes stands first.\n"]
    for stream in STREAMS:
        settings = tried(stream)
        finalists = ranked(stream, settings, SEEDS[:1])[:FINALISTS]
        make([(stream, setting, seed) for setting in finalists for seed in SEEDS[1:]])
        lines += table(stream, settings)
        (HERE / "search.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
