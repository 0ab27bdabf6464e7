"""`meor inspect`: every record of a penalty, down to the ids it was made from."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meor.backbone.base import Model
from meor.cli import new_verb
from meor.cli.options import ReadingMemory
from meor.cohort.newcomers import Cohort
from meor.errors import InputError
from meor.escape import LONGEST, terminal
from meor.methods.comparison import sample_records
from meor.methods.equations import POOLS
from meor.methods.penalty import Records, penalty_records
from meor.run.records_file import comparison_of
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Floats, Ids, Side

app = new_verb()

BARS = " ▁▂▃▄▅▆▇█"
NAMED = 5

Name = Callable[[int], str]
"""The label of an id, as a terminal may show it."""


@app.command()
def command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    *,
    update: Annotated[int, typer.Option(help="The update whose records are shown.")] = 1,
    records: Annotated[int, typer.Option(min=1, help="How many records; a larger number adds to them.")] = 64,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON list on stdout instead of a table.")
    ] = False,
    ids: Annotated[bool, typer.Option("--ids", help="Entities and relations as ids, not labels.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Where the paper's streams lie.")] = None,
    memory: ReadingMemory = "1GiB",
) -> None:
    """Show what the penalty saw at historical queries of an update.

    Newcomers, matched old entities, scale and pressures are made again from the weights of that update.
    Runs without a penalty (none, calibration) are shown as MEOR would see them.
    """
    view = RunView.open(run)
    if update not in view.updates or update == 0:
        there = [number for number in view.updates if number]
        raise InputError(
            f"{run} has no update {update}",
            remedy=f"Choose one of {there}" if there else f"Go on with `meor resume {run}`",
        )
    stream, model = view.stream(data_dir), view.model(update)
    comparison = comparison_of(view.config, stream, update)
    found = penalty_records(comparison, model)
    chosen = sample_records(comparison.cohort, records)
    if as_json:
        json.dump([record_json(found, int(x), stream, ids=ids) for x in chosen], sys.stdout, allow_nan=False)
        sys.stdout.write("\n")
        return
    title = f"{view.config.method} on {terminal(stream.name)}, update {update}"
    _show(found, chosen, stream, model, ids=ids, title=title)


def record_json(found: Records, x: int, stream: Stream, *, ids: bool) -> dict[str, Any]:
    """One record. `references[j]` is aligned with `newcomers`, unless another's were borrowed (shuffled)."""
    comparison, cohort = found.comparison, found.comparison.cohort
    entity, relation = _namers(stream, ids)
    head, of, tail = (int(part) for part in cohort.fact[x])
    drawn = comparison.drawn(np.array([x]))[0]
    return {
        "head": entity(head),
        "relation": relation(of),
        "tail": entity(tail),
        "side": SIDES[cohort.side[x]].label,
        "answer": entity(int(cohort.answer[x])),
        "newcomers": [entity(int(e)) for e in cohort.newcomers_of(x)],
        "scale_sample": [entity(int(e)) for e in cohort.scale_of(x)],
        "references": [[entity(int(e)) for e in row[row >= 0]] for row in drawn],
        "match_level": comparison.references.levels_of(x).tolist(),
        "iqr": float(found.scale.iqr[x]),
        "mad": float(found.scale.mad[x]),
        "mad_pool": POOLS[found.scale.mad_pool[x]],
        "tau": float(found.scale.tau[x]),
        "u_new": float(found.new[x]),
        "u_old": float(found.reference[x]),
        "excess": float(found.excess[x]),
        "active": bool(found.active[x]),
    }


def _shown_namers(stream: Stream, ids: bool) -> tuple[Name, Name]:
    entity, relation = _namers(stream, ids)
    return lambda e: terminal(entity(e), LONGEST), lambda r: terminal(relation(r), LONGEST)


def _query(cohort: Cohort, x: int, entity: Name, relation: Name) -> str:
    head, of, tail = (int(part) for part in cohort.fact[x])
    if cohort.side[x] == Side.HEAD:
        return f"?, {relation(of)}, {entity(tail)}"
    return f"{entity(head)}, {relation(of)}, ?"


def _namers(stream: Stream, ids: bool) -> tuple[Any, Any]:
    if ids:
        return int, int
    return stream.entities.label, stream.relations.label


def _show(found: Records, chosen: Ids, stream: Stream, model: Model, *, ids: bool, title: str) -> None:
    console = Console()
    if not len(chosen):
        console.print(Text(f"{title}: no record is eligible (no newcomers, or nobody to compare them with)."))
        return
    console.print(_table(found, chosen, stream, ids, title))
    wins = found.scale.wins()
    active = int(found.active[chosen].sum())
    console.print(
        Text(
            f"{active} of {len(chosen)} records active; of all {int(found.eligible.sum())} eligible "
            f"occurrences {found.active_share():.1%}. "
            f"tau set by IQR {wins['iqr']}, MAD {wins['mad']}, epsilon {wins['epsilon']} times."
            + (f" {found.dropped} borrowed entries dropped." if found.dropped else "")
        )
    )
    worst = int(chosen[np.argmax(found.excess[chosen])])
    console.print()
    console.print(Text(picture(found, worst, model, *_shown_namers(stream, ids), console.width)))


def _table(found: Records, chosen: Ids, stream: Stream, ids: bool, title: str) -> Table:
    cohort = found.comparison.cohort
    entity, relation = _shown_namers(stream, ids)
    table = Table(title=Text(title), title_justify="left")
    table.add_column("query")
    table.add_column("answer")
    for name in ("newcomers", "tau", "U new", "U old", "excess"):
        table.add_column(name, justify="right")
    for x in chosen[np.argsort(-found.excess[chosen], kind="stable")]:
        table.add_row(
            Text(_query(cohort, x, entity, relation), overflow="ellipsis", no_wrap=True),
            Text(entity(int(cohort.answer[x])), overflow="ellipsis", no_wrap=True),
            str(cohort.n_newcomers[x]),
            f"{found.scale.tau[x]:.4g}",
            f"{found.new[x]:.4f}",
            f"{found.reference[x]:.4f}",
            Text(f"{found.excess[x]:.4f}", style="bold" if found.active[x] else "dim"),
        )
    return table


def picture(found: Records, x: int, model: Model, entity: Name, relation: Name, width: int = 80) -> str:
    """One record on one axis: how many newcomers and matched old entities score where, the answer being 0."""
    cohort = found.comparison.cohort
    newcomers = cohort.newcomers_of(x)
    drawn = found.comparison.drawn(np.array([x]))[0]
    gap = _gaps(found, x, model)
    reference = drawn[drawn >= 0]
    margin = 13
    columns = max(min(width, 120) - margin, 20)
    shown = np.concatenate([gap[newcomers], gap[reference], [0.0]])
    edges = np.linspace(
        shown.min(), shown.max() if shown.max() > shown.min() else shown.min() + 1, columns + 1
    )
    zero = int(np.clip(np.searchsorted(edges, 0.0, side="right") - 1, 0, columns - 1))
    top = max(_counts(gap[newcomers], edges).max(), (_counts(gap[reference], edges) / len(drawn)).max(), 1e-9)
    lines = [
        f"({_query(cohort, x, entity, relation)}), answer {entity(int(cohort.answer[x]))}",
        f"{'newcomers':<{margin}}{_bars(_counts(gap[newcomers], edges), top)}",
        f"{'matched old':<{margin}}{_bars(_counts(gap[reference], edges) / len(drawn), top)}",
        f"{'':<{margin}}{'─' * zero}┴{'─' * (columns - zero - 1)}",
        f"{'':<{margin}}{_ticks(edges, zero, columns)}",
        f"gap to the answer in units of tau = {found.scale.tau[x]:.4g}; right of the mark: above it",
    ]
    lines += _named("newcomers above it", newcomers, gap, entity)
    lines += _named("matched old above it", np.unique(reference), gap, entity)
    lines.append(
        f"U new {found.new[x]:.4f}, U old {found.reference[x]:.4f}, excess {found.excess[x]:.4f}: "
        + ("penalised" if found.active[x] else "not penalised")
    )
    return "\n".join(lines)


def _gaps(found: Records, x: int, model: Model) -> Floats:
    """[n_cur] z of every entity."""
    cohort = found.comparison.cohort
    side = SIDES[cohort.side[x]]
    anchor, of = cohort.anchor[x : x + 1], cohort.relation[x : x + 1]
    score = model.score(anchor, of, side)[0, : cohort.n_cur].detach().double().numpy()
    return np.asarray((score - score[cohort.answer[x]]) / found.scale.tau[x], dtype=np.float64)


def _counts(value: Floats, edges: Floats) -> Floats:
    return np.histogram(value, edges)[0].astype(np.float64)


def _bars(count: Floats, top: float) -> str:
    """Heights on a root scale, so that a lone entity beside a crowd is still seen."""
    height = np.ceil(np.sqrt(count / top) * (len(BARS) - 1)).astype(int)
    return "".join(BARS[level] for level in height)


def _ticks(edges: Floats, zero: int, columns: int) -> str:
    line = [" "] * columns
    for text, at in ((f"{edges[0]:.2g}", 0), (f"{edges[-1]:.2g}", columns), ("answer", zero)):
        begin = max(0, min(at - (len(text) // 2 if text == "answer" else 0), columns - len(text)))
        line[begin : begin + len(text)] = text
    return "".join(line)


def _named(what: str, ids: Ids, gap: Floats, entity: Name) -> list[str]:
    above = ids[gap[ids] > 0]
    best = above[np.argsort(-gap[above], kind="stable")][:NAMED]
    names = ", ".join(f"{entity(int(e))} {gap[e]:+.2f}" for e in best)
    more = "" if len(above) <= NAMED else f" and {len(above) - NAMED} more"
    return [f"{len(above)} {what}" + (f": {names}{more}" if names else "")]
