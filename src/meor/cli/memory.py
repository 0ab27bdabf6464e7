"""`--memory`, the same option for every verb: what is ranked at a time, and how large a file may unpack."""

from __future__ import annotations

from typing import Annotated

import typer

from meor.heap import parse_bytes
from meor.storage.parquet import byte_budget


def _within(context: typer.Context, text: str) -> str:
    """The command runs inside the budget, so that no reader needs to be told of it."""
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
