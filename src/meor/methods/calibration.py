"""Persistent admission-cohort calibration: a post-hoc control that trains nothing (decision 36).

Cohort c is fitted when it is admitted, on validation facts, with the transforms of earlier cohorts
applied; then its coefficients are kept, and later updates multiply its offset by their own scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from meor.backbone.base import Model
from meor.cohort.newcomers import SCALE_SAMPLE, build_cohort
from meor.evaluation.rank import Ranks
from meor.evaluation.tally import wide_rows
from meor.methods.calibrated_rank import Affine, Universe, calibrated_ranks, cohort_counts, counts_under
from meor.methods.calibration_grid import GRID, LEVELS, Fit, Tried, choose, grid_at
from meor.methods.equations import EPSILON_TAU, ETA_MAD, scales
from meor.random import Address
from meor.search.exact import exact_columns
from meor.storage.parquet import column, table_bytes, table_of
from meor.stream.occurrence import ALL, EvaluationFilter, Occurrences, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Floats, Ids, Role, Side, Split

SCALE_LEVELS: Final = ("relation", "side", "update", "none")


@dataclass(frozen=True, slots=True)
class ScaleSummary:
    """tau^val of an update for every side (row) and relation (column); NaN where there is none."""

    tau: Floats  # [2, R]
    level: NDArray[np.int8]  # [2, R] index into SCALE_LEVELS


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fits of cohorts 1, 2, ... up to the last admitted; snapshot 0 keeps its scores."""

    fits: tuple[Fit, ...] = field(default=())

    def affine(self, update: int, relation: Ids, side: Side, summary: ScaleSummary) -> Affine:
        """Factors and offsets of queries at an update; raw where there is no scale."""
        alpha = np.ones((len(relation), update + 1))
        offset = np.zeros((len(relation), update + 1))
        tau = summary.tau[side, relation]
        there = np.isfinite(tau)
        for fit in self.fits:
            if fit.cohort <= update:
                alpha[there, fit.cohort] = fit.alpha[side, relation[there]]
                offset[there, fit.cohort] = fit.offset[side, relation[there]] * tau[there]
        return Affine(alpha, offset)


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Fits and applies calibration on the replay models of a run, one update after the other."""

    stream: Stream
    run: Address  # the pair's address: scale samples are those of training
    filter_splits: tuple[Split, ...] = SPLITS  # of ranks; a fit never sees a test fact
    scale_sample: int = SCALE_SAMPLE
    eta: float = ETA_MAD
    epsilon: float = EPSILON_TAU

    def summary(self, update: int, model: Model) -> ScaleSummary:
        """tau^val_{u,r,d} (Sec. Controls): medians of tau_x over historical validation occurrences."""
        parts = [self.stream.snapshots[index].valid for index in range(update)]
        fact = np.concatenate(parts)
        cohort = build_cohort(self.stream, update, fact, run=self.run, scale_sample=self.scale_sample)
        sides = [model.query_array(fact[:, side.anchor_column], fact[:, 1], side) for side in SIDES]
        query = np.stack(sides, axis=1).reshape(len(cohort), sides[0].shape[1]).astype(np.float64)
        rows = wide_rows(model, slice(0, cohort.n_old))
        score = exact_columns(model.backbone.scoring, query, rows, cohort.scale)
        tau = scales(
            score, cohort.scale_size, cohort.relation, cohort.side, eta=self.eta, epsilon=self.epsilon
        ).tau
        usable = np.isfinite(tau) & (cohort.scale_size > 0)
        return summarise(
            tau[usable], cohort.relation[usable], cohort.side[usable], len(self.stream.relations)
        )

    def admit(
        self, update: int, model: Model, earlier: Calibration, summary: ScaleSummary | None = None
    ) -> Calibration:
        """Fit the cohort of an update (Sec. Controls) and keep it beside the earlier ones."""
        summary = self.summary(update, model) if summary is None else summary
        judged_by = tuple(split for split in self.filter_splits if split is not Split.TEST)
        universe = self._universe(update, model, judged_by)
        tried = [
            self._try(universe, occurrences(self.stream, update, side, Split.VALID), earlier, summary)
            for side in SIDES
        ]
        fit = choose(update, tried, len(self.stream.relations))
        return Calibration((*earlier.fits, fit))

    def ranks(
        self,
        update: int,
        model: Model,
        calibration: Calibration,
        *,
        split: Split = Split.TEST,
        sides: Sequence[Side] = SIDES,
        summary: ScaleSummary | None = None,
        sample: int = ALL,
    ) -> tuple[Ranks, ...]:
        """Ranks of calibrated scores after an update, one `Ranks` per side."""
        summary = self.summary(update, model) if summary is None else summary
        universe = self._universe(update, model, self.filter_splits)
        found = []
        for side in sides:
            asked = occurrences(self.stream, update, side, split, sample=sample)
            affine = calibration.affine(update, asked.relation, side, summary)
            found.append(calibrated_ranks(universe, asked, affine))
        return tuple(found)

    def _universe(self, update: int, model: Model, filter_splits: tuple[Split, ...]) -> Universe:
        known = EvaluationFilter.through(self.stream, update, filter_splits)
        return Universe.of(model, self.stream.entity_counts[: update + 1], known)

    def _try(
        self, universe: Universe, asked: Occurrences, earlier: Calibration, summary: ScaleSummary
    ) -> Tried:
        update = universe.n_cohorts - 1
        historical = asked.select(asked.role == Role.HISTORICAL)
        target = asked.select(asked.role == Role.TARGET_NEWCOMER)
        affine = [earlier.affine(update, part.relation, asked.side, summary) for part in (historical, target)]
        tau = [np.nan_to_num(summary.tau[asked.side, part.relation]) for part in (historical, target)]
        by_transform, raw = _target_ranks(universe, target, affine[1], tau[1])
        return Tried(
            historical.relation,
            1.0 / _historical_ranks(universe, historical, affine[0], tau[0]),
            target.relation,
            1.0 / by_transform,
            1.0 / raw,
        )


def summarise(tau: Floats, relation: Ids, side: NDArray[np.int8], n_relations: int) -> ScaleSummary:
    """Medians by relation and side; where there is none, that of the side, then that of the update."""
    found = np.full((2, n_relations), np.nan)
    level = np.full((2, n_relations), SCALE_LEVELS.index("none"), np.int8)
    if len(tau):
        found[:], level[:] = np.median(tau), SCALE_LEVELS.index("update")
    for each in SIDES:
        here = side == each
        if here.any():
            found[each], level[each] = np.median(tau[here]), SCALE_LEVELS.index("side")
        for one in np.unique(relation[here]):
            found[each, one] = np.median(tau[here & (relation == one)])
            level[each, one] = SCALE_LEVELS.index("relation")
    return ScaleSummary(found, level)


def _historical_ranks(universe: Universe, asked: Occurrences, affine: Affine, tau: Floats) -> Ids:
    """[H, T] ranks. Only newcomers are transformed, so old candidates are counted once."""
    newest = universe.n_cohorts - 1
    old = cohort_counts(universe, asked, affine)[:, :newest].sum(1)
    queries = universe.queries(asked)
    row, own = np.arange(len(asked)), universe.cohort_of(asked.answer)
    alpha, offset = grid_at(tau)
    needed = universe.threshold(
        affine.alpha[row, own][:, None],
        affine.offset[row, own][:, None],
        alpha,
        offset,
        queries.threshold[:, None],
    )
    ahead = counts_under(universe, queries, newest, needed, inclusive=False)
    return np.asarray(1 + old[:, None] + ahead, dtype=np.int64)


def _target_ranks(universe: Universe, asked: Occurrences, affine: Affine, tau: Floats) -> tuple[Ids, Ids]:
    """[N, T] ranks, and [N] raw ones. The answer moves with its cohort, and its rank within it stays."""
    newest = universe.n_cohorts - 1
    queries = universe.queries(asked)
    among = cohort_counts(universe, asked, Affine(np.ones_like(affine.alpha), np.zeros_like(affine.offset)))
    alpha, offset = grid_at(tau)
    rank = 1 + np.repeat(among[:, newest:], len(GRID), axis=1)
    for cohort in range(newest):
        needed = universe.threshold(
            alpha,
            offset,
            affine.alpha[:, cohort, None],
            affine.offset[:, cohort, None],
            queries.threshold[:, None],
        )
        rank += counts_under(universe, queries, cohort, needed, inclusive=True)
    return rank, 1 + among.sum(1)


def calibration_bytes(fit: Fit, summary: ScaleSummary) -> bytes:
    """`calibration.parquet`: coefficients fitted at an update and its scales, per relation and side."""
    side, relation = (part.ravel() for part in np.indices(fit.alpha.shape))
    tau = summary.tau.ravel()
    table = {
        "cohort": column(np.full(len(side), fit.cohort)),
        "relation": column(relation),
        "side": column([SIDES[each].label for each in side]),
        "alpha": column(fit.alpha.ravel()),
        "g": column(fit.offset.ravel()),
        "level": column([LEVELS[each] for each in fit.level.ravel()]),
        "n_historical": column(fit.n_historical.ravel()),
        "n_target_newcomer": column(fit.n_target.ravel()),
        "tau": column(tau, missing=~np.isfinite(tau)),
        "tau_level": column([SCALE_LEVELS[each] for each in summary.level.ravel()]),
    }
    return table_bytes(table_of(table), compression_level=3)
