"""`meor data`: list, describe, fetch, check, clean and cut streams."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meor.cli import new_verb
from meor.cli.options import Columns, DuplicatesRule, ReadingMemory, UnseenRule
from meor.escape import terminal
from meor.stream.rules import Duplicates, Unseen, reading

if TYPE_CHECKING:
    from meor.stream.snapshot import Stream

app = new_verb("List, describe, fetch, check, clean and cut streams.")

DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder that holds registered streams, a folder each; instead of MEOR_DATA's and the cache."
    ),
]
StreamName = Annotated[str, typer.Argument(metavar="NAME", help="A registered name (any case), or a path.")]
RegisteredName = Annotated[str, typer.Argument(metavar="NAME", help="A registered name, in any case.")]


class GrowBy(StrEnum):
    RANDOM = "random"
    DEGREE = "degree"
    DATE = "date"


@app.command("list")
def list_streams(data_dir: DataDir = None) -> None:
    """The registered streams, and which are on this machine."""
    from meor.stream.registry import WORLD, entries, find_folder

    table = _table("stream", "published on GitHub by", "licence", "on this machine")
    table.add_row(WORLD, "(made by meor itself)", "Apache-2.0", "always")
    for entry in entries():
        folder = find_folder(entry, data_dir)
        here = "no" if folder is None else str(folder)
        table.add_row(entry.name, entry.repository, entry.licence, terminal(here))
    _print(table)


@app.command()
def info(
    name: StreamName,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
    data_dir: DataDir = None,
    duplicates: DuplicatesRule = None,
    unseen: UnseenRule = None,
    columns: Columns = None,
    memory: ReadingMemory = "1GiB",
) -> None:
    """What a stream holds, snapshot by snapshot.

    Entities and relations are cumulative; facts (train + valid + test) are those introduced at the snapshot.
    """
    from meor.stream.registry import find_entry, open_stream

    stream = open_stream(name, data_dir=data_dir, report=_remark, **reading(duplicates, unseen, columns))
    snapshots = describe(stream)
    if as_json:
        print(json.dumps({"name": stream.name, "snapshots": snapshots}, indent=2))
        return
    table = _table("#", *(key.replace("_", "\n") for key in snapshots[0]), numbers=True)
    for index, row in enumerate(snapshots):
        table.add_row(str(index), *(f"{value:,}" for value in row.values()))
    table.title = terminal(stream.name)
    _print(table)
    entry = find_entry(name)
    if entry is not None:
        print(f"published at {entry.page}\nlicence {entry.licence}; every file has its published SHA-256")


@app.command()
def fetch(
    name: RegisteredName,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder to put the stream's folder in; by default the cache.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="A mirror instead of the publisher: a base URL with <stream>/<snapshot>/<split>.txt below, "
            "or an archive (.zip, .tar.gz; URL or file). MEOR_MIRROR sets it for good.",
        ),
    ] = None,
) -> None:
    """Fetch a registered stream from its publisher.

    Every file must have its registered SHA-256; otherwise nothing is kept.
    """
    from meor.stream.fetch import fetch as bring
    from meor.stream.registry import WORLD, entry_of

    if name.casefold() == WORLD:
        print(f"{WORLD} is made by meor itself; there is nothing to fetch")
        return
    entry = entry_of(name)
    folder = bring(entry, data_dir, source=source, report=_remark)
    print(f"{entry.name} is in {terminal(folder)}; all {len(entry.files)} files have their published SHA-256")


@app.command()
def check(
    name: StreamName,
    data_dir: DataDir = None,
    duplicates: DuplicatesRule = None,
    unseen: UnseenRule = None,
    columns: Columns = None,
    memory: ReadingMemory = "1GiB",
) -> None:
    """Is a stream whole? Compares registered files with their SHA-256, then loads and validates it."""
    from meor.stream.registry import find_entry, folder_of, open_stream

    stream = open_stream(name, data_dir=data_dir, report=_remark, **reading(duplicates, unseen, columns))
    entry = find_entry(name)
    if entry is not None:
        folder = folder_of(entry, data_dir)
        print(f"{terminal(folder)}: all {len(entry.files)} files have their published SHA-256")
    print(f"{terminal(stream.name)} is sound: {_size(stream)}")


@app.command()
def clean(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A stream: a folder, or one file.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The clean stream; must not exist yet.")],
    duplicates: Annotated[Duplicates, typer.Option(help="Facts that stand twice.")] = "drop",
    unseen: Annotated[
        Unseen, typer.Option(help="Valid and test facts about what no train fact has named by then.")
    ] = "move",
    columns: Columns = None,
    memory: ReadingMemory = "1GiB",
) -> None:
    """Write a stream without its faults, and say what was changed.

    Of facts that stand twice the first is kept. A valid or test fact must not name an entity or relation that
    no train fact has named by its snapshot: such a fact is moved to train, or dropped with --unseen drop.
    """
    from meor.stream.files import clean_stream

    stream, changes = clean_stream(source, out, **reading(duplicates, unseen, columns), report=_remark)
    for change in changes:
        print(terminal(f"{change.done}:"))
        for example in change.examples:
            print(f"  {terminal(example)}")
        if change.count > len(change.examples):
            print(f"  and {change.count - len(change.examples):,} more")
    if not changes:
        print("nothing to change")
    print(f"{terminal(out)}: {_size(stream)}")


@app.command()
def grow(
    facts: Annotated[
        Path,
        typer.Argument(metavar="FACTS", help="A graph: one TSV, CSV, Parquet, N-Triples or Turtle file."),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new stream's folder; must not exist yet.")],
    snapshots: Annotated[int, typer.Option(min=1, help="How many snapshots, the base included.")] = 5,
    by: Annotated[
        GrowBy, typer.Option(help="Who comes first: anyone, the best-connected, or the earliest dated.")
    ] = GrowBy.RANDOM,
    seed: Annotated[int, typer.Option(help="Another seed cuts another stream.")] = 0,
    columns: Columns = None,
    memory: ReadingMemory = "1GiB",
) -> None:
    """Cut a static or dated graph into a growth stream.

    Every entity is seen in train first; valid and test facts are set aside at random.
    """
    from meor.stream.growth import grow_file

    stream = grow_file(facts, out, snapshots, by.value, seed, columns=columns, report=_remark)
    sizes = ", ".join(f"{len(snapshot):,}" for snapshot in stream.snapshots)
    counts = f"{len(stream.snapshots)} snapshots of {sizes} facts, {len(stream.entities):,} entities"
    print(f"{terminal(out)}: {counts}")


def _size(stream: Stream) -> str:
    return f"{len(stream.snapshots)} snapshots, {sum(map(len, stream.snapshots)):,} facts"


def describe(stream: Stream) -> list[dict[str, int]]:
    """One row per snapshot: cumulative vocabulary sizes (the paper's Table 1), and what it introduced."""
    return [
        {
            "entities": stream.entity_counts[index],
            "relations": stream.relation_counts[index],
            "facts": len(snapshot),
            "train": len(snapshot.train),
            "valid": len(snapshot.valid),
            "test": len(snapshot.test),
            "new_entities": len(stream.newcomers(index)),
            "new_relations": len(stream.new_relations(index)),
        }
        for index, snapshot in enumerate(stream.snapshots)
    ]


def _table(*columns: str, numbers: bool = False) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        # paths are folded, never cut: a person may want to copy them
        table.add_column(column, justify="right" if numbers else "left", overflow="fold", no_wrap=numbers)
    return table


def _print(table: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    # whatever reads a pipe should get whole rows, and a narrow terminal whole numbers
    console.width = max(console.width, 80) if console.is_terminal else 200
    console.print(table)


def _remark(line: str) -> None:
    print(terminal(line), file=sys.stderr)
