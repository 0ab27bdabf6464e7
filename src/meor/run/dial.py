"""Dial a finished run: the curve of its endpoints over a scale of newcomers' rows, and a run at one point.

Newcomers are all entities after snapshot 0, and share one scale. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meor.errors import RunError
from meor.evaluation.dial import (
    Asking,
    DialledRanks,
    checked,
    dial_update,
    require_bilinear,
    require_room,
    spread,
)
from meor.evaluation.endpoints import MEANING, MRR, Endpoint, Undefined, cell_keys, endpoints, overall
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.methods import METHODS
from meor.run.prepare import host_of
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.training.host import Update
from meor.typing import Side, Split

MARGIN = 0.005
"""How much A_TN may fall where H_cur is chosen (as for a validated coefficient)."""

Point = dict[str, Endpoint | Undefined]


@dataclass(frozen=True, slots=True)
class Dial:
    """The endpoints of a run at each scale, on facts of one split."""

    split: Split
    filter_splits: tuple[Split, ...]
    sample: int
    scales: tuple[float, ...]  # ascending
    points: tuple[Point, ...]

    def values(self, name: str) -> list[float | None]:
        """One endpoint over the scales: its value, else its mean over the cells that exist, else None."""
        return [overall(point[name].to_json()).value for point in self.points]

    def safest(self) -> float | None:
        """The scale with the highest H_cur whose A_TN is at most .005 below that of the rows as they are."""
        if 1.0 not in self.scales:
            return None
        kept, gained = self.values("H_cur"), self.values("A_TN")
        least = gained[self.scales.index(1.0)]
        fair = [
            (old, scale)
            for old, new, scale in zip(kept, gained, self.scales, strict=True)
            if None not in (old, new, least) and new >= least - MARGIN  # type: ignore[operator]
        ]
        return max(fair)[1] if fair else None  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        return {
            "split": self.split.value,
            "filter_splits": [split.value for split in self.filter_splits],
            "sample": self.sample,
            "points": [
                {"scale": scale, **{name: point[name].to_json() for name in MEANING}}
                for scale, point in zip(self.scales, self.points, strict=True)
            ],
        }


def dial(
    run: RunView | Path | str,
    *,
    scales: Iterable[float] | None = None,
    split: Split | str = Split.VALID,
    stream: Stream | None = None,
    memory: int = DEFAULT_MEMORY,
    say: Callable[[str], object] = lambda _: None,
) -> Dial:
    """The curve of a run, from one pass over the scores of each update.

    Validation facts are filtered by positives of train and valid alone, since a scale is to be chosen by
    them; test facts are filtered as the run says.
    """
    view = run if isinstance(run, RunView) else RunView.open(Path(run))
    require_dialable(view)
    grid, split = checked(spread() if scales is None else scales), Split.of(split)
    stream = stream or view.stream()
    chosen = view.config.evaluation
    names = chosen.filter_splits if split is Split.TEST else chosen.selection_filter
    sides = tuple(Side[name.upper()] for name in chosen.sides)
    updates = list(stream.updates) if chosen.updates is None else sorted(chosen.updates)
    asking = Asking(split, sides, tuple(Split(name) for name in names), chosen.sample, memory)
    asking = replace(asking, memory=require_room(stream, updates, len(grid), asking))
    ranked: list[DialledRanks] = []
    last: tuple[DialledRanks, ...] = ()
    for update in updates:
        say(f"update {update} of {updates[-1]}: ranking at {len(grid)} scales")
        model = view.model(update)
        require_bilinear(model)
        carries = update - 1 in updates and _freezes_old_rows(view, stream, update)
        last = dial_update(stream, model, update, grid, asking, previous=last if carries else ())
        ranked += last
    say("endpoints")
    cells = cell_keys(updates, sides)
    points = [
        endpoints([each.at(point) for each in ranked], cells=cells, metrics=(MRR,))
        for point in range(len(grid))
    ]
    return Dial(split, asking.filter_splits, chosen.sample, tuple(map(float, grid)), tuple(points))


def require_dialable(view: RunView) -> None:
    """A finished run whose ranks are those of its rows."""
    if not view.complete:
        raise RunError(f"{view.path} is unfinished. Go on with `meor resume {view.path}`.")
    if METHODS[view.config.method].kind == "transform":
        raise RunError(
            f"{view.path} ranks by transformed scores ({view.config.method}), which no scale of rows gives. "
            "Dial the run that its rows come from."
        )
    if view.config.dial is not None:
        raise RunError(
            f"{view.path} was dialled to {view.config.dial:g} already. Dial the run that it was made from."
        )


def _freezes_old_rows(view: RunView, stream: Stream, update: int) -> bool:
    coming = Update.of(stream, update)
    return host_of(view.config).first_rows(coming) == (coming.n_old, coming.m_old)
