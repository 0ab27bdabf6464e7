"""Every table of a study: the paper's, the boundary diagnostic, the frontier; and `effects.csv`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from meor.evaluation.endpoints import MARK
from meor.methods import method_label
from meor.methods.coefficient import ENOUGH, RECORDS
from meor.stream.occurrence import sample_note
from meor.study.coefficient import Choice, KeptBalance
from meor.study.comparisons import adjusted, comparisons, others_against_host
from meor.study.effects import PairedComparison
from meor.study.field_table import field_table
from meor.study.frontier_tables import frontier_table, question_table, verdict_table
from meor.study.keys import VALIDATED
from meor.study.notes import footnote, partial_endpoints
from meor.study.paired_tables import (
    SOURCE,
    Line,
    ablation_table,
    absolute_table,
    effects_table,
    texts,
    transfer_table,
)
from meor.study.paper import is_stream, paper_tables
from meor.study.plan import FIELD, Study
from meor.study.popularity import LABEL, NOTE, endpoints_of
from meor.study.results import Results
from meor.study.rows import Group, Row
from meor.study.table import OURS, PAPER, Column, Table, csv_of

EFFECTS_FILE = "effects.csv"
EFFECTS_COLUMNS = (
    *("stream", "backbone", "host", "preset", "rule", "method", "comparator", "endpoint", "pairs"),
    *("mean", "lower", "low", "high", "bca_low", "bca_high", "p_value", "wins", "ties", "losses"),
    *("preserved", "active_share", "comparator_active_share", "holm_p", "cells"),
)


@dataclass(frozen=True, slots=True)
class Beside:
    """What tables say beside the runs."""

    choices: Sequence[Choice] = ()
    popularity: Mapping[str, Any] = field(default_factory=dict)


NOTHING = Beside()


def study_tables(
    plan: Study,
    rows: Sequence[Row],
    balances: Sequence[KeptBalance] = (),
    *,
    holm: bool = False,
    beside: Beside = NOTHING,
) -> list[Table]:
    """Every table the plan asks for, for each group and coefficient rule. Missing runs leave rows
    out, and a table without a row of ours stays away."""
    found: list[Table] = []
    for rule in plan.coefficient_rule:
        found += _of_rule(plan, rows, rule, holm, beside)
    if "frontier" in plan.tables:
        for group in plan.groups:
            made = (make(plan, rows, group) for make in (question_table, verdict_table, frontier_table))
            found += [_marked(table, rows, [group]) for table in made]
    notes = [] if plan.judged[0] == "test" else ["Endpoints are of validation facts."]
    if note := sample_note(plan.sample):
        notes.append(note)
    found = [replace(table, notes=(*table.notes, *notes)) for table in found]
    if "boundary" in plan.tables:  # it counts records, which are not sampled
        found.append(boundary_table(plan, balances))
    return [table for table in found if table.has_ours]


def _of_rule(plan: Study, rows: Sequence[Row], rule: str, holm: bool, beside: Beside) -> Iterator[Table]:
    for group in plan.groups:
        if "absolute" in plan.tables:
            table = absolute_table(plan, rows, group, rule)
            yield _marked(_with_what_stands_beside(table, group, rule, beside), rows, [group])
        if "effects" in plan.tables:
            yield _marked(effects_table(plan, rows, group, rule, holm=holm), rows, [group])
        if "ablation" in plan.tables:
            yield _marked(ablation_table(plan, rows, group, rule, holm=holm), rows, [group])
    for preset in plan.preset:
        yield from _over_groups(plan, rows, preset, rule, holm)


def _over_groups(plan: Study, rows: Sequence[Row], preset: str, rule: str, holm: bool) -> Iterator[Table]:
    there = [group for group in plan.groups if group.preset == preset]
    if FIELD in plan.tables:
        for stream in plan.stream:
            mine = [group for group in there if group.stream == stream]
            yield _marked(field_table(plan, rows, stream, preset, rule), rows, mine)
    if "transfer" in plan.tables:
        yield _marked(transfer_table(plan, rows, preset, rule, holm=holm), rows, there)


def _with_what_stands_beside(table: Table, group: Group, rule: str, beside: Beside) -> Table:
    """The baseline without a model as the last row; choices that a reader should know of as notes."""
    remarks = [each.remark for each in beside.choices if each.group == group and rule == VALIDATED]
    lines, notes = table.rows, [*table.notes, *filter(None, remarks)]
    if lines and (ends := endpoints_of(beside.popularity, group)):
        lines, notes = (*lines, (LABEL, OURS, *ends, None, None, None)), [*notes, NOTE]
    return replace(table, rows=lines, notes=tuple(notes))


def _marked(table: Table, rows: Iterable[Row], among: Sequence[Group]) -> Table:
    """A mark at each column of an endpoint that is a mean over some of its cells, and the footnote to it."""
    found = partial_endpoints(row for row in rows if row.group in among)
    names = {name for named in found.values() for name in named}
    if not names:
        return table
    columns = tuple(
        replace(each, title=f"{each.title}{MARK}") if any(name in each.title for name in names) else each
        for each in table.columns
    )
    return replace(table, columns=columns, notes=(*table.notes, footnote(found)))


def boundary_table(plan: Study, balances: Sequence[KeptBalance]) -> Table:
    """The paper's diagnostic: active records among those that fix the coefficient, pair by pair."""
    lines: list[Line] = [
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
    counts = (Column(title, "count") for title in ("update", "active", "records"))
    weights = ("balanced coefficient", "host gradient", "penalty gradient")
    note = (
        f"Counted over at most {RECORDS:,} addressed eligible records, at the end of an update trained as "
        f"the host alone: the first one with {ENOUGH} active, or else the one with most. The paper counts 64."
    )
    return Table(
        "Active records where coefficients are balanced",
        (*texts("Where", "source", "Method"), *counts, *(Column(title, "coefficient") for title in weights)),
        tuple(lines),
        (note, SOURCE),
        "boundary",
    )


def write_effects(folder: Path, plan: Study, rows: Sequence[Row], *, holm: bool = False) -> None:
    """Every paired effect at full precision, one per line; tables print its numbers.

    Rewritten whenever the study goes on.
    """
    lines = effects_lines(plan, rows, holm=holm)
    Results(folder).replace({EFFECTS_FILE: csv_of(EFFECTS_COLUMNS, lines).encode()})


def effects_lines(plan: Study, rows: Sequence[Row], *, holm: bool = False) -> list[tuple[object, ...]]:
    """Values of `EFFECTS_COLUMNS`: the study's method against all others, then these against the host alone.

    A family of Holm's is one group and rule, its H_cur effects, of the study's method.
    """
    lines: list[tuple[object, ...]] = []
    for group in plan.groups:
        for rule in plan.coefficient_rule:
            family = comparisons(plan, rows, group, rule)
            p_values = adjusted(family) if holm else [None] * len(family)
            for each, holm_p in zip(family, p_values, strict=True):
                lines += _effects_lines(each, holm_p)
            for each in others_against_host(plan, rows, group, rule):
                lines += _effects_lines(each, None)
    return lines


def _effects_lines(each: PairedComparison, holm_p: float | None) -> Iterator[tuple[object, ...]]:
    group = each.group
    place = (group.stream, group.backbone, group.host, group.preset, each.coefficient_rule)
    shares = each.active_share, each.comparator_active_share
    for name, found in each.effects.items():
        ends = (found.interval.low, found.interval.high, found.bca.low, found.bca.high)
        counts = (found.wins, found.ties, found.losses, "yes" if found.preserved else "no")
        bounds = (found.mean, found.lower, *ends, found.p_value)
        over = "existing" if found.partial else "all"
        compared = (each.method, each.comparator, name, len(each.pairs))
        last = holm_p if name == "H_cur" else None
        yield (*place, *compared, *bounds, *counts, *shares, last, over)
