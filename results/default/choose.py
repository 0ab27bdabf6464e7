"""The search behind the method of a run that names none: what keeps A_TN on ENTITY and on FBInc-L.

    python results/default/choose.py            (resumable; MEOR_DATA names the streams' folder)

Every setting is one `meor run` with ComplEx 200 under the preset `practical`, each update stopping by itself,
on a sample of 2,000 validation facts per snapshot, filtered by train and valid facts, with a selection seed
that is never part of results. No test fact is looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

HERE = Path(__file__).parent
TABLE = HERE / "choose.jsonl"
RUNS = Path("runs/default-search")
SEED, SAMPLE, MARGIN = 1_000_100, 2_000, 0.005
ENDPOINTS = ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")
WORKERS = 2

EARLIER_WEIGHT = {"ENTITY": 1.0, "FBInc-L": 0.0347 * 0.9}
"""The square of the share of newcomers, over what the probe multiplies its penalty with by now."""

Setting = tuple[str, str, float | None, float | None, float | None, str]
"""Stream, method, coefficient, cap.factor, cap.growth, cap.norm."""


SETTINGS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "ENTITY": (
        ("none",),
        *(("mmr", each) for each in (0.05, 0.15, 0.5)),
        *(("meor", each) for each in (0.5, 2.0)),
        ("uncentered", 0.5),
        *(("cap", None, each, 1.0) for each in (1.0, 1.3, 1.6)),
        *(("cap", None, each, 1.15) for each in (1.1, 1.2)),
        *(("cap+mmr", each, 1.2, 1.15) for each in (0.005, 0.015, 0.05)),
        ("cap+mmr", 0.0005, 1.4, 1.15),
        ("cap+meor", 0.15, 1.2, 1.15),
        *(("cap+probe", each, 1.2, 1.15) for each in (0.005, 0.01)),
    ),
    "FBInc-L": (
        ("none",),
        ("mmr", 0.05),
        ("cap", None, 1.3, 1.0),
        *(("cap", None, each, 1.15) for each in (1.1, 1.2, 1.4)),
        *(("cap", None, each, 1.0, "exactly") for each in (1.3, 1.5)),
        *(("cap+mmr", each, 1.2, 1.15) for each in (0.002, 0.015, 0.05)),
        *(("cap+mmr", each, 1.4, 1.15) for each in (0.0005, 0.005)),
        *(("cap+meor", each, 1.4, 1.15) for each in (0.001, 0.005)),
        ("cap+meor", 0.15, 1.2, 1.15),
        *(("cap+probe", each, 1.2, 1.15) for each in (0.0003, 0.001)),
    ),
}


def settings() -> list[Setting]:
    rest = (None, None, None, "")
    return [
        (stream, *one, *(("at-most",) if len(one) == 4 else rest[len(one) - 1 :]))
        for stream, several in SETTINGS.items()
        for one in several
    ]


def command(setting: Setting, out: Path, seed: int = SEED, lift: float | None = None) -> list[str]:
    stream, method, coefficient, factor, growth, norm = setting
    if method == "cap+guard":  # as it was in those tables
        method, coefficient = "cap+probe", 0.01 * EARLIER_WEIGHT[stream]
    options: dict[str, Any] = {
        "coefficient": coefficient,
        "lift": lift,
        "cap.factor": factor,
        "cap.growth": growth,
        "cap.norm": norm or None,
        "evaluation.split": "valid",
        "evaluation.filter_splits": "[train, valid]",
        "evaluation.sample": SAMPLE,
    }
    words = ["meor", "run", "--stream", stream, "--method", method, "--seed", str(seed), "--out", str(out)]
    words += ["--threads", "1", "--force", "--quiet"]
    said = ((key, value) for key, value in options.items() if value is not None)
    return words + [part for key, value in said for part in ("--set", f"{key}={value}")]


def known(table: Path = TABLE, judged: str = "valid") -> dict[tuple[Any, ...], dict[str, float]]:
    lines = table.read_text().splitlines() if table.exists() else []
    return {tuple(row["setting"]): row[judged] for row in map(json.loads, lines)}


_writing = Lock()


def measure(setting: tuple[Any, ...], words: list[str], table: Path, judged: str = "valid") -> None:
    """One run; its line is added to the table."""
    subprocess.run([str(Path(sys.executable).parent / words[0]), *words[1:]], check=True)
    out = Path(words[words.index("--out") + 1])
    found = json.loads((out / "endpoints.json").read_text())[judged]
    row = {"setting": setting, judged: {name: round(found[name]["value"], 4) for name in ENDPOINTS}}
    with _writing, table.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(*setting, row[judged], flush=True)


def folder(setting: tuple[Any, ...]) -> Path:
    return RUNS / "-".join(map(str, setting))


def shown(setting: Setting, found: dict[str, float], host: dict[str, float]) -> str:
    _, method, coefficient, factor, growth, norm = setting
    cap = "" if factor is None else f"{factor:g}" + (f", growing by {growth:g}" if growth != 1 else "")
    cap += ", exactly" * (norm == "exactly")
    values = " | ".join(f"{found[name]:.4f}" for name in ("H_cur", "A_TN", "A_QN", "D_MCI"))
    kept = "yes" if found["A_TN"] > host["A_TN"] - MARGIN else "no"
    return f"| {method} | {'' if coefficient is None else f'{coefficient:g}'} | {cap} | {values} | {kept} |"


def main() -> None:
    wanted = settings()
    with ThreadPoolExecutor(WORKERS) as pool:
        missing = [setting for setting in wanted if setting not in known()]
        list(pool.map(lambda one: measure(one, command(one, folder(one)), TABLE), missing))
    found = known()
    lines = [f"{__doc__.split(chr(10) * 2, 1)[0]}\n"]
    for stream in ("ENTITY", "FBInc-L"):
        host = found[stream, "none", None, None, None, ""]
        mine = sorted((s for s in wanted if s[0] == stream), key=lambda s: -found[s]["H_cur"])
        lines += [
            f"\n## {stream}\n",
            "| method | coefficient | cap | H_cur | A_TN | A_QN | D_MCI | A_TN kept within .005 |",
            "|---|---|---|---|---|---|---|---|",
            *(shown(setting, found[setting], host) for setting in mine),
        ]
    (HERE / "choose.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
