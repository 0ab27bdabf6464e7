"""The endpoints of a run as a table a person understands."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from meor.evaluation.overall import MEANING, Overall, by_update, note, overall


def endpoint_table(title: str, found: dict[str, Any]) -> Table:
    """One endpoint per row, one update per column (its sides averaged), and the mean over all cells."""
    updates = sorted({cell["update"] for each in found.values() for cell in each.get("cells", ())})
    table = Table(title=Text(title), title_justify="left")
    table.add_column("", style="bold", no_wrap=True)
    for update in updates:
        table.add_column(f"update {update}", justify="right")
    table.add_column("all", justify="right", style="bold")
    for name in MEANING:
        if name in found:
            table.add_row(name, *_values(found[name], updates))
    return table


def legend(found: dict[str, Any]) -> Text:
    """What each row is about, why one is undefined, and what is marked."""
    lines = []
    for name, meaning in MEANING.items():
        if name in found:
            reason = found[name].get("reason")
            lines.append(f"{name:6}{meaning}" + (f" ({reason})" if reason else ""))
    marked = note((name, overall(found[name])) for name in MEANING if name in found)
    return Text("\n".join([*lines, *([marked] if marked else [])]))


def _values(endpoint: dict[str, Any], updates: list[int]) -> list[str]:
    each = by_update(endpoint)
    values = [_shown(each[update]) if update in each else "-" for update in updates]
    whole = overall(endpoint)
    return [*values, "undefined" if whole.value is None else _shown(whole)]


def _shown(found: Overall) -> str:
    return f"{found.value:.4f}{found.mark}"
