"""The hosts under the protocols of the field and under the paper's endpoints, beside published figures.

A protocol that ranks among fewer candidates than a user of the model meets says more than the model can do.
The same model on the same facts, among all entities of the moment and with the filter of the moment, shows by
how much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from meor.escape import file_name
from meor.methods import NONE, method_label
from meor.study.host_choice import host_name, host_settings
from meor.study.notes import control_notes
from meor.study.paired_tables import PAIRS, Line, texts
from meor.study.paper import is_stream, published
from meor.study.plan import Study
from meor.study.rows import ENDPOINTS, FIGURES, RELEASED, Group, Row, select
from meor.study.table import OURS, Column, Table, Value

PUBLISHED = "published"
PROTOCOLS = (
    "MRR and Hits are over the test facts of all snapshots after the last update; every query weighs the "
    "same. A ranks the facts of a snapshot among the entities of that snapshot, B among all entities; both "
    "filter by the facts known at that snapshot, so B counts a true answer that was admitted later as an "
    "error. Current: among all entities, filtered by all known facts."
)
APART = (
    "H_cur to A_QN are the paper's endpoints: other queries, and every update and side weighs the same. They "
    "cannot be compared with MRR."
)
SOURCE = (
    "As published: protocol A with the filter of the authors' code, under variant=released. Rows whose "
    "source is published are printed in the paper named there (TransE, d = 200). LKGE's code reads the test "
    "file as its validation file: it chooses its model by test facts and does not filter validation facts. "
    "IncDE's reads each file as what it is."
)
AS_PUBLISHED = tuple(f"{figure}_{RELEASED}" for figure in FIGURES)
RESTRICTED = tuple(f"{figure}_A" for figure in FIGURES)
SHOWN = (*AS_PUBLISHED, *RESTRICTED, "MRR_B", "MRR_current")
TITLES = (
    *("MRR, as published", "H@1, as published", "H@10, as published"),
    *("MRR, A", "H@1, A", "H@10, A", "MRR, B", "MRR, current"),
)


@dataclass(frozen=True, slots=True)
class Overstatement:
    """A protocol's MRR of hosts without control, minus that among all current entities."""

    protocol: str
    by_group: Mapping[Group, tuple[float, float]]  # the difference, and as a share of what is right

    def sentence(self) -> str:
        share = {group: part for group, (_, part) in self.by_group.items()}
        mean, part = (math.fsum(each) / len(share) for each in zip(*self.by_group.values(), strict=True))
        verb = "overstates" if mean > 0 else "understates"
        told = f"Protocol {self.protocol} {verb} the MRR among all current entities by {abs(mean):.4f}"
        told += f" ({abs(part):.1%})"
        if len(share) == 1:
            return f"{told}."
        least, most = (pick(share, key=share.__getitem__) for pick in (min, max))
        return (
            f"{told} on average over {len(share)} hosts without control, from {share[least]:+.1%} under "
            f"{least.host} to {share[most]:+.1%} under {most.host}."
        )


def overstatements(plan: Study, rows: Sequence[Row], stream: str, preset: str) -> list[Overstatement]:
    """A and B over the hosts of a stream; none where nothing was ranked as the field does."""
    found = []
    for protocol in ("A", "B"):
        by_group = {}
        for group in _groups(plan, stream, preset):
            told = _means(list(select(rows, group, NONE, "").values()))
            stated, current = told.get(f"MRR_{protocol}"), told.get("MRR_current")
            if stated is not None and current:
                by_group[group] = stated - current, stated / current - 1
        if by_group:
            found.append(Overstatement(protocol, by_group))
    return found


def field_table(plan: Study, rows: Sequence[Row], stream: str, preset: str, rule: str) -> Table:
    groups = _groups(plan, stream, preset)
    printed = published().rows if is_stream(stream, published().stream) else {}
    lines: list[Line] = []
    for host in dict.fromkeys(host_name(group.host) for group in groups):
        for group in groups:
            if host_name(group.host) == host:
                lines += _of_group(plan, rows, group, rule)
        if host in printed:
            lines.append(_printed(host, printed[host]))
    lines += [_printed(name, cells) for name, cells in printed.items() if name not in _names(groups)]
    levels = (Column(title, "level") for title in TITLES)
    apart = (Column(f"{name} - current", "effect") for name in ("A", "B"))
    told = [each.sentence() for each in overstatements(plan, rows, stream, preset)]
    notes = (*told, PROTOCOLS, APART, SOURCE, *control_notes(rows, groups, rule, _methods(plan, groups)))
    return Table(
        f"The field's protocols and the paper's endpoints: {Path(stream).name}, {preset} ({rule})",
        (
            *texts("Host", "source", "Method"),
            *(*levels, *apart),
            *(Column(name, "level") for name in ENDPOINTS),
            PAIRS,
        ),
        tuple(lines),
        notes,
        f"field-{file_name(Path(stream).name)}-{preset}-{rule}",
    )


def _groups(plan: Study, stream: str, preset: str) -> list[Group]:
    return [group for group in plan.groups if (group.stream, group.preset) == (stream, preset)]


def _names(groups: Sequence[Group]) -> set[str]:
    return {host_name(group.host) for group in groups}


def _methods(plan: Study, groups: Sequence[Group]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in plan.methods_of(group)))


def _of_group(plan: Study, rows: Sequence[Row], group: Group, rule: str) -> Iterator[Line]:
    for method in plan.methods_of(group):
        found = list(select(rows, group, method, rule).values())
        if not found:
            continue
        told = _means(found)
        if host_settings(group.host).get("variant") == RELEASED and told["MRR_released"] is None:
            told |= {mine: told[theirs] for mine, theirs in zip(AS_PUBLISHED, RESTRICTED, strict=True)}
        current = told["MRR_current"]
        apart = [
            None if stated is None or current is None else stated - current
            for stated in (told["MRR_A"], told["MRR_B"])
        ]
        shown, ends = ([told[name] for name in names] for names in (SHOWN, ENDPOINTS))
        where = f"{group.host}, {group.backbone}"
        yield (where, OURS, method_label(method), *shown, *apart, *ends, len(found))


def _means(rows: Sequence[Row]) -> dict[str, float | None]:
    """Over pairs; None where a row has no such figure."""
    found: dict[str, float | None] = {}
    for name in (*ENDPOINTS, *SHOWN):
        values = [row.shown(name) if name in ENDPOINTS else getattr(row, name) for row in rows]
        defined = [value for value in values if value is not None]
        whole = defined and len(defined) == len(values)
        found[name] = math.fsum(defined) / len(defined) if whole else None
    return found


def _printed(name: str, cells: tuple[str, ...]) -> Line:
    *figures, source = cells
    rest: list[Value] = [None] * (7 + len(ENDPOINTS))
    return (name, PUBLISHED, source, *figures, *rest, None)
