"""`meor history`: every admission, refusal and rollback of a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meor.cli import new_verb
from meor.escape import LONGEST, terminal
from meor.store.folder import Store

app = new_verb()


@app.command()
def command(
    store: Annotated[Path, typer.Argument(help="A store.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="The lines of the log as a JSON list.")] = False,
) -> None:
    """List what was admitted, refused and rolled back, oldest first; * marks the version that answers."""
    found = Store.open(store)
    entries, current = found.log(), found.current()
    if as_json:
        print(json.dumps({"current": current, "entries": entries}, indent=2))
        return
    table = Table(
        title=Text(f"{terminal(store)}: {current} answers"),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for name in ("time", "event", "version", "new", "facts", "D_MCI", "note"):
        justify: Literal["right", "left"] = "right" if name in _NUMBERS else "left"
        table.add_column(name, overflow="fold", no_wrap=name != "note", justify=justify)
    for entry in entries:
        name = entry["version"] or (entry["current"] if entry["event"] == "rolled-back" else "")
        mark = "*" if name == current else " "
        table.add_row(
            entry["time"][5:16].replace("T", " "),
            entry["event"],
            f"{mark}{name}" if name else "",
            _number(entry.get("newcomers")),
            _number(entry.get("facts")),
            "" if entry.get("D_MCI") is None else f"{entry['D_MCI']:.4f}",
            Text(terminal(entry.get("reason") or entry.get("source", ""), LONGEST)),
        )
    Console().print(table)


_NUMBERS = {"new", "facts", "D_MCI"}


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,}"
