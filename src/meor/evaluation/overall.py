"""One number for an endpoint of endpoints.json: its value, or the mean over the cells that are not empty.

An endpoint with an empty cell does not exist, and whoever shows the mean over its other cells says so: with
`MARK` beside the number and the words of `note` below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from meor.evaluation.endpoints import EMPTY_CELLS, MEAN_OVER_EXISTING

MARK = "†"
MEANING = {
    "H_cur": "mean reciprocal rank of old facts among all entities",
    "H_old": "the same answers ranked among the old entities only",
    "D_MCI": "what newcomers cost old facts: H_old − H_cur",
    "A_TN": "mean reciprocal rank of facts whose answer is a newcomer",
    "A_QN": "mean reciprocal rank of facts asked about a newcomer",
}
"""The endpoints that people are shown, in their order, with the words for each."""

Content = Mapping[str, Any]
"""An endpoint as endpoints.json holds it."""


@dataclass(frozen=True, slots=True)
class Overall:
    """A mean over cells, and how many of the declared ones hold a query."""

    value: float | None  # None: no cell holds one
    cells: int
    declared: int

    @property
    def partial(self) -> bool:
        return self.value is not None and self.cells < self.declared

    @property
    def mark(self) -> str:
        return MARK if self.partial else ""

    @property
    def counted(self) -> str:
        return f"{self.cells} of {self.declared}"


def overall(endpoint: Content) -> Overall:
    cells, empty = len(endpoint.get("cells", ())), len(endpoint.get(EMPTY_CELLS, ()))
    value = endpoint.get("value")
    return Overall(endpoint.get(MEAN_OVER_EXISTING) if value is None else value, cells, cells + empty)


def by_update(endpoint: Content) -> dict[int, Overall]:
    """The same for each update, its sides weighing the same; an update without a query is absent."""
    values: dict[int, list[float]] = defaultdict(list)
    for cell in endpoint.get("cells", ()):
        values[int(cell["update"])].append(float(cell["value"]))
    empty = [int(cell["update"]) for cell in endpoint.get(EMPTY_CELLS, ())]
    return {
        update: Overall(sum(found) / len(found), len(found), len(found) + empty.count(update))
        for update, found in values.items()
    }


def note(counted: Iterable[tuple[str, Overall]]) -> str:
    """The footnote of every number that is marked; empty where none is."""
    told = ", ".join(f"{name} {found.counted}" for name, found in counted if found.partial)
    return told and f"{MARK} over the cells that exist ({told}); the others hold no query."
