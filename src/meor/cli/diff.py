"""`meor diff`: what changed for protected queries between two versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meor.cli import new_verb
from meor.cli.options import Memory
from meor.escape import LONGEST, terminal
from meor.heap import parse_bytes
from meor.store.changes import changes
from meor.store.folder import Store

app = new_verb()
SHOWN = 20


@app.command()
def command(
    store: Annotated[Path, typer.Argument(help="A store.")],
    first: Annotated[str, typer.Argument(help="A version, by number or name.")],
    second: Annotated[str, typer.Argument(help="Another.")],
    *,
    protect: Annotated[Path | None, typer.Option(help="A golden file, as for `meor admit`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every changed query as JSON.")] = False,
    memory: Memory = "1GiB",
) -> None:
    """Compare the ranks of protected answers in two versions, each among all its entities."""
    found = Store.open(store)
    told = changes(found.version(first), found.version(second), protect, memory=parse_bytes(memory)).to_json()
    if as_json:
        print(json.dumps(told, indent=2, allow_nan=False))
    else:
        _show(told)


def _show(told: dict[str, Any]) -> None:
    console = Console()
    before, after = told["mean_reciprocal_rank"]
    console.print(
        f"{told['from']} to {told['to']}: of {told['queries']:,} queries {told['worse']:,} are worse "
        f"and {told['better']:,} better; mean reciprocal rank {before:.4f}, then {after:.4f}.",
        highlight=False,
    )
    table = Table(box=SIMPLE_HEAD)
    for name in ("query", "answer"):
        table.add_column(name, overflow="fold")
    table.add_column("rank", justify="right", no_wrap=True)
    for row in told["changed"][:SHOWN]:
        query = " | ".join(terminal(row[part], LONGEST) for part in ("head", "relation", "tail"))
        ranks = f"{row['before']} → {row['after']}"
        table.add_row(Text(query), Text(terminal(row["answer"], LONGEST)), ranks)
    if told["changed"]:
        console.print(table)
