"""A price for large coordinates: the three seeds of `seeds.py`.

    python results/default/shrink.py            (resumable; MEOR_DATA names the streams' folder)

Facts, sample and settings are those of `choose.py`, the hosts alone those of `seeds.py`. The coefficient is
that of `probe`, which multiplies it by the size of an update; the cap grows as in `seeds.py`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lift as lift_table
import seeds
from choose import WORKERS, command, folder, known, measure

HERE = Path(__file__).parent
TABLE = HERE / "shrink.jsonl"
TRIED: dict[str, tuple[tuple[float, float, float], ...]] = {
    "ENTITY": ((0.9, 1.0, 0.012),),
    "FBInc-L": ((1.5, 0.6, 0.0024), (1.334, 0.6, 0.0024)),
}
"""Factor of the cap, lift, shrink; the first ones are those of the default."""
BEFORE = {"ENTITY": (0.9, 1.0), "FBInc-L": (1.334, 0.519)}
"""The default before, without shrink: rows of `lift.py`."""


def probed(stream: str, factor: float, lift: float) -> tuple[object, ...]:
    return stream, "cap+probe", 0.2, factor, seeds.GROWTH, "at-most", lift


def main() -> None:
    settings = [
        (*probed(stream, factor, lift), shrink)
        for stream, several in TRIED.items()
        for factor, lift, shrink in several
    ]
    missing = [(*one, seed) for one in settings for seed in seeds.SEEDS if (*one, seed) not in known(TABLE)]

    def make(one: tuple[object, ...]) -> None:
        *setting, lift, shrink, seed = one
        words = command(tuple(setting), folder(one), seed, lift)  # type: ignore[arg-type]
        measure(one, [*words, "--set", f"shrink={shrink}"], TABLE)

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(make, missing))
    found = {**known(seeds.TABLE), **known(TABLE), **known(lift_table.TABLE)}
    settings += [probed(stream, *numbers) for stream, numbers in BEFORE.items()]
    lines = [
        __doc__.split("\n\n", 1)[0],
        "",
        f"Minus the host alone; means over {len(seeds.SEEDS)} seeds.",
        "",
        "| stream | cap | lift | shrink | H_cur | D_MCI | A_TN | A_QN | A_TN, seed by seed "
        "| kept within .005 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in settings:
        stream, _, _, factor, _, _, lift, *shrink = one
        told = (stream, f"{factor:g}", f"{lift:g}", *(f"{each:g}" for each in shrink or [0]))
        lines.append(f"| {' | '.join((*told, *seeds.effects(one, found)))} |")
    (HERE / "shrink.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
