"""Penalty records: what the penalty saw at each occurrence, at given weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from meor.backbone.base import Model
from meor.methods.comparison import Comparison
from meor.methods.frozen import Frozen, freeze
from meor.methods.scale import Scale
from meor.methods.sparse import Tiles, sparse_pressures
from meor.typing import Floats, Ids


@dataclass(frozen=True, slots=True)
class Records:
    """Rows follow the occurrences of the cohort; what is not eligible has no pressure (NaN)."""

    comparison: Comparison
    scale: Scale
    answer_score: Floats  # [X]
    new: Floats  # [X] U of the newcomers
    reference: Floats  # [X] the mean old reference, also where the variant does not subtract it
    dropped: int

    @property
    def eligible(self) -> NDArray[np.bool_]:
        return self.comparison.eligible

    @property
    def excess(self) -> Floats:
        """[X] what is penalised: newcomer pressure beyond the reference (uncentered: all of it)."""
        return np.maximum(self.new - self.reference if self.comparison.variant.centered else self.new, 0.0)

    @property
    def active(self) -> NDArray[np.bool_]:
        return np.asarray(self.eligible & (self.excess > 0))

    def active_share(self, index: Ids | None = None) -> float:
        """The share of eligible occurrences (among the given ones) with an excess; 0 if there are none."""
        chosen = np.arange(len(self.new)) if index is None else index
        chosen = chosen[self.eligible[chosen]]
        return float(self.active[chosen].mean()) if len(chosen) else 0.0


def penalty_records(comparison: Comparison, model: Model, held: Frozen | None = None) -> Records:
    """Every quantity of Eq. meor at the weights of a model, for all occurrences of an update.

    `held` are the constants of the update where a penalty has made them already (with its references).
    """
    cohort = comparison.cohort
    centered = replace(comparison, variant=replace(comparison.variant, centered=True))
    frozen = held or freeze(centered, model.backbone, model.entity, model.relation)
    rows = model.entity[cohort.n_old : cohort.n_cur].detach().cpu().numpy()
    tiles = Tiles.of(rows, frozen.scoring, comparison.settings.memory)
    new = np.full(len(cohort), np.nan)
    index = np.flatnonzero(comparison.eligible)
    size = max(1, comparison.settings.memory // (24 * max(cohort.n_new, 1)))
    for begin in range(0, len(index), size):
        part = index[begin : begin + size]
        new[part] = sparse_pressures(comparison, frozen, tiles, part).value
    reference = np.where(comparison.eligible, frozen.reference, np.nan)
    return Records(comparison, frozen.scale, frozen.queries.threshold, new, reference, frozen.dropped)
