"""`effects.csv`: every paired effect of a study at full precision, one a line; tables print its numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from meor.escape import csv_cell
from meor.study.effects import Comparison, adjusted
from meor.study.paired_tables import comparisons
from meor.study.pairing import groups
from meor.study.plan import Study
from meor.study.results import Results
from meor.study.rows import Row

EFFECTS_FILE = "effects.csv"
COLUMNS = (
    *("stream", "backbone", "host", "preset", "rule", "method", "comparator", "endpoint", "pairs"),
    *(
        "mean",
        "lower",
        "low",
        "high",
        "bca_low",
        "bca_high",
        "p_value",
        "wins",
        "ties",
        "losses",
        "preserved",
    ),
    *("active_share", "comparator_active_share", "holm_p", "cells"),
)


def write_effects(folder: Path, plan: Study, rows: Sequence[Row], *, holm: bool = False) -> None:
    """Rewritten whenever the study goes on. A family of Holm's is one group and rule, its H_cur effects."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for group in groups(plan):
        for rule in plan.coefficient_rule:
            family = comparisons(plan, rows, group, rule)
            p_values = adjusted(family) if holm else [None] * len(family)
            for each, holm_p in zip(family, p_values, strict=True):
                writer.writerows(map(csv_cell, line) for line in _lines(each, holm_p))
    Results(folder).replace({EFFECTS_FILE: buffer.getvalue().encode()})


def _lines(each: Comparison, holm_p: float | None) -> Iterator[tuple[object, ...]]:
    group = each.group
    place = (group.stream, group.backbone, group.host, group.preset, each.coefficient_rule)
    shares = ["" if share is None else share for share in (each.active_share, each.comparator_active_share)]
    for name, found in each.effects.items():
        ends = (found.interval.low, found.interval.high, found.bca.low, found.bca.high)
        counts = (found.wins, found.ties, found.losses, "yes" if found.preserved else "no")
        bounds = (found.mean, found.lower, *ends, found.p_value)
        last = holm_p if name == "H_cur" and holm_p is not None else ""
        over = "existing" if found.partial else "all"
        compared = (each.method, each.comparator, name, len(each.pairs))
        yield (*place, *compared, *bounds, *counts, *shares, last, over)
