"""Every table of a study: the paper's, the boundary diagnostic and the frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meor.stream.sample import sample_note
from meor.study.coefficient import KeptBalance
from meor.study.frontier import at_equal_acquisition, frontier_points
from meor.study.paired_tables import (
    METHOD,
    NAMES,
    OURS,
    PAPER,
    UNADJUSTED,
    StudyTable,
    Value,
    ablation_table,
    absolute_table,
    effects_table,
    file_name,
    is_stream,
    transfer_table,
)
from meor.study.pairing import groups
from meor.study.paper import paper_tables
from meor.study.plan import Study
from meor.study.rows import Group, Row


def study_tables(
    plan: Study, rows: Sequence[Row], balances: Sequence[KeptBalance] = (), *, holm: bool = False
) -> list[StudyTable]:
    """Every table the plan asks for, for each group and coefficient rule. Missing runs leave rows out."""
    found: list[StudyTable] = []
    for rule in plan.coefficient_rule:
        found += _of_rule(plan, rows, rule, holm)
    if "frontier" in plan.tables:
        for group in groups(plan):
            found += [frontier_table(plan, rows, group), equal_table(plan, rows, group)]
    found = [_with_sample(table, plan.sample) for table in found]
    if "boundary" in plan.tables:  # it counts records, which are not sampled
        found.append(boundary_table(plan, balances))
    return [table for table in found if table.rows]


def _with_sample(table: StudyTable, sample: int) -> StudyTable:
    return replace(table, notes=(*table.notes, sample_note(sample))) if sample_note(sample) else table


def _of_rule(plan: Study, rows: Sequence[Row], rule: str, holm: bool) -> list[StudyTable]:
    found: list[StudyTable] = []
    for group in groups(plan):
        if "absolute" in plan.tables:
            found.append(absolute_table(plan, rows, group, rule))
        if "effects" in plan.tables:
            found.append(effects_table(plan, rows, group, rule, holm=holm))
        if "ablation" in plan.tables:
            found.append(ablation_table(plan, rows, group, rule))
    if "transfer" in plan.tables:
        found += [transfer_table(plan, rows, preset, rule) for preset in plan.preset]
    return found


def boundary_table(plan: Study, balances: Sequence[KeptBalance]) -> StudyTable:
    """The paper's diagnostic: active records among those that fix the coefficient, pair by pair."""
    lines: list[tuple[Value, ...]] = [
        (f"{kept.group}, pair {kept.pair}", OURS, NAMES[kept.method], found.active, found.records,
         f"{found.coefficient:.3g}", f"{found.host_norm:.3g}", f"{found.penalty_norm:.3g}")
        for kept in balances
        for found in (kept.balance,)
    ]  # fmt: skip
    printed = paper_tables()["boundary"]
    if any(is_stream(stream, printed.stream) for stream in plan.stream):
        lines += [
            (str(printed.stream), PAPER, NAMES[method], *cells, None, None, None)
            for method, cells in printed.rows.items()
        ]
    columns = (
        *("Where", "source", "Method", "active", "records"),
        *("balanced coefficient", "host gradient", "penalty gradient"),
    )
    note = "Counted at the end of update 1 trained as replay, over addressed eligible records."
    return StudyTable(
        "boundary", "Active records where coefficients are balanced", columns, tuple(lines), (note,)
    )


def frontier_table(plan: Study, rows: Sequence[Row], group: Group) -> StudyTable:
    lines: list[tuple[Value, ...]] = []
    for method in plan.penalized:
        for point in frontier_points(rows, group, method):
            ends: list[Value] = []
            for found in (point.H_cur, point.A_TN):
                interval = found.interval
                ends += [found.mean, *((interval.low, interval.high) if interval else (None, None))]
            weight = f"{point.coefficient:.3g}"
            lines.append((NAMES[method], OURS, f"{point.multiple:g}", weight, *ends, len(point.pairs)))
    columns = (
        *("Method", "source", "multiple", "coefficient", "H_cur", "low", "high"),
        *("A_TN", "A_TN low", "A_TN high", "pairs"),
    )
    note = "Multiples of the balanced coefficient; 0 is replay. Intervals are two-sided 95 % Student t."
    return StudyTable(
        file_name("frontier", group, "balance"), f"Frontier: {group}", columns, tuple(lines), (note,)
    )


def equal_table(plan: Study, rows: Sequence[Row], group: Group) -> StudyTable:
    lines: list[tuple[Value, ...]] = []
    for comparator in plan.penalized:
        if comparator == METHOD or METHOD not in plan.methods:
            continue
        for each in at_equal_acquisition(rows, group, METHOD, comparator):
            found = each.effect
            lines.append(
                (NAMES[comparator], OURS, f"{each.offset:+.3f}", found.mean, found.lower, found.interval.low,
                 found.interval.high, found.wtl, len(each.pairs))
            )  # fmt: skip
    columns = ("Comparator", "source", "A_TN minus replay's", "ΔH_cur", "LB", "low", "high", "W/T/L", "pairs")
    note = (
        "MEOR minus comparator where both have the same A_TN, linear along each pair's grid from replay "
        f"on. {UNADJUSTED}"
    )
    name = file_name("equal", group, "balance")
    return StudyTable(name, f"H_cur at equal A_TN: {group}", columns, tuple(lines), (note,))
