"""Where a penalty was multiplied with 0 all the way: whoever reads a table must not take it for control."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from meor.study.plan import UNPENALIZED
from meor.study.rows import Group, Row, select

NAMES = {
    "replay": "Replay",
    "calibration": "Persistent calibration",
    "mmr": "MMR",
    "uor": "UOR",
    "shuffled": "Shuffled",
    "uncentered": "Uncentered",
    "meor": "MEOR",
}


def control_notes(
    rows: Sequence[Row], groups: Iterable[Group], rule: str, methods: Iterable[str]
) -> tuple[str, ...]:
    """A sentence for each method and group whose runs, or some of them, equal the host without a penalty."""
    found, penalized = [], [name for name in methods if name not in UNPENALIZED]
    for group in groups:
        for method in penalized:
            runs = select(rows, group, method, rule).values()
            idle = sum(row.coefficient == 0.0 for row in runs)
            if idle:
                found.append(
                    f"{NAMES[method]} in {group} ({rule}): nothing was controlled in {idle} of {len(runs)} "
                    "pairs: these runs equal the host without a penalty."
                )
    return tuple(found)
