"""The tables of a frontier: its points, and who is ahead of whom at equal A_TN."""

from __future__ import annotations

from collections.abc import Sequence

from meor.study.effects import MARGIN, Effect
from meor.study.frontier import Verdict, frontier_points, verdicts
from meor.study.paired_tables import PAIRS, UNADJUSTED, WTL, Line, file_name, texts
from meor.study.plan import Study
from meor.study.questions import best_places, questions
from meor.study.rows import Group, Row
from meor.study.table import OURS, Column, Table, Value

EQUAL = (
    "Ours minus theirs where both have the same A_TN: the mean over all A_TN that both reach, in each pair, "
    "then over pairs. Curves are linear between their points; of a family the best counts. Ahead or behind: "
    "the two-sided 95 % interval excludes 0."
)

BEST = (
    "The highest H_cur on validation facts among the values of a curve whose A_TN there is at most "
    f"{MARGIN:g} below that of the host alone:"
)


def frontier_table(plan: Study, rows: Sequence[Row], group: Group) -> Table:
    lines: list[Line] = []
    for name, curve in plan.curves.items():
        for point in frontier_points(rows, group, name, curve):
            ends: list[Value] = []
            for found in (point.H_cur, point.A_TN):
                interval = found.interval
                ends += [found.mean, *((interval.low, interval.high) if interval else (None, None))]
            along = "host alone" if not point.at and curve.starts_alone else f"{curve.along} {point.at:g}"
            lines.append((name, OURS, along, point.coefficient, *ends, len(point.pairs)))
    levels = ("H_cur", "low", "high", "A_TN", "A_TN low", "A_TN high")
    notes = ["Intervals are two-sided 95 % Student t over pairs, not adjusted for their number."]
    if places := best_places(rows, group, plan.curves):
        told = "; ".join(f"{name}: {place}" for name, place in places.items())
        notes.append(f"{BEST} {told}.")
    return Table(
        f"Frontier: {group}",
        (
            *texts("Curve", "source", "at"),
            Column("coefficient", "coefficient"),
            *(Column(title, "level") for title in levels),
            PAIRS,
        ),
        tuple(lines),
        tuple(notes),
        file_name("frontier", group, "curves"),
    )


def verdict_table(plan: Study, rows: Sequence[Row], group: Group) -> Table:
    found = verdicts(rows, group, plan.curves)
    return Table(
        f"Who is ahead at equal A_TN: {group}",
        (*texts("Ours", "source", "Theirs", "verdict"), *MEASURED),
        tuple((each.ours, OURS, each.theirs, each.word, *_measured(each)) for each in found),
        (EQUAL, UNADJUSTED),
        file_name("ahead", group, "curves"),
    )


def question_table(plan: Study, rows: Sequence[Row], group: Group) -> Table:
    """The verdicts that answer the questions a frontier is made for."""
    found = questions(rows, group, plan.curves)
    apart = [
        f"{ours} and {theirs} never have the same A_TN in two pairs."
        for each in found
        for ours, theirs in each.apart
    ]
    return Table(
        f"What the frontier was asked: {group}",
        (*texts("Question", "source", "Ours", "Theirs", "verdict"), *MEASURED),
        tuple(
            (asked.text, OURS, each.ours, each.theirs, each.word, *_measured(each))
            for asked in found
            for each in asked.verdicts
        ),
        (EQUAL, UNADJUSTED, *dict.fromkeys(apart)),
        file_name("questions", group, "curves"),
    )


MEASURED = (
    Column("ΔH_cur", "effect"),
    *(Column(title, "bound") for title in ("LB", "low", "high")),
    Column("ΔD_MCI", "effect"),
    *(Column("A_TN from", "level", 3), Column("to", "level", 3), WTL, PAIRS),
)


def _measured(each: Verdict) -> Line:
    cur: Effect = each.H_cur
    ends = (cur.mean, cur.lower, cur.interval.low, cur.interval.high, each.D_MCI.mean)
    return (*ends, each.low, each.high, cur.wtl, len(each.pairs))
