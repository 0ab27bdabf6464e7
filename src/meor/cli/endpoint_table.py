"""The endpoints of a run as a table a person understands."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

MEANING = {
    "H_cur": "old facts, ranked among all entities known now",
    "H_old": "old facts, ranked among the entities known before the update",
    "D_MCI": "what newcomers cost old facts: H_old - H_cur",
    "A_TN": "new facts whose answer is a newcomer",
    "A_QN": "new facts that ask about a newcomer",
}


def endpoint_table(title: str, found: dict[str, Any]) -> Table:
    """One endpoint a row, one update a column (its sides averaged), and the mean over all cells."""
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
    """What each row is about, and why one has no value."""
    lines = []
    for name, meaning in MEANING.items():
        if name in found:
            reason = found[name].get("reason")
            lines.append(f"{name:6}{meaning}" + (f" ({reason})" if reason else ""))
    return Text("\n".join(lines))


def _values(endpoint: dict[str, Any], updates: list[int]) -> list[str]:
    if endpoint["value"] is None:
        return ["-"] * len(updates) + ["undefined"]
    by_update = [[cell["value"] for cell in endpoint["cells"] if cell["update"] == u] for u in updates]
    return [f"{sum(cells) / len(cells):.4f}" for cells in by_update] + [f"{endpoint['value']:.4f}"]
