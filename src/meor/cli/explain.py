"""`meor explain`: who came before an answer, and why."""

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
from meor.cli.options import ReadingMemory
from meor.escape import LONGEST, terminal
from meor.store.answers import Query
from meor.store.explain import Subject, explain

app = new_verb()
FACTS = 3


@app.command()
def command(
    source: Annotated[Path, typer.Argument(help="A store or a run folder.")],
    head: Annotated[str, typer.Argument(help="A label, or ? if the head is asked for.")],
    relation: Annotated[str, typer.Argument(help="A label.")],
    tail: Annotated[str, typer.Argument(help="A label, or ? if the tail is asked for.")],
    *,
    answer: Annotated[str | None, typer.Option(help="Whose rank. [the best known answer]")] = None,
    update: Annotated[
        int | None, typer.Option(min=0, help="Whose newcomers. [the last update with newcomers]")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Of a store. [the current]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout.")] = False,
    memory: ReadingMemory = "1GiB",
) -> None:
    """Both ranks of an answer, the newcomers before it with their share of the blame, and what placed them.

    \b
    meor explain live "Ann Lee" "works for" ?
    meor explain runs/world ? "works for" "Acme" --answer "Ann Lee" --update 2
    """
    query = Query.of(head, relation, tail)
    told = explain(Subject.of(source, version=version, update=update), query, answer=answer, update=update)
    if as_json:
        print(json.dumps(told, indent=2, allow_nan=False))
    else:
        _show(told)


def _show(told: dict[str, Any]) -> None:
    console = Console()
    query = ", ".join(_shown(told[part]) for part in ("head", "relation", "tail"))
    line = f"({query}), answer {_shown(told['answer'])}: "
    if told["rank_old"] is None:
        line += f"rank {told['rank_current']}; it was admitted at update {told['admitted_at']}."
    else:
        line += (
            f"rank {told['rank_old']} among those known before update {told['update']}, "
            f"{told['rank_current']} with its newcomers."
        )
    console.print(Text(line, style="bold"), soft_wrap=True)
    if told["answer_chosen"] != "named":
        console.print(Text(f"It is {told['answer_chosen']}; --answer names another."), soft_wrap=True)
    steps = ", ".join(f"{each['rank']} (update {each['update']})" for each in told["rank_by_admission"])
    console.print(Text(f"Rank as entities were admitted, with this model: {steps}."), soft_wrap=True)
    if told["displacers"]:
        console.print(_displacers(told["displacers"]))
    pressure = told["pressure"]
    if pressure is not None:
        console.print(
            Text(
                f"Newcomers press {pressure['newcomers']:.4f}, matched old entities "
                f"{pressure['matched_old']:.4f}: an excess of {pressure['excess']:.4f}, in units of the "
                f"query's scale {pressure['scale']:.4g}."
            ),
            soft_wrap=True,
        )


def _displacers(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Newcomers ahead of it", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("newcomer", overflow="fold")
    for name in ("score above", "share lost", "rank\nwithout it"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("placed by", overflow="fold")
    for row in rows:
        facts = "; ".join(" | ".join(map(_shown, fact)) for fact in row["facts"][:FACTS])
        more = len(row["facts"]) - FACTS
        table.add_row(
            Text(_shown(row["newcomer"])),
            f"{row['gap']:+.4f}",
            "" if row["share"] is None else f"{row['share']:.4f}",
            str(row["rank_without"]),
            Text(facts + (f"; {more} more" if more > 0 else "")),
        )
    return table


def _shown(label: str) -> str:
    return terminal(label, LONGEST)
