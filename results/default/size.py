"""Should the cap be tighter where many newcomers come at once? The same three seeds as `seeds.py`.

    python results/default/size.py              (resumable; MEOR_DATA names the streams' folder)

An update of ENTITY brings as many entities as snapshot 0 has, one of FBInc-L a thirtieth of that. Facts,
sample and settings are those of `choose.py`; the hosts alone and the cap of 1.3 are those of `seeds.py`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import seeds
from choose import WORKERS, Setting, command, folder, known, measure

HERE = Path(__file__).parent
TABLE = HERE / "size.jsonl"
GUARD = "cap+guard"
TRIED: dict[str, tuple[tuple[str, float | None, float, float], ...]] = {
    "ENTITY": (
        (GUARD, None, 1.3, 1.15),
        (GUARD, None, 1.05, 1.15),
        (GUARD, None, 1.0, 1.15),
        (GUARD, None, 1.0, 1.2),
        ("cap+probe", 0.015, 1.1, 1.2),
    ),
    "FBInc-L": ((GUARD, None, 1.3, 1.15), (GUARD, None, 1.29, 1.2)),
}
"""Method, coefficient, factor of the cap and its growth."""


def settings(stream: str) -> list[Setting]:
    return [(stream, *one, "at-most") for one in TRIED[stream]]


def main() -> None:
    earlier = known(seeds.TABLE)
    wanted = [(*one, seed) for stream in TRIED for one in settings(stream) for seed in seeds.SEEDS]
    missing = [one for one in wanted if one not in {**earlier, **known(TABLE)}]
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda one: measure(one, command(one[:-1], folder(one), one[-1]), TABLE), missing))
    found = {**earlier, **known(TABLE)}
    lines = [
        __doc__.split("\n\n", 1)[0],
        "",
        f"Minus the host alone; means over {len(seeds.SEEDS)} seeds.",
        "",
        "| stream | method | coefficient | cap | growth | H_cur | D_MCI | A_TN | A_QN | A_TN, seed by seed "
        "| kept within .005 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for stream in TRIED:
        for setting in settings(stream):
            _, method, coefficient, factor, growth, _ = setting
            weight = "" if coefficient is None else f"{coefficient:g}"
            told = (stream, method, weight, f"{factor:g}", f"{growth:g}", *seeds.effects(setting, found))
            lines.append(f"| {' | '.join(told)} |")
    (HERE / "size.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
