"""Rows as a study would write them, for tests that need no run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from meor.study.results import Results
from meor.study.rows import Row, rows_file

METHODS = ("none", "calibration", "mmr", "uor", "shuffled", "uncentered", "meor")
PLAIN = ("none", "calibration")


def row(method: str = "none", pair: int = 0, **changes: object) -> Row:
    rule = "none" if method in PLAIN else "balance"
    multiple, coefficient = (None, 0.0) if method in PLAIN else (1.0, 0.003)
    share = None if method in PLAIN else 0.25
    made = Row(
        "primary", "ENTITY", "complex", "replay", "practical", rule, pair, method,
        0.2, 0.25, 0.25 - 0.2, 0.1, 0.05, coefficient, share, f"hash-{pair}", multiple, None,
        f"runs/{method}-{pair}-{rule}",
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def study_rows(pairs: int = 8, rules: tuple[str, ...] = ("balance",), **changes: object) -> list[Row]:
    """Seeded endpoints: MEOR is better than the host alone, the controls lie between."""
    rng = np.random.default_rng(0)
    gain = dict(zip(METHODS, (0.0, -0.001, 0.002, 0.003, 0.004, 0.0045, 0.005), strict=True))
    rows = []
    for pair in range(pairs):
        level = 0.2 + 0.01 * rng.random()
        for method in METHODS:
            for rule in ("none",) if method in PLAIN else rules:
                cur = level + gain[method] + 0.001 * rng.random()
                old = level + 0.05 + 0.0001 * rng.random()
                target = 0.1 + 0.001 * rng.random()
                values = {"H_cur": cur, "H_old": old, "D_MCI": old - cur, "A_TN": target, **changes}
                run = f"runs/{method}-{pair}-{rule}"
                rows.append(row(method, pair, coefficient_rule=rule, run=run, **values))
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """`runs.parquet` as a study writes it, listed in its manifest."""
    Results(path.parent).replace({path.name: rows_file(rows)})
