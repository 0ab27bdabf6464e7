"""The search behind the preset `practical`: refinement of the replay host on validation facts only.

    python results/practical/search.py            (resumable; MEOR_DATA names the streams' folder)

Every setting is one `meor run` of method `none` with ComplEx 200, float64, seed 100 (no study uses it),
ranked on validation facts, filtered by train and valid facts. The criterion is the harmonic mean of H_cur and
A_TN, averaged over ENTITY and FBInc-L. Learning rate and passes are searched first, with newcomers
initialised as the base was; then the initialisation, at the three best of those. No regularizer and no test
fact is looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE / "search.jsonl"
RUNS = Path("runs/practical-search")
STREAMS = ("ENTITY", "FBInc-L")
RATES, PASSES = (1e-3, 3e-3, 1e-2), (5, 20, 50)
INITIALISATIONS = ("matched", "neighbours")

Setting = tuple[float, int, str]


def measure(stream: str, setting: Setting) -> dict[str, float]:
    """Validation endpoints of one run."""
    rate, passes, init = setting
    out = RUNS / f"{stream}-{rate:g}-{passes}-{init}"
    options = {
        "refine.learning_rate": rate,
        "refine.passes": passes,
        "refine.newcomer_init": init,
        "refine.order": "permuted",
        "evaluation.split": "valid",
        "evaluation.filter_splits": "[train, valid]",
    }
    command = ["meor", "run", "--stream", stream, "--method", "none", "--seed", "100", "--out", str(out)]
    command += [
        "--force",
        "--quiet",
        *(part for key, value in options.items() for part in ("--set", f"{key}={value}")),
    ]
    subprocess.run([str(Path(sys.executable).parent / command[0]), *command[1:]], check=True)
    found = json.loads((out / "endpoints.json").read_text())["valid"]
    return {name: found[name]["value"] for name in ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")}


def known() -> dict[tuple[str, Setting], dict[str, float]]:
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    rows = [json.loads(line) for line in lines]
    return {
        (row["stream"], (row["learning_rate"], row["passes"], row["newcomer_init"])): row["valid"]
        for row in rows
    }


def score(setting: Setting) -> float:
    """Mean over the streams of the harmonic mean of H_cur and A_TN, measuring what is not known yet."""
    total = 0.0
    for stream in STREAMS:
        found = known().get((stream, setting))
        if found is None:
            found = measure(stream, setting)
            row = {
                "stream": stream,
                "learning_rate": setting[0],
                "passes": setting[1],
                "newcomer_init": setting[2],
            }
            with TABLE.open("a") as file:
                file.write(json.dumps({**row, "valid": found}) + "\n")
        total += 2 * found["H_cur"] * found["A_TN"] / (found["H_cur"] + found["A_TN"])
        print(stream, setting, {name: round(value, 4) for name, value in found.items()}, flush=True)
    return total / len(STREAMS)


def main() -> None:
    scores = {setting: score(setting) for setting in product(RATES, PASSES, ("base",))}
    best = sorted(scores, key=scores.__getitem__, reverse=True)[:3]
    for (rate, passes, _), init in product(best, INITIALISATIONS):
        scores[rate, passes, init] = score((rate, passes, init))
    rows = sorted(scores.items(), key=lambda item: -item[1])
    table = [
        "| learning rate | passes | newcomers | criterion | "
        + " | ".join(f"{stream} H_cur / A_TN / D_MCI" for stream in STREAMS)
        + " |",
        "|---|---|---|---|---|---|",
    ]
    for setting, value in rows:
        cells = [known()[stream, setting] for stream in STREAMS]
        shown = " | ".join(f"{c['H_cur']:.4f} / {c['A_TN']:.4f} / {c['D_MCI']:.4f}" for c in cells)
        table.append(f"| {setting[0]:g} | {setting[1]} | {setting[2]} | {value:.4f} | {shown} |")
    (HERE / "search.md").write_text(__doc__.split("\n\n", 1)[0] + "\n\n" + "\n".join(table) + "\n")
    print("\n".join(table))


if __name__ == "__main__":
    main()
