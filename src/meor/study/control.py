"""Where a penalty was multiplied with 0 all the way: whoever reads a table must not take it for control."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from meor.methods import is_penalized, method_label
from meor.study.rows import Group, Row, select


def control_notes(
    rows: Sequence[Row], groups: Iterable[Group], rule: str, methods: Iterable[str]
) -> tuple[str, ...]:
    """A sentence for each method and group whose runs, or some of them, equal the host without a penalty."""
    found, penalized = [], [name for name in methods if is_penalized(name)]
    for group in groups:
        for method in penalized:
            runs = select(rows, group, method, rule).values()
            idle = sum(row.coefficient == 0.0 for row in runs)
            if idle:
                found.append(
                    f"{method_label(method)} in {group} ({rule}): nothing was controlled in {idle} of "
                    f"{len(runs)} pairs: these runs equal the host without a penalty."
                )
    return tuple(found)
