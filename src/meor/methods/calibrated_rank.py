"""Ranks of calibrated scores: each admission cohort has its own positive factor and offset.

A candidate of cohort c scores alpha_c s + o_c. Since alpha_c > 0, it precedes the answer exactly when its
raw score exceeds a threshold that depends on the cohort alone; so exact raw counts serve, slice by slice.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from meor.backbone.base import GAMMA, Geometry, Model
from meor.compiled import kernel, share
from meor.errors import NonFiniteError
from meor.evaluation.rank import Ranks
from meor.evaluation.tally import queries_of, wide_rows
from meor.search.counting import count_range
from meor.search.exact import tiles
from meor.search.queries import Queries
from meor.search.screen import Candidates
from meor.stream.occurrence import EvaluationFilter, Occurrences
from meor.typing import Floats, Ids

BLOCK = 512  # queries scored at a time; a constant, so that no budget changes a sum


@dataclass(frozen=True, slots=True)
class Affine:
    """alpha and offset of each query (row) for each admission cohort (column)."""

    alpha: Floats  # [Q, C]
    offset: Floats  # [Q, C]

    def select(self, chosen: Ids) -> Affine:
        return Affine(self.alpha[chosen], self.offset[chosen])


@dataclass(frozen=True, slots=True)
class Universe:
    """Rows of E_u prepared once, and where each admission cohort begins and ends."""

    model: Model
    bounds: tuple[int, ...]  # cohort c is bounds[c]..bounds[c + 1] - 1
    candidates: Candidates
    known: EvaluationFilter

    @classmethod
    def of(cls, model: Model, entity_counts: tuple[int, ...], known: EvaluationFilter) -> Universe:
        rows = wide_rows(model, slice(0, entity_counts[-1]))
        if not np.isfinite(rows).all():
            raise NonFiniteError(
                "An entity row is not finite, so nothing can be ranked. Look at the weights."
            )
        return cls(
            model, (0, *entity_counts), Candidates.prepare(model.backbone.scoring, rows, counted=True), known
        )

    @property
    def n_cohorts(self) -> int:
        return len(self.bounds) - 1

    @property
    def constant(self) -> float:
        """TransE's gamma: exact scores leave it out, but a factor multiplies it."""
        return GAMMA if self.candidates.scoring is Geometry.L1 else 0.0

    def cohort_of(self, entity: Ids) -> Ids:
        return np.searchsorted(np.array(self.bounds[1:]), entity, side="right")

    def raw_scores(self, query_QW: Floats, begin: int, end: int) -> Floats:
        """[Q, E] scores of a range of candidates, without the constant."""
        backbone, rows = self.model.backbone, self.candidates.row[begin:end]
        if backbone.geometry is not None:
            product = backbone.compare_all(torch.from_numpy(query_QW), torch.from_numpy(rows))
            return np.asarray(product.numpy() - self.constant)
        score = np.empty((len(query_QW), len(rows)))
        for own, part, found in tiles(backbone, query_QW, rows):
            score[own, part] = found
        return score

    def queries(self, asked: Occurrences) -> Queries:
        return queries_of(self.model, asked, self.known)

    def threshold(
        self, own_alpha: Floats, own_offset: Floats, alpha: Floats, offset: Floats, answer_score: Floats
    ) -> Floats:
        """The raw score that ties with the answer. With the same transform it is the answer's own."""
        calibrated = own_alpha * (answer_score + self.constant) + own_offset
        needed = (calibrated - offset) / alpha - self.constant
        return np.where((own_alpha == alpha) & (own_offset == offset), answer_score, needed)


def calibrated_ranks(universe: Universe, asked: Occurrences, affine: Affine) -> Ranks:
    """Filtered ranks of calibrated scores in both universes, ties by id."""
    ahead = cohort_counts(universe, asked, affine)
    old = 1 + ahead[:, :-1].sum(1)
    cur = old + ahead[:, -1]
    return Ranks(asked, np.where(asked.answer < universe.bounds[-2], old, 0), cur)


def cohort_counts(universe: Universe, asked: Occurrences, affine: Affine) -> Ids:
    """[Q, C] candidates of each cohort that precede the answer."""
    ahead = np.zeros((len(asked), universe.n_cohorts), np.int64)
    for first in range(0, len(asked), BLOCK * 16):
        part = np.arange(first, min(first + BLOCK * 16, len(asked)))
        some = asked.select(part)
        queries = universe.queries(some)
        mine = affine.select(part)
        row, own = np.arange(len(part)), universe.cohort_of(some.answer)
        own_alpha, own_offset = mine.alpha[row, own], mine.offset[row, own]
        for cohort in range(universe.n_cohorts):
            begin, end = universe.bounds[cohort], universe.bounds[cohort + 1]
            needed = universe.threshold(
                own_alpha, own_offset, mine.alpha[:, cohort], mine.offset[:, cohort], queries.threshold
            )
            tally, _ = count_range(universe.candidates, queries.asking(needed), begin, end)
            ahead[part, cohort] = tally[:, 0] + tally[:, 1]
    return ahead


@kernel
def _count_above(begin, end, tile, first, threshold_QT, known, count_QT):
    """[Q, T] candidates of a tile above each threshold; known answers do not count."""
    for q in range(begin, end):
        line = tile[q]
        for at in range(known.start[q], known.end[q]):
            if first <= known.id[at] < first + len(line):
                line[known.id[at] - first] = -np.inf
        for t in range(threshold_QT.shape[1]):
            needed, number = threshold_QT[q, t], 0
            for c in range(len(line)):
                number += line[c] > needed
            count_QT[q, t] = number


def counts_under(
    universe: Universe,
    queries: Queries,
    cohort: int,
    threshold_QT: Floats,
    *,
    inclusive: bool,
) -> Ids:
    """[Q, T] candidates of a cohort above each of many thresholds: scored once for all of them.

    The answer must not belong to the cohort. `inclusive` counts ties too: for cohorts whose ids are all
    below the answer's.
    """
    begin, end = universe.bounds[cohort], universe.bounds[cohort + 1]
    count = np.zeros(threshold_QT.shape, np.int64)
    needed_QT = np.nextafter(threshold_QT, -np.inf) if inclusive else threshold_QT
    for first in range(0, len(queries), BLOCK):
        part = slice(first, min(first + BLOCK, len(queries)))
        tile = universe.raw_scores(queries.row[part], begin, end)
        known = queries.known.select(part)
        share(_count_above, len(tile), tile, begin, needed_QT[part], known, count[part])
    return count
