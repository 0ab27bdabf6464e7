"""`meor predict`: the best answers of a query, from a version of a store."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meor.cli import new_verb
from meor.cli.options import ReadingMemory
from meor.errors import InputError
from meor.escape import LONGEST, terminal
from meor.evaluation.foreign_file import LONGEST_LINE
from meor.store.answers import Answer, Answers, KnownAnswers, Query, Universe
from meor.store.folder import Store

app = new_verb()
BLOCK = 4096
"""Queries that are read and answered at a time."""


@app.command()
def command(
    store: Annotated[Path, typer.Argument(help="A store.")],
    head: Annotated[str | None, typer.Argument(help="A label, or ? if the head is asked for.")] = None,
    relation: Annotated[str | None, typer.Argument(help="A label.")] = None,
    tail: Annotated[str | None, typer.Argument(help="A label, or ? if the tail is asked for.")] = None,
    *,
    queries: Annotated[
        Path | None, typer.Option(help="Lines head TAB relation TAB tail, one of them ?; - reads stdin.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Answers per query.")] = 10,
    version: Annotated[str | None, typer.Option(help="A version, by number or name. [the current]")] = None,
    universe: Annotated[
        str, typer.Option(help="current: all entities; old: those known before the last admission.")
    ] = "current",
    known: Annotated[
        str, typer.Option(help="include answers that are known facts, or exclude them.")
    ] = "include",
    as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout.")] = False,
    memory: ReadingMemory = "1GiB",
) -> None:
    """The best answers of a query, exactly.

    \b
    One query:     meor predict live "Ann Lee" "works for" ?
    At the head:   meor predict live ? "works for" "Acme"
    Many:          meor predict live --queries queries.tsv > answers.jsonl

    Many queries are answered as one line of JSON each, in their order.
    """
    chosen = Store.open(store).version(version)
    if (queries is None) == (head is None):
        raise InputError(
            "no query was given, or two kinds of them", remedy="Give HEAD RELATION ?, or --queries"
        )
    answers = Answers.of(chosen)
    how = {"universe": cast(Universe, universe), "known": cast(KnownAnswers, known)}
    if queries is not None:
        for asked in _blocks(queries):
            for query, found in zip(asked, answers.top_each(asked, k, **how), strict=True):  # type: ignore[arg-type]
                sys.stdout.write(json.dumps(told(chosen.name, query, found)) + "\n")
        return
    query = Query.of(head or "", relation or "", tail or "")
    found = answers.top_each([query], k, **how)[0]  # type: ignore[arg-type]
    if as_json:
        print(json.dumps(told(chosen.name, query, found), indent=2))
    else:
        _show(chosen.name, query, found)


def told(version: str, query: Query, answers: Sequence[Answer]) -> dict[str, object]:
    head, relation, tail = query.parts
    return {
        "version": version,
        "head": head,
        "relation": relation,
        "tail": tail,
        "answers": [answer.to_json() for answer in answers],
    }


def _blocks(path: Path) -> Iterator[list[Query]]:
    asked: list[Query] = []
    for number, raw in enumerate(_lines(path), 1):
        cells = raw.rstrip("\r\n").split("\t")
        if len(cells) != 3:
            raise InputError(
                f"{len(cells)} columns instead of 3",
                remedy="Write head TAB relation TAB tail, one of them ?",
                path=path,
                line=number,
            )
        try:
            asked.append(Query.of(*cells))
        except InputError as error:
            raise InputError(
                str(error).partition(". ")[0], remedy="Write one ?", path=path, line=number
            ) from None
        if len(asked) == BLOCK:
            yield asked
            asked = []
    if asked:
        yield asked


def _lines(path: Path) -> Iterator[str]:
    try:
        source = sys.stdin.buffer if str(path) == "-" else path.open("rb")
        with source as file:
            number = 0
            while raw := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(raw) > LONGEST_LINE:
                    raise InputError(
                        "a line of more than 1 MiB", remedy="Break it up", path=path, line=number
                    )
                yield raw.decode()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", remedy="Check the path", path=path) from None
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", remedy="Save it as UTF-8", path=path, line=number) from None


def _show(version: str, query: Query, answers: Sequence[Answer]) -> None:
    title = f"({', '.join(terminal(part, LONGEST) for part in query.parts)}), version {version}"
    table = Table(title=Text(title), title_justify="left")
    table.add_column("", justify="right")
    table.add_column("answer", overflow="fold")
    table.add_column("score", justify="right")
    table.add_column("")
    for answer in answers:
        marks = [word for word, holds in (("known", answer.known), ("newcomer", answer.newcomer)) if holds]
        label = Text(terminal(answer.label, LONGEST), style="bold" if answer.newcomer else "")
        table.add_row(str(answer.rank), label, f"{answer.score:.4f}", ", ".join(marks))
    Console().print(table)
