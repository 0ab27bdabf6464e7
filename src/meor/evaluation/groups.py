"""Every endpoint and the displacement, for each group of answers separately.

A group file has lines `label TAB group`. An entity it does not list belongs to `(none)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meor.errors import InputError
from meor.evaluation.displacement import Tally, tally
from meor.evaluation.endpoints import Cells, Endpoint, Undefined, endpoints
from meor.evaluation.foreign_file import read_rows
from meor.evaluation.rank import Ranks
from meor.stream.snapshot import Stream
from meor.typing import Ids

UNLISTED = "(none)"
SMALL = 30
"""A cell with fewer queries is flagged: its mean says little."""


@dataclass(frozen=True, slots=True)
class Groups:
    """`of[e]` is the number of entity e's group in `names`; 0 is `(none)`."""

    names: tuple[str, ...]
    of: Ids


@dataclass(frozen=True, slots=True)
class GroupReport:
    name: str
    entities: int
    queries: int
    endpoints: dict[str, Endpoint | Undefined]
    displacement: Tally
    small: tuple[str, ...]  # endpoints with a cell below the threshold

    def to_json(self) -> dict[str, Any]:
        return {
            "group": self.name,
            "entities": self.entities,
            "queries": self.queries,
            "small": list(self.small),
            "endpoints": {name: found.to_json() for name, found in self.endpoints.items()},
            "displacement": self.displacement.to_json(),
        }


def read_groups(path: Path | str, stream: Stream) -> Groups:
    """The groups of a stream's entities, in the order of their first mention."""
    numbers: dict[str, int] = {UNLISTED: 0}
    of = np.zeros(len(stream.entities), dtype=np.int64)
    line_of: dict[str, int] = {}
    for line, (label, group) in read_rows(path := Path(path), ("label", "group")):
        problem = None
        if label not in stream.entities:
            problem = f"the stream {stream.name} has no entity {label!r}"
        elif label in line_of:
            problem = f"the entity {label!r} was already listed on line {line_of[label]}"
        elif group == UNLISTED:
            problem = f"{UNLISTED} is the name for entities that are not listed"
        if problem is not None:
            raise InputError(
                problem, remedy="List each entity of the stream at most once", path=path, line=line
            )
        line_of[label] = line
        of[stream.entities.id(label)] = numbers.setdefault(group, len(numbers))
    if not line_of:
        raise InputError("the file lists no entity", remedy="Write lines `label TAB group`", path=path)
    return Groups(tuple(numbers), of)


def by_group(
    ranks: Sequence[Ranks],
    groups: Groups,
    *,
    by_id: Sequence[Ranks] | None = None,
    cells: Cells | None = None,
    threshold: int = SMALL,
) -> tuple[GroupReport, ...]:
    """One report per group that holds the *answer* of at least one query.

    Displacement needs ranks with ties by id: give them as `by_id` if `ranks` follow another tie rule.
    """
    declared = cells
    if declared is None:
        declared = [(each.occurrences.update, each.occurrences.side) for each in ranks]
    found = []
    for number, name in enumerate(groups.names):
        chosen = [each.select(groups.of[each.occurrences.answer] == number) for each in ranks]
        queries = sum(len(each.occurrences) for each in chosen)
        if not queries:
            continue
        measured = endpoints(chosen, cells=declared)
        small = tuple(
            key for key, value in measured.items() if any(cell.size < threshold for cell in value.cells)
        )
        entities = int(np.count_nonzero(groups.of == number))
        told = [each.select(groups.of[each.occurrences.answer] == number) for each in by_id or ranks]
        found.append(GroupReport(name, entities, queries, measured, tally(told), small))
    return tuple(found)


def to_json(reports: Sequence[GroupReport], threshold: int = SMALL) -> dict[str, Any]:
    return {"small_below": threshold, "groups": [report.to_json() for report in reports]}
