"""Does a penalty that follows how much a graph grows serve both streams? Three seeds instead of one.

    python results/default/seeds.py             (resumable; MEOR_DATA names the streams' folder)

`choose.py` found no coefficient that serves ENTITY and FBInc-L. An update of ENTITY brings about as many
entities as snapshot 0 has, one of FBInc-L about a thirtieth of that. So here one number is multiplied by that
share: .015 on ENTITY is .0005 on FBInc-L. Facts, sample and settings are those of `choose.py`.

The guard of that time multiplied its .01 by the square of that share. The coefficients of `cap+probe` in the
table are what its penalty was multiplied with in the end; `OWN` is the part that the probe brings by now.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from choose import ENDPOINTS, MARGIN, WORKERS, Setting, command, folder, known, measure

HERE = Path(__file__).parent
TABLE = HERE / "seeds.jsonl"
SEEDS = (1_000_100, 1_000_101, 1_000_102)
SHARE = {"ENTITY": 1.0, "FBInc-L": 1 / 30}
OWN = {"ENTITY": 1.0, "FBInc-L": 0.0347 / 0.9}
GUARDS = (
    ("cap", None, 1.2),
    ("cap+mmr", 0.015, 1.4),
    ("cap+probe", 0.01, 1.2),
    ("cap+probe", 0.01, 1.4),
    ("cap+probe", 0.005, 1.4),
    ("cap+guard", None, 1.3),
)
"""Method, coefficient at share 1, factor of the cap."""
GROWTH = 1.15


def alone(stream: str) -> Setting:
    return stream, "none", None, None, None, ""


def guarded(stream: str, method: str, coefficient: float | None, factor: float) -> Setting:
    share = None if coefficient is None else round(coefficient * SHARE[stream], 8)
    return stream, method, share, factor, GROWTH, "at-most"


def _today(setting: tuple[Any, ...]) -> Setting:
    stream, method, coefficient, *cap = setting[:-1]
    own = OWN[stream] if method == "cap+probe" else 1.0
    return (stream, method, None if coefficient is None else coefficient / own, *cap)


def effects(setting: Setting, found: dict[tuple[Any, ...], dict[str, float]]) -> tuple[str, ...]:
    """What a setting changes in the mean over seeds; its A_TN seed by seed; is that kept?"""
    effect = {
        name: [found[*setting, seed][name] - found[*alone(setting[0]), seed][name] for seed in SEEDS]
        for name in ENDPOINTS
    }
    means = (f"{statistics.mean(effect[name]):+.4f}" for name in ("H_cur", "D_MCI", "A_TN", "A_QN"))
    each = ", ".join(f"{value:+.4f}" for value in effect["A_TN"])
    return *means, each, "yes" if statistics.mean(effect["A_TN"]) > -MARGIN else "no"


def main() -> None:
    settings = [
        setting for stream in SHARE for setting in (alone(stream), *(guarded(stream, *one) for one in GUARDS))
    ]
    with ThreadPoolExecutor(WORKERS) as pool:
        wanted = ((*one, seed) for seed in SEEDS for one in settings)
        missing = [setting for setting in wanted if setting not in known(TABLE)]
        list(pool.map(lambda one: measure(one, command(_today(one), folder(one), one[-1]), TABLE), missing))
    found = known(TABLE)
    lines = [
        __doc__.split("\n\n", 1)[0],
        "",
        f"Minus the host alone; the cap grows by {GROWTH}; means over {len(SEEDS)} seeds.",
        "",
        "| stream | method | coefficient | cap | H_cur | D_MCI | A_TN | A_QN | A_TN, seed by seed "
        "| kept within .005 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for stream in SHARE:
        for setting in (guarded(stream, *one) for one in GUARDS):
            weight = "" if setting[2] is None else f"{setting[2]:.2g}"
            told = (*setting[:2], weight, f"{setting[3]:g}", *effects(setting, found))
            lines.append(f"| {' | '.join(told)} |")
    (HERE / "seeds.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
