"""Endpoints that a stream leaves undefined: means over the cells that exist, marked wherever they stand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from meor.evaluation.endpoints import MARK
from meor.study.rows import ENDPOINTS, Group, Row
from meor.study.table import StudyTable


def partial_endpoints(rows: Iterable[Row]) -> dict[Group, dict[str, str]]:
    """By group: the endpoints that are means over some of their cells, each with `4 of 6`."""
    found: dict[Group, dict[str, str]] = {}
    for row in rows:
        for name in ENDPOINTS:
            if row.is_partial(name):
                found.setdefault(row.group, {})[name] = row.cells_of(name)
    return found


def footnote(found: dict[Group, dict[str, str]]) -> str:
    """The sentence that belongs to every mark; empty where nothing is marked."""
    told = [
        f"{group}: {', '.join(f'{name} {cells}' for name, cells in named.items())}"
        for group, named in found.items()
    ]
    return f"{MARK} over the cells that exist ({'; '.join(told)}); the others hold no query." if told else ""


def marked(table: StudyTable, rows: Iterable[Row]) -> StudyTable:
    """The table, with a mark at each column of such an endpoint and the footnote to it."""
    found = partial_endpoints(rows)
    names = {name for named in found.values() for name in named}
    if not names:
        return table
    columns = {
        f"{title}{MARK}" if any(name in title for name in names) else title: kind
        for title, kind in table.columns.items()
    }
    return replace(table, columns=columns, notes=(*table.notes, footnote(found)))
