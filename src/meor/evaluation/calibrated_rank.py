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
from meor.backbone.counting import count_range
from meor.backbone.screen import Candidates, Questions, exact_scores
from meor.compiled import njit, prange
from meor.errors import NonFiniteError
from meor.evaluation.rank import Ranks
from meor.stream.answers import EvaluationFilter
from meor.stream.occurrence import Occurrences
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
        rows = np.ascontiguousarray(
            model.entity[: entity_counts[-1]].detach().cpu().numpy(), dtype=np.float64
        )
        if not np.isfinite(rows).all():
            raise NonFiniteError(
                "An entity row is not finite, so nothing can be ranked. Look at the weights."
            )
        return cls(model, (0, *entity_counts), Candidates.prepare(model.backbone.geometry, rows), known)

    @property
    def n_cohorts(self) -> int:
        return len(self.bounds) - 1

    @property
    def constant(self) -> float:
        """What exact scores leave out and a factor multiplies: TransE's gamma."""
        return GAMMA if self.candidates.geometry is Geometry.L1 else 0.0

    def cohort_of(self, entity: Ids) -> Ids:
        return np.searchsorted(np.array(self.bounds[1:]), entity, side="right")

    def questions(self, asked: Occurrences) -> tuple[Questions, Floats]:
        """Queries with their known answers, and the exact score of each answer."""
        row = self.model.query_array(asked.anchor, asked.relation, asked.side)
        query = np.ascontiguousarray(row, dtype=np.float64)
        index = self.known.on(asked.side)
        start, end = index.bounds(asked.anchor, asked.relation)
        answer_score = exact_scores(self.candidates.geometry, query, self.candidates.row, asked.answer)
        return Questions(query, asked.answer, start, end, index.answer), answer_score

    def threshold(
        self, own_alpha: Floats, own_offset: Floats, alpha: Floats, offset: Floats, answer_score: Floats
    ) -> Floats:
        """The raw score that ties with the answer: exactly the answer's own where both share a transform."""
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
        questions, answer_score = universe.questions(some)
        mine = affine.select(part)
        row, own = np.arange(len(part)), universe.cohort_of(some.answer)
        own_alpha, own_offset = mine.alpha[row, own], mine.offset[row, own]
        for cohort in range(universe.n_cohorts):
            begin, end = universe.bounds[cohort], universe.bounds[cohort + 1]
            needed = universe.threshold(
                own_alpha, own_offset, mine.alpha[:, cohort], mine.offset[:, cohort], answer_score
            )
            tally, _ = count_range(universe.candidates, questions, needed, begin, end)
            ahead[part, cohort] = tally[:, 0] + tally[:, 1]
    return ahead


@njit(cache=True, parallel=True)
def _count_above(tile, first, threshold_QT, start, end, known, count_QT):
    """[Q, T] candidates of a tile above each threshold; known answers do not count."""
    for q in prange(tile.shape[0]):
        line = tile[q]
        for at in range(start[q], end[q]):
            if first <= known[at] < first + len(line):
                line[known[at] - first] = -np.inf
        for t in range(threshold_QT.shape[1]):
            needed, number = threshold_QT[q, t], 0
            for c in range(len(line)):
                number += line[c] > needed
            count_QT[q, t] = number


def counts_under(
    universe: Universe,
    questions: Questions,
    cohort: int,
    threshold_QT: Floats,
    *,
    inclusive: bool,
) -> Ids:
    """[Q, T] candidates of a cohort above each of many thresholds: scored once for all of them.

    The answer must not belong to the cohort. `inclusive` counts ties: right where ids are below the answer's.
    """
    begin, end = universe.bounds[cohort], universe.bounds[cohort + 1]
    count = np.zeros(threshold_QT.shape, np.int64)
    needed_QT = np.nextafter(threshold_QT, -np.inf) if inclusive else threshold_QT
    rows = universe.model.entity[begin:end].double()
    backbone = universe.model.backbone
    for first in range(0, len(questions), BLOCK):
        part = slice(first, min(first + BLOCK, len(questions)))
        tile = backbone.compare_all(torch.from_numpy(questions.query[part]), rows).numpy() - universe.constant
        _count_above(
            tile,
            begin,
            needed_QT[part],
            questions.known_start[part],
            questions.known_end[part],
            questions.known_id,
            count[part],
        )
    return count
