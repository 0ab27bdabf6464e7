"""Every table of a study: the paper's, the boundary diagnostic and the frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meor.methods import method_label
from meor.methods.coefficient import ENOUGH, RECORDS
from meor.stream.occurrence import sample_note
from meor.study.coefficient import KeptBalance
from meor.study.frontier import at_equal_acquisition, frontier_points
from meor.study.paired_tables import (
    SOURCE,
    UNADJUSTED,
    ablation_table,
    absolute_table,
    effects_table,
    file_name,
    head_method,
    is_stream,
    transfer_table,
)
from meor.study.pairing import groups
from meor.study.paper import paper_tables
from meor.study.partial import marked
from meor.study.plan import Study
from meor.study.rows import Group, Row
from meor.study.table import OURS, PAPER, Kind, StudyTable, Value


def study_tables(
    plan: Study, rows: Sequence[Row], balances: Sequence[KeptBalance] = (), *, holm: bool = False
) -> list[StudyTable]:
    """Every table the plan asks for, for each group and coefficient rule. Missing runs leave rows
    out, and a table without a row of ours stays away."""
    found: list[StudyTable] = []
    for rule in plan.coefficient_rule:
        found += _of_rule(plan, rows, rule, holm)
    if "frontier" in plan.tables:
        for group in groups(plan):
            mine = [row for row in rows if row.group == group]
            made = frontier_table(plan, rows, group), equal_table(plan, rows, group)
            found += [marked(table, mine) for table in made]
    found = [_with_sample(table, plan.sample) for table in found]
    if "boundary" in plan.tables:  # it counts records, which are not sampled
        found.append(boundary_table(plan, balances))
    return [table for table in found if table.has_ours]


def _with_sample(table: StudyTable, sample: int) -> StudyTable:
    return replace(table, notes=(*table.notes, sample_note(sample))) if sample_note(sample) else table


def _of_rule(plan: Study, rows: Sequence[Row], rule: str, holm: bool) -> list[StudyTable]:
    found: list[StudyTable] = []
    for group in groups(plan):
        mine = [row for row in rows if row.group == group]
        if "absolute" in plan.tables:
            found.append(marked(absolute_table(plan, rows, group, rule), mine))
        if "effects" in plan.tables:
            found.append(marked(effects_table(plan, rows, group, rule, holm=holm), mine))
        if "ablation" in plan.tables:
            found.append(marked(ablation_table(plan, rows, group, rule, holm=holm), mine))
    if "transfer" in plan.tables:
        for preset in plan.preset:
            there = [row for row in rows if row.preset == preset]
            found.append(marked(transfer_table(plan, rows, preset, rule, holm=holm), there))
    return found


def boundary_table(plan: Study, balances: Sequence[KeptBalance]) -> StudyTable:
    """The paper's diagnostic: active records among those that fix the coefficient, pair by pair."""
    lines: list[tuple[Value, ...]] = [
        (f"{kept.group}, pair {kept.pair}", OURS, method_label(kept.method), found.update, found.active,
         found.records, found.coefficient, found.host_norm, found.penalty_norm)
        for kept in balances
        for found in (kept.balance,)
    ]  # fmt: skip
    printed = paper_tables()["boundary"]
    if any(is_stream(stream, printed.stream) for stream in plan.stream):
        lines += [
            (str(printed.stream), PAPER, method_label(method), None, *cells, None, None, None)
            for method, cells in printed.rows.items()
        ]
    columns: dict[str, Kind] = {"Where": "text", "source": "text", "Method": "text"}
    columns |= {"update": "count", "active": "count", "records": "count"}
    columns |= dict.fromkeys(("balanced coefficient", "host gradient", "penalty gradient"), "coefficient")
    note = (
        f"Counted over at most {RECORDS:,} addressed eligible records, at the end of an update trained as "
        f"the host alone: the first one with {ENOUGH} active, or else the one with most. The paper counts 64."
    )
    title = "Active records where coefficients are balanced"
    return StudyTable("boundary", title, columns, tuple(lines), (note, SOURCE))


def frontier_table(plan: Study, rows: Sequence[Row], group: Group) -> StudyTable:
    lines: list[tuple[Value, ...]] = []
    for method in plan.penalized:
        for point in frontier_points(rows, group, method):
            ends: list[Value] = []
            for found in (point.H_cur, point.A_TN):
                interval = found.interval
                ends += [found.mean, *((interval.low, interval.high) if interval else (None, None))]
            place = (point.multiple, point.coefficient)
            lines.append((method_label(method), OURS, *place, *ends, len(point.pairs)))
    columns: dict[str, Kind] = {"Method": "text", "source": "text", "multiple": "multiple"}
    columns |= {"coefficient": "coefficient"}
    columns |= dict.fromkeys(("H_cur", "low", "high", "A_TN", "A_TN low", "A_TN high"), "level")
    columns |= {"pairs": "count"}
    note = (
        "Multiples of the balanced coefficient; 0 is the host alone. Intervals are two-sided 95 % Student t, "
        "not adjusted for their number."
    )
    return StudyTable(
        file_name("frontier", group, "balance"), f"Frontier: {group}", columns, tuple(lines), (note,)
    )


def equal_table(plan: Study, rows: Sequence[Row], group: Group) -> StudyTable:
    head = head_method(plan.methods)
    lines: list[tuple[Value, ...]] = []
    for comparator in plan.penalized:
        if head is None or comparator == head:
            continue
        for each in at_equal_acquisition(rows, group, head, comparator):
            found = each.effect
            lines.append(
                (method_label(comparator), OURS, each.offset, found.mean, found.lower, found.interval.low,
                 found.interval.high, found.wtl, len(each.pairs))
            )  # fmt: skip
    columns: dict[str, Kind] = {"Comparator": "text", "source": "text", "A_TN minus host alone": "offset"}
    columns |= {"ΔH_cur": "effect", "LB": "bound", "low": "bound", "high": "bound"}
    columns |= {"W/T/L": "count", "pairs": "count"}
    note = (
        f"{method_label(head or '')} minus comparator where both have the same A_TN: each method at its best "
        "coefficient that reaches it, linear between the points of a pair's grid, which begins at the host "
        "alone."
    )
    name = file_name("equal", group, "balance")
    return StudyTable(name, f"H_cur at equal A_TN: {group}", columns, tuple(lines), (note, UNADJUSTED))
