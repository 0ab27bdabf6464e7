"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from meor.heap import parse_bytes
from meor.storage.parquet import byte_budget
from meor.stream.rules import Duplicates, Unseen


def listed(names: Iterable[str]) -> str:
    """a, b or c: the values of an option."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _within(context: typer.Context, text: str) -> str:
    """The whole command runs inside the budget, so no reader needs it as an argument."""
    context.with_resource(byte_budget(parse_bytes(text)))
    return text


Memory = Annotated[
    str,
    typer.Option(
        help="Byte budget for ranking and for unpacking a Parquet file; results do not depend on it.",
        callback=_within,
    ),
]
ReadingMemory = Annotated[
    str, typer.Option(help="Byte budget for unpacking a Parquet file.", callback=_within)
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; results do not depend on it. [all cores]")]
Cache = Annotated[
    Path | None, typer.Option(help="Where base models are shared. [MEOR_CACHE, or the user's cache]")
]
Seconds = Annotated[float, typer.Option(min=0, help="Seconds between checkpoints; 0: after every step.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no table.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the endpoints as JSON.")]
DuplicatesRule = Annotated[
    Duplicates | None, typer.Option(help="A fact that stands twice: error, or drop the later one. [error]")
]
UnseenRule = Annotated[
    Unseen | None,
    typer.Option(
        help="A valid or test fact about an entity or relation that no train fact has named by then: error, "
        "drop, or move it to train. [error]"
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="h=COL,r=COL,t=COL",
        help="The columns of a single file, where it names them in its own way; also date, snapshot, split.",
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="Folder that holds registered streams.")]
