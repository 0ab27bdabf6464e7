"""What tables say below their rows, so that nobody reads more into them than the runs say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from meor.evaluation.endpoints import MARK
from meor.methods import method_label, needs_coefficient
from meor.study.rows import ENDPOINTS, Group, Row, select


def partial_endpoints(rows: Iterable[Row]) -> dict[Group, dict[str, str]]:
    """By group: the endpoints that are means over some of their cells, each with `4 of 6`."""
    found: dict[Group, dict[str, str]] = {}
    for row in rows:
        for name in ENDPOINTS:
            if row.is_partial(name):
                found.setdefault(row.group, {})[name] = row.cells_of(name)
    return found


def footnote(found: Mapping[Group, Mapping[str, str]]) -> str:
    """The sentence that belongs to every mark; empty where nothing is marked."""
    told = [
        f"{group}: {', '.join(f'{name} {cells}' for name, cells in named.items())}"
        for group, named in found.items()
    ]
    return f"{MARK} over the cells that exist ({'; '.join(told)}); the others hold no query." if told else ""


def control_notes(
    rows: Sequence[Row], groups: Iterable[Group], rule: str, methods: Iterable[str]
) -> tuple[str, ...]:
    """A sentence for each method and group where a penalty was multiplied with 0 in some or all runs.

    They equal the host without a penalty: whoever reads a table must not take it for control.
    """
    found, penalized = [], [name for name in methods if needs_coefficient(name)]
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
