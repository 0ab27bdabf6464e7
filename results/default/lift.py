"""A stronger guard, and facts of newcomers that are asked to score higher: the three seeds of `seeds.py`.

    python results/default/lift.py              (resumable; MEOR_DATA names the streams' folder)

Facts, sample and settings are those of `choose.py`, the hosts alone those of `seeds.py`. The coefficient is
that of `probe`, which multiplies it by the size of an update. A coefficient of 1e-12 is none: so the host is
lifted alone.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import seeds
from choose import WORKERS, command, folder, known, measure

HERE = Path(__file__).parent
TABLE = HERE / "lift.jsonl"
TRIED: dict[str, tuple[tuple[str, float, float | None, float], ...]] = {
    "ENTITY": (
        ("cap+probe", 0.2, 0.9, 1.0),
        ("cap+probe", 0.1, 0.9, 1.0),
        ("cap+probe", 0.2, 0.9, 0.0),
        ("probe", 1e-12, None, 1.0),
    ),
    "FBInc-L": (
        ("cap+probe", 0.2, 1.334, 0.519),
        ("cap+probe", 0.45, 1.334, 1.0),
        ("cap+probe", 0.45, 1.286, 1.0),
        ("cap+probe", 0.45, 1.4, 1.0),
        ("cap+probe", 0.45, 1.334, 0.0),
        ("probe", 1e-12, None, 1.0),
    ),
}
"""Method, coefficient, factor of the cap, lift."""


def main() -> None:
    settings = [
        (stream, method, weight, factor, factor and seeds.GROWTH, "at-most" if factor else "", lift)
        for stream, several in TRIED.items()
        for method, weight, factor, lift in several
    ]
    missing = [(*one, seed) for one in settings for seed in seeds.SEEDS if (*one, seed) not in known(TABLE)]

    def make(one: tuple[object, ...]) -> None:
        *setting, lift, seed = one
        measure(one, command(tuple(setting), folder(one), seed, lift), TABLE)  # type: ignore[arg-type]

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(make, missing))
    found = {**known(seeds.TABLE), **known(TABLE)}
    lines = [
        __doc__.split("\n\n", 1)[0],
        "",
        f"Minus the host alone; means over {len(seeds.SEEDS)} seeds.",
        "",
        "| stream | method | coefficient | cap | lift | H_cur | D_MCI | A_TN | A_QN | A_TN, seed by seed "
        "| kept within .005 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in settings:
        stream, method, weight, factor, *_, lift = one
        told = (stream, method, f"{weight:g}", f"{factor:g}" if factor else "", f"{lift:g}")
        lines.append(f"| {' | '.join((*told, *seeds.effects(one, found)))} |")
    (HERE / "lift.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
