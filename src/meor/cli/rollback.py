"""`meor rollback`: let an earlier version answer again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meor.cli import new_verb
from meor.escape import terminal
from meor.store.rollback import rollback

app = new_verb()


@app.command()
def command(
    store: Annotated[Path, typer.Argument(help="A store.")],
    version: Annotated[
        str | None, typer.Argument(help="Number or name. [what the current one grew from]")
    ] = None,
    *,
    reason: Annotated[str, typer.Option(help="Kept in the log.")] = "",
) -> None:
    """Let an earlier version answer again; every byte of it is verified first. Nothing is removed."""
    before, after = rollback(store, version, reason=reason)
    print(f"{terminal(store)}: {after} answers now, no longer {before}.")
