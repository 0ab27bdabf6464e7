"""`meor admit`: a batch of facts on its way into a store, and the gate it passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meor.calls.progress import watcher
from meor.calls.run import resources
from meor.cli import new_verb
from meor.cli.options import Columns, Memory, Quiet, Threads
from meor.escape import LONGEST, shell, terminal
from meor.report.words import plural
from meor.run.session import use_threads
from meor.storage.disk import Disk, commit_file
from meor.storage.json_file import to_json
from meor.store.admit import Outcome, Request, admit
from meor.store.layout import HOLD_BACK

app = new_verb()
SHOWN = 8


@app.command()
def command(
    store: Annotated[Path, typer.Argument(help="A store.")],
    facts: Annotated[Path, typer.Argument(help="New facts: head TAB relation TAB tail, or named columns.")],
    *,
    protect: Annotated[
        Path | None,
        typer.Option(
            help="Golden file: head, relation, tail (one of them ?), answer, [keep-in-top, [weight]]."
        ),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="D_MCI at most. [the store's]")] = None,
    floor: Annotated[float | None, typer.Option(help="A_TN at least. [the store's]")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Facts judged at most. [the store's]")] = None,
    groups: Annotated[
        Path | None, typer.Option(help="Lines label TAB group; each group keeps to the budget.")
    ] = None,
    columns: Columns = None,
    hold_back: Annotated[Path | None, typer.Option(help="Newcomers that wait, one label per line.")] = None,
    new_relations: Annotated[
        bool, typer.Option("--new-relations", help="Admit relations that the store does not know.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Judge, and change nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Admit what is refused; needs --reason.")] = False,
    reason: Annotated[str, typer.Option(help="Kept in the log.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write verdict.json here too.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write its page here, one HTML file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    threads: Threads = None,
    memory: Memory = "1GiB",
    quiet: Quiet = False,
) -> None:
    """Admit a batch of facts, if what it costs the answers people rely on allows it.

    \b
    Exit codes: 0 admitted, or forced; 4 admitted and flagged: the cost is within the uncertainty of its
    estimate; 3 refused: the store answers as before; 2 an error.

    Protected queries are those of --protect, else held-out facts, else a seeded sample of known facts.
    On a refusal the smallest set of newcomers found whose waiting satisfies the gate is written to the
    store; --hold-back takes it. Who waits is offered again at the next admission.
    """
    used = resources(threads, memory, None, 30.0)
    use_threads(used.threads)
    rules = (budget, floor, sample)
    request = Request(
        facts, protect, groups, hold_back, new_relations, dry_run, force, reason, *rules, columns
    )
    with watcher(Console(stderr=True), quiet=quiet) as shown:
        outcome = admit(store, request, memory=used.memory, watcher=shown)
    if out is not None:
        commit_file(Disk(), out, to_json(outcome.verdict))
    if page is not None:
        from meor.report.html import write
        from meor.report.verdict_page import verdict_page

        write(verdict_page(outcome.verdict), page)
    if as_json:
        print(json.dumps(outcome.verdict, indent=2, allow_nan=False))
    elif not quiet:
        show(Console(), store, request, outcome)
    raise typer.Exit(outcome.exit_code)


def show(console: Console, store: Path, request: Request, outcome: Outcome) -> None:
    told = outcome.verdict
    console.print(Text(_sentence(told, outcome.version), style="bold"), soft_wrap=True)
    console.print(Text(_batch(told)), soft_wrap=True)
    console.print(_rules(told))
    if told["worst"]:
        console.print(_worst(told["worst"]))
    if told["blame"]:
        console.print(_blame(told["blame"]))
    if told["verdict"] == "refused" or told["forced"]:
        console.print(Text(_what_if(store, request, outcome)), soft_wrap=True)


def _sentence(told: dict[str, Any], version: str | None) -> str:
    words = {
        "admitted": "Admitted",
        "flagged": "Forced" if told["forced"] else "Admitted, and flagged: too close to a limit to tell",
        "refused": "Refused",
    }
    if told["dry_run"]:
        return f"{words[told['verdict']]} (dry run: nothing was changed)."
    after = f"{version} answers now." if version else f"{told['made_from']} answers as before."
    return f"{words[told['verdict']]}; {after}"


def _batch(told: dict[str, Any]) -> str:
    batch, parts = told["batch"], []
    facts = sum(batch["facts"].values())
    parts += [plural(facts, "new fact"), plural(batch["newcomers"], "newcomer")]
    if batch["new_relations"]:
        parts.append(plural(len(batch["new_relations"]), "new relation"))
    for key, words in (
        ("repeated", "repeated"),
        ("already_known", "known already"),
        ("had_waited", "had waited"),
        ("facts_that_wait", "wait"),
    ):
        if batch[key]:
            parts.append(f"{batch[key]:,} {words}")
    text = ", ".join(parts) + "."
    missed = told["learned"]["facts_not_learned"]
    if missed:
        told_of = f"{plural(missed, 'fact')} between known entities {'is' if missed == 1 else 'are'} recorded"
        text += f" {told_of}, not learned: the host freezes old rows."
    return text


def _rules(told: dict[str, Any]) -> Table:
    source = {"golden": "the golden file", "held-out": "held-out facts", "sample": "a sample of known facts"}
    protected = told["protected"]
    table = _table(f"{protected['queries']:,} protected queries, of {source[protected['source']]}", "rule")
    for name in ("limit", "found", "between", "queries", ""):
        table.add_column(name, justify="right")
    for rule in told["rules"]:
        exact = rule["low"] == rule["high"]
        sign = "≤" if rule["kind"] == "at most" else "≥"
        table.add_row(
            Text(terminal(rule["rule"], LONGEST)),
            f"{sign} {rule['limit']:.4g}",
            f"{rule['value']:.4f}",
            "" if exact else f"{rule['low']:.4f} .. {rule['high']:.4f}",
            f"{rule['queries']:,}",
            Text(rule["outcome"], style="" if rule["outcome"] == "held" else "bold"),
        )
    return table


def _worst(rows: list[dict[str, Any]]) -> Table:
    table = _table("Answers that lost most", "query", "answer")
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("newcomers now ahead", overflow="fold")
    for row in rows[:SHOWN]:
        ahead = [_shown(label) for label in row["newcomers_ahead"][:3]]
        more = row["rank_current"] - row["rank_old"] - len(ahead)
        table.add_row(
            Text(" | ".join(_shown(row[part]) for part in ("head", "relation", "tail"))),
            Text(_shown(row["answer"])),
            f"{row['rank_old']} → {row['rank_current']}" + ("!" if row["left_its_top"] else ""),
            Text(", ".join(ahead) + (f" and {more:,} more" if more > 0 else "")),
        )
    if any(row["left_its_top"] for row in rows[:SHOWN]):
        table.caption = "! it left the top k that it must keep"
    return table


def _blame(rows: list[dict[str, Any]]) -> Table:
    table = _table("Newcomers to blame", "newcomer")
    for name in ("answers", "share of D_MCI", "facts"):
        table.add_column(name, justify="right")
    for row in rows[:SHOWN]:
        cells = f"{row['answers']:,}", f"{row['charge']:.5f}", f"{row['facts']:,}"
        table.add_row(Text(_shown(row["newcomer"])), *cells)
    return table


def _what_if(store: Path, request: Request, outcome: Outcome) -> str:
    told = outcome.verdict["what_if"]
    if not told["found"]:
        return "No set of newcomers was found whose waiting would satisfy the gate."
    names = ", ".join(_shown(label) for label in told["newcomers"][:SHOWN])
    more = len(told["newcomers"]) - SHOWN
    text = (
        f"If {len(told['newcomers']):,} newcomers waited, D_MCI would be {told['D_MCI']:.4f}"
        + (f" and A_TN {told['A_TN']:.4f}" if told["A_TN"] is not None else "")
        + f"; {told['facts_that_would_wait']:,} facts would wait: {names}"
        + (f" and {more:,} more." if more > 0 else ".")
    )
    if outcome.folder is not None and outcome.version is None:
        text += f"\n{shell(_again(store, request, store / outcome.folder / HOLD_BACK))}"
    return text


def _again(store: Path, request: Request, waits: Path) -> list[str]:
    """The same command, with those who wait."""
    words = ["meor", "admit", str(store), str(request.facts), "--hold-back", str(waits)]
    words += ["--new-relations"] if request.new_relations else []
    for option in ("protect", "groups", "budget", "floor", "sample"):
        given = getattr(request, option)
        words += [] if given is None else [f"--{option}", str(given)]
    return words


def _table(title: str, *texts: str) -> Table:
    table = Table(title=Text(title), title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
    for name in texts:
        table.add_column(name, overflow="fold")
    return table


def _shown(label: str) -> str:
    return terminal(label, LONGEST)
