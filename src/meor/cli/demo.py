"""`meor demo`: what the embedded world loses when it grows, to whom, and what control changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from meor.calls.study_progress import observer
from meor.cli import new_verb
from meor.errors import StudyError
from meor.escape import shell, terminal
from meor.evaluation.blame import blame, name_newcomers
from meor.evaluation.displacement import Displaced, worst
from meor.methods import DEFAULT, NONE, method_label
from meor.report.html import REPORT, page_of, write
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.stream.world import world
from meor.study.conduct import RUNS_FOLDER, Findings, conduct
from meor.study.effects import MARGIN, PairedComparison, compare
from meor.study.execute import Processes
from meor.study.keys import BALANCE
from meor.study.plan import Study
from meor.study.task import Means
from meor.typing import Side, Split

COSTLIEST = 10
"""Newcomers of an update among which a planted competitor counts as found; about two hundred come in."""

app = new_verb()


@app.command()
def command(
    out: Annotated[Path, typer.Option(help="Folder of the results.", file_okay=False)] = Path("demo"),
    pairs: Annotated[int, typer.Option(help="Pairs of runs.", min=2)] = 3,
    workers: Annotated[int, typer.Option(help="Local processes.", min=1)] = 2,
) -> None:
    """What the embedded world loses when it grows, to whom, and what control changes.

    A small study of the host alone against the default control, each stopping by itself; its report is a
    page. Stop it whenever you like: the same command goes on where it stopped.
    """
    plan = Study.resolve(
        {
            "study": "demo",
            "stream": "world",
            "methods": [NONE, DEFAULT],
            "schedule": "own",
            "pairs": pairs,
            "sets": ["dim=64"],
        }
    )
    with observer(Console(stderr=True), workers, quiet=False) as shown:
        found = conduct(plan, out, executor=Processes(workers), means=Means(), observer=shown)
    if found.failures:
        raise StudyError(f"a run failed: {next(iter(found.failures.values()))}")
    write(page_of(out), out / REPORT)
    stream, alone = world(), next(row for row in found.rows if row.method == NONE)
    view = RunView.open(out / RUNS_FOLDER / alone.run)
    print(f"\nThe world grows {len(stream.updates)} times, to {len(stream.entities):,} entities.")
    print(*_one_answer(stream, view), sep="\n")
    print(_planted(stream, view))
    print(*_control(found), sep="\n")
    print(f"\nThe report: {terminal(out / REPORT)}")
    print(f"Who displaced whom: {shell(['meor', 'audit', str(view.path)])}")


def _one_answer(stream: Stream, view: RunView) -> list[str]:
    """The answer that lost most at update 1, and who stands before it."""
    ranks = view.ranks(1)[Split.TEST]
    (lost,) = name_newcomers(stream, view.model(1), worst(ranks, 1), limit=3)
    names = [f"    {stream.entities.label(each)}" for each in lost.newcomers]
    answer = stream.entities.label(lost.answer)
    return [
        f"\nOne old answer: {_query(stream, lost)} {answer}",
        f"  was answer {lost.old} before update 1, and is answer {lost.cur} after it,",
        f"  though nothing about it changed. {len(names)} of {lost.cur - lost.old} newcomers ahead of it:",
        *names,
    ]


def _query(stream: Stream, displaced: Displaced) -> str:
    head, relation, tail = displaced.fact
    anchor = stream.entities.label(tail if displaced.side is Side.HEAD else head)
    parts = ("?", anchor) if displaced.side is Side.HEAD else (anchor, "?")
    return f"({parts[0]}, {stream.relations.label(relation)}, {parts[1]})"


def _planted(stream: Stream, view: RunView) -> str:
    planted = {stream.entities.id(newcomer) for newcomer, _, _ in stream.planted}
    found = 0
    for update in stream.updates:
        tail = next(one for one in view.ranks(update)[Split.TEST] if one.occurrences.side is Side.TAIL)
        cost = blame(stream, view.model(update), tail)
        costliest = cost.first + np.argsort(-cost.charge, kind="stable")[:COSTLIEST]
        found += len(planted & {int(entity) for entity in costliest})
    total = sum(len(stream.newcomers(update)) for update in stream.updates)
    return (
        f"\nThe audit finds {found} of {len(planted)} planted competitors among {total:,} newcomers\n"
        f"  (each among the {COSTLIEST} costliest of its update)."
    )


def _control(found: Findings) -> list[str]:
    made = compare(found.rows, found.plan.groups[0], BALANCE, DEFAULT, NONE)
    told = [
        f"\n{method_label(DEFAULT)} against the host alone, {len(made.pairs)} pairs, each stopping by itself:"
    ]
    meaning = {
        "H_cur": "old answers among all entities",
        "H_old": "old answers among old entities",
        "A_TN": "answers that are newcomers",
        "A_QN": "answers about newcomers",
    }
    for name, words in meaning.items():
        effect = made[name]
        told.append(f"  {name:<6}{words:<32}{effect.mean:+.4f}  at least {effect.lower:+.4f}")
    return [*told, _verdict(made)]


def _verdict(made: PairedComparison) -> str:
    """What is shown, what is lost, and what so few pairs leave open."""
    others = ("H_old", "A_TN", "A_QN")
    lost = [name for name in others if made[name].mean < -MARGIN]
    unsure = [name for name in others if not made[name].preserved and name not in lost]
    said = [f"It {'gains' if made['H_cur'].improved else 'is not shown to gain'} H_cur"]
    if lost:
        said.append(f"a trade: {', '.join(lost)} falls by more than {MARGIN:g} in the mean")
    if unsure:
        keep = "keeps" if len(unsure) == 1 else "keep"
        said.append(
            f"{len(made.pairs)} pairs do not show that {' and '.join(unsure)} {keep} within {MARGIN:g}"
        )
    if not (lost or unsure):
        said.append(f"nothing else falls by more than {MARGIN:g}")
    return "  " + ";\n  ".join(said) + " (95 % bounds)."
