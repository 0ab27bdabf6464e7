"""H_cur, H_old, D_MCI, A_TN and A_QN: equal-weight means over declared cells (paper, Endpoints).

A cell is one update and one side. Queries weigh the same within a cell and cells weigh the same within an
endpoint. An endpoint exists only if every declared cell holds a query; an empty cell is never a zero. What
the other cells give is kept beside the reason, under names of its own; whoever shows that mean says so, with
`MARK` beside the number and the words of `note` below it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meor.errors import EmptyCellError, NonFiniteError
from meor.evaluation.rank import RankArray, Ranks
from meor.evaluation.reciprocal import sum_of_reciprocals
from meor.typing import SIDES, Role, Side

MRR, HITS = "mrr", (1, 3, 10)
METRICS = (MRR, *(f"hits@{k}" for k in HITS))

DISPLACEMENT = "D_MCI"
QUANTITIES: dict[str, tuple[Role, str]] = {
    "H_cur": (Role.HISTORICAL, "cur"),
    "H_old": (Role.HISTORICAL, "old"),
    "A_TN": (Role.TARGET_NEWCOMER, "cur"),
    "A_QN": (Role.QUERY_NEWCOMER, "cur"),
    "settled_cur": (Role.SETTLED, "cur"),
    "settled_old": (Role.SETTLED, "old"),
}
"""Endpoint -> the role it is about and the universe it ranks in."""
ENDPOINTS = ("H_cur", "H_old", DISPLACEMENT, "A_TN", "A_QN", "settled_cur", "settled_old")

CellKey = tuple[int, Side]
Ranked = Mapping[CellKey, Ranks]
Cells = Sequence[tuple[int, Side | str]]  # declared cells; a side may be given by its name
Content = Mapping[str, Any]  # an endpoint as endpoints.json holds it

MEANING = {
    "H_cur": "mean reciprocal rank of old facts among all entities",
    "H_old": "the same answers ranked among the old entities only",
    "D_MCI": "what newcomers cost old facts: H_old − H_cur",
    "A_TN": "mean reciprocal rank of facts whose answer is a newcomer",
    "A_QN": "mean reciprocal rank of queries about a newcomer",
}
"""The endpoints that people are shown, in their order, with the words for each."""

MARK = "†"
MEAN_OVER_EXISTING, EMPTY_CELLS = "mean_over_existing_cells", "empty_cells"
"""Beside the null of an undefined endpoint in endpoints.json, where at least one cell holds a query."""


@dataclass(frozen=True, slots=True)
class Cell:
    update: int
    side: Side
    size: int
    value: float

    def to_json(self) -> dict[str, Any]:
        return {"update": self.update, "side": self.side.label, "size": self.size, "value": self.value}


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    value: float
    cells: tuple[Cell, ...]

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "cells": [cell.to_json() for cell in self.cells]}


@dataclass(frozen=True, slots=True)
class Undefined:
    """An endpoint with an empty declared cell: a reason instead of a value, and its other cells."""

    name: str
    reason: str
    cells: tuple[Cell, ...] = ()  # those that hold a query
    empty: tuple[CellKey, ...] = ()

    @property
    def mean_over_existing(self) -> float | None:
        """The mean over the cells that hold a query. It is not the endpoint and has a name of its own."""
        return math.fsum(cell.value for cell in self.cells) / len(self.cells) if self.cells else None

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"value": None, "reason": self.reason}
        if self.cells:
            told[MEAN_OVER_EXISTING] = self.mean_over_existing
            told["cells"] = [cell.to_json() for cell in self.cells]
            told[EMPTY_CELLS] = [{"update": update, "side": side.label} for update, side in self.empty]
        return told


def cell_keys(updates: Iterable[int], sides: Sequence[Side] = SIDES) -> tuple[CellKey, ...]:
    """The declared cells of an endpoint: every update with every side."""
    return tuple((update, side) for update in updates for side in sides)


def key(name: str, metric: str = MRR) -> str:
    """How an endpoint is called in endpoints.json: `H_cur` for MRR, `H_cur_hits@10` beside it."""
    return name if metric == MRR else f"{name}_{metric}"


def measure(rank: RankArray, metric: str = MRR) -> float:
    """The mean of a metric over ranks. fsum: the order of the queries cannot change a bit."""
    if not len(rank):
        raise EmptyCellError(f"{metric} of no query at all does not exist. Give at least one rank.")
    if not np.isfinite(rank).all() or rank.min() < 1:
        raise NonFiniteError(f"{metric} needs ranks of 1 and more, but one is {rank.min()}.")
    if metric == MRR:
        return sum_of_reciprocals(rank) / len(rank)
    return float(np.count_nonzero(rank <= hits_depth(metric))) / len(rank)


def hits_depth(metric: str) -> int:
    name, _, depth = metric.partition("@")
    if name != "hits" or not depth.isdecimal():
        raise ValueError(f"unknown metric {metric!r}: use one of {', '.join(METRICS)}")
    return int(depth)


def endpoint(name: str, ranks: Iterable[Ranks], *, cells: Cells | None = None, metric: str = MRR) -> Endpoint:
    """One endpoint over its declared cells (default: those of `ranks`); an empty cell raises."""
    found = _endpoint(name, *_by_cell(ranks, cells), metric)
    if isinstance(found, Undefined):
        raise EmptyCellError(found.reason)
    return found


def endpoints(
    ranks: Iterable[Ranks], *, cells: Cells | None = None, metrics: Sequence[str] = METRICS
) -> dict[str, Endpoint | Undefined]:
    """Every endpoint, MRR and Hits@k; one that is undefined says why instead of raising."""
    ranked = _by_cell(ranks, cells)
    return {key(name, metric): _endpoint(name, *ranked, metric) for metric in metrics for name in ENDPOINTS}


def to_json(by_split: Mapping[str, Mapping[str, Endpoint | Undefined]]) -> dict[str, Any]:
    """The content of endpoints.json: split -> endpoint -> value and cells."""
    return {
        str(split): {name: found.to_json() for name, found in chosen.items()}
        for split, chosen in by_split.items()
    }


def _by_cell(ranks: Iterable[Ranks], cells: Cells | None) -> tuple[dict[CellKey, Ranks], tuple[CellKey, ...]]:
    """The ranks of each cell, and the declared cells."""
    ranked: dict[CellKey, Ranks] = {}
    for each in ranks:
        cell = (each.occurrences.update, each.occurrences.side)
        if cell in ranked:
            raise ValueError(f"update {cell[0]}, side {cell[1].label} was given twice")
        ranked[cell] = each
    return ranked, tuple(ranked if cells is None else ((update, Side.of(side)) for update, side in cells))


def _endpoint(name: str, ranked: Ranked, cells: tuple[CellKey, ...], metric: str) -> Endpoint | Undefined:
    if name == DISPLACEMENT:
        return _displacement(ranked, cells, metric)
    named = key(name, metric)
    if not cells:
        return Undefined(named, f"{named} is undefined: no cell was declared. Name an update and a side.")
    built: list[Cell] = []
    empty: dict[CellKey, str] = {}
    for cell in cells:
        try:
            built.append(_cell(name, ranked.get(cell), cell, metric))
        except EmptyCellError as error:
            empty[cell] = str(error)
    if empty:
        return Undefined(named, next(iter(empty.values())), tuple(built), tuple(empty))
    return Endpoint(named, math.fsum(cell.value for cell in built) / len(built), tuple(built))


def _displacement(ranked: Ranked, cells: tuple[CellKey, ...], metric: str) -> Endpoint | Undefined:
    """D_MCI = H_old - H_cur (Eq. dmci), so that the three always add up."""
    old, cur = (_endpoint(name, ranked, cells, metric) for name in ("H_old", "H_cur"))
    named = key(DISPLACEMENT, metric)
    built = tuple(
        Cell(a.update, a.side, a.size, a.value - b.value) for a, b in zip(old.cells, cur.cells, strict=True)
    )
    if isinstance(old, Endpoint) and isinstance(cur, Endpoint):
        return Endpoint(named, old.value - cur.value, built)
    missing = next(each for each in (old, cur) if isinstance(each, Undefined))
    return Undefined(named, missing.reason.replace(missing.name, named, 1), built, missing.empty)


def _cell(name: str, ranks: Ranks | None, cell: CellKey, metric: str) -> Cell:
    role, universe = QUANTITIES[name]
    update, side = cell
    undefined = f"{key(name, metric)} is undefined: its cell update {update}, side {side.label}"
    if ranks is None:
        raise EmptyCellError(f"{undefined} was not ranked.")
    rank = getattr(ranks, universe)[ranks.occurrences.role == role]
    if not len(rank):
        raise EmptyCellError(f"{undefined} holds no {role.label.replace('_', '-')} query.")
    return Cell(update, side, len(rank), measure(rank, metric))


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
    """The mean of each update over its sides; an update without a query is absent."""
    values: dict[int, list[float]] = defaultdict(list)
    for cell in endpoint.get("cells", ()):
        values[int(cell["update"])].append(float(cell["value"]))
    empty = [int(cell["update"]) for cell in endpoint.get(EMPTY_CELLS, ())]
    return {
        update: Overall(sum(found) / len(found), len(found), len(found) + empty.count(update))
        for update, found in values.items()
    }


def note(counted: Iterable[tuple[str, Overall]]) -> str:
    """The footnote that explains marked numbers; empty if none is marked."""
    told = ", ".join(f"{name} {found.counted}" for name, found in counted if found.partial)
    return told and f"{MARK} over the cells that exist ({told}); the others hold no query."
