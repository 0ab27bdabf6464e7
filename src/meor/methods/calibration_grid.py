"""The grid of calibration, and the choice in it by the finest group with enough validation queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from meor.typing import SIDES, Floats, Ids, Side

ALPHAS: Final = (0.5, 0.75, 1.0, 1.25, 1.5)
OFFSETS: Final = (-1.0, -0.5, 0.0, 0.5, 1.0)
GRID: Final = tuple((alpha, offset) for alpha in ALPHAS for offset in OFFSETS)
IDENTITY: Final = GRID.index((1.0, 0.0))
MARGIN: Final = 0.005
ENOUGH: Final = 5

LEVELS: Final = ("relation", "side", "cohort", "identity")
"""Where coefficients came from: (cohort, relation, side), (cohort, side), cohort, or nowhere."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients of one admission cohort for every side (row) and relation (column)."""

    cohort: int
    alpha: Floats  # [2, R]
    offset: Floats  # [2, R] g, in units of the validation scale
    level: NDArray[np.int8]  # [2, R] index into LEVELS
    n_historical: Ids  # [2, R] validation queries of the group that decided
    n_target: Ids  # [2, R]


@dataclass(frozen=True, slots=True)
class Tried:
    """Reciprocal ranks of one side's validation queries under every transform of the grid."""

    historical_relation: Ids  # [H]
    historical: Floats  # [H, T]
    target_relation: Ids  # [N]
    target: Floats  # [N, T]
    target_raw: Floats  # [N] of raw replay scores


def grid_at(tau: Floats) -> tuple[Floats, Floats]:
    """[1, T] factors and [Q, T] offsets; without a scale every transform is the identity."""
    alpha = np.array([[pair[0] for pair in GRID]])
    offset = np.array([[pair[1] for pair in GRID]])
    there = (tau > 0)[:, None]
    return np.where(there, alpha, 1.0), offset * tau[:, None]


def choose(cohort: int, tried: Sequence[Tried], n_relations: int) -> Fit:
    """The finest group with enough queries decides: relation and side, side, or the whole cohort."""
    alpha, offset = np.ones((2, n_relations)), np.zeros((2, n_relations))
    level = np.full((2, n_relations), LEVELS.index("identity"), np.int8)
    size = np.zeros((2, 2, n_relations), np.int64)

    def settle(where: tuple[slice | Side, slice | int], name: str, parts: Iterable[Tried]) -> None:
        group = list(parts)
        historical = np.concatenate([part.historical for part in group])
        target = np.concatenate([part.target for part in group])
        raw = np.concatenate([part.target_raw for part in group])
        if len(historical) < ENOUGH or len(target) < ENOUGH:
            return
        best = GRID[best_transform(historical, target, raw)]
        alpha[where], offset[where] = best
        level[where] = LEVELS.index(name)
        size[0][where], size[1][where] = len(historical), len(target)

    settle((slice(None), slice(None)), "cohort", tried)
    for side in SIDES:
        one = tried[side]
        settle((side, slice(None)), "side", [one])
        for relation in np.intersect1d(one.historical_relation, one.target_relation):
            h, t = one.historical_relation == relation, one.target_relation == relation
            part = Tried(
                one.historical_relation[h],
                one.historical[h],
                one.target_relation[t],
                one.target[t],
                one.target_raw[t],
            )
            settle((side, int(relation)), "relation", [part])
    return Fit(cohort, alpha, offset, level, size[0], size[1])


def best_transform(historical: Floats, target: Floats, target_raw: Floats) -> int:
    """Among transforms that keep newcomers within the margin of replay, the best for old facts.

    On a tie the identity wins. If no transform keeps the margin, the identity is used.
    """
    kept = target.mean(0) >= target_raw.mean() - MARGIN
    if not kept.any():
        return IDENTITY
    value = np.where(kept, historical.mean(0), -np.inf)
    return IDENTITY if value[IDENTITY] == value.max() else int(value.argmax())
