"""The penalty where old rows move: queries, answers and references change with every step.

Every score in it has a gradient, but it is 0 for candidates at or below the answer, and for queries without
an excess. So kernels score everything, and only what is left enters the graph. `dense.py` is its reference.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Backbone, Geometry
from meor.cohort.newcomers import Cohort
from meor.compiled import fast_kernel, kernel, share
from meor.evaluation.tally import candidate_rows
from meor.methods.above import above_answers
from meor.methods.comparison import Comparison, require_finite
from meor.methods.equations import SHIFT_ABOVE, gaps, mean_reference, squared_hinge
from meor.methods.frozen import query_rows
from meor.methods.moving_scale import MovingScale
from meor.search.exact import exact, exact_scores
from meor.search.screen import Candidates
from meor.training.loss import Embedding, grouped
from meor.typing import SIDES, Floats, Ids


def moving_penalty(
    comparison: Comparison,
    backbone: Backbone,
    entity: Embedding,
    relation: Embedding,
    index: Ids,
    scale: MovingScale,
) -> Tensor:
    """L_MEOR (Eq. meor), differentiable in all trained rows; a 0 without a graph where nothing is active."""
    cohort, draws = comparison.cohort, comparison.settings.draws
    row_EW = candidate_rows(backbone, entity.data[: cohort.n_cur])
    query_XW = query_rows(cohort, np.arange(len(cohort)), backbone, entity.data, relation.data)
    tau_Q = scale.tau(query_XW, row_EW, index)
    candidates = Candidates.prepare(backbone.scoring, row_EW, coarse=True)
    each = 32 * (1 + draws) * max(cohort.n_new, 1) + 8 * cohort.n_cur
    size, found = max(1, comparison.settings.memory // each), []
    for begin in range(0, len(index), size):
        part, tau = index[begin : begin + size], tau_Q[begin : begin + size]
        outranking = _outranking(comparison, candidates, query_XW[part], part, tau)
        if outranking is not None:
            found.append(_excess(comparison, backbone, entity, relation, outranking))
    if not found:
        return entity.data.new_zeros(())
    return torch.stack(found).sum() / len(index)


@dataclass(frozen=True, slots=True)
class _Outranking:
    """The candidates above the answers of some active occurrences. Groups: newcomers, then each draw."""

    index: Ids  # [Q] occurrences
    tau: Tensor  # [Q]
    query: Ids  # [P] place in `index`
    group: Ids  # [P] query * (1 + J) + (0: newcomers, 1 + j: draw j)
    entity: Ids  # [P]
    size: Tensor  # [Q, 1 + J] members of each group, those at or below the answer included
    reference: Tensor  # [Q] the mean old reference, without a graph


def _outranking(
    comparison: Comparison, candidates: Candidates, query_QW: Floats, part: Ids, tau_Q: Floats
) -> _Outranking | None:
    """The candidates above the answers of active occurrences; None if no occurrence is active."""
    cohort, variant = comparison.cohort, comparison.variant
    column_QC, size_QG, slot_C = comparison.columns(part)
    answer_Q = exact_scores(candidates.scoring, query_QW, candidates.row, cohort.answer[part])
    require_finite(cohort, answer_Q, part)
    query, column, score = above_answers(cohort, candidates, query_QW, part, answer_Q, column_QC)
    apart = (score - answer_Q[query]) / tau_Q[query]
    group, size = query * size_QG.shape[1] + slot_C[column], torch.from_numpy(size_QG)
    new_Q, reference_Q = _pressures(comparison, torch.from_numpy(apart), group, size)
    active = (new_Q > reference_Q).numpy()
    if not active.any():
        return None
    keep = active[query]
    if comparison.settings.detach_reference or not variant.centered:
        keep &= slot_C[column] == 0
    place = np.cumsum(active) - 1
    query, group = place[query[keep]], slot_C[column[keep]] + place[query[keep]] * size_QG.shape[1]
    return _Outranking(
        part[active],
        torch.from_numpy(tau_Q[active]),
        query,
        group,
        column_QC[np.nonzero(active)[0][query], column[keep]],
        size[torch.from_numpy(active)],
        reference_Q[torch.from_numpy(active)],
    )


def _pressures(comparison: Comparison, gap_P: Tensor, group: Ids, size_QG: Tensor) -> tuple[Tensor, Tensor]:
    """U or V of the newcomers and the mean old reference, from the gaps above the answer alone."""
    of_P, size_G = torch.from_numpy(group), size_QG.flatten()
    if comparison.variant.aggregate == "max":
        value_G = gap_P.new_zeros(len(size_G)).scatter_reduce(0, of_P, gap_P, "amax")
    else:
        value_G = _smooth(comparison.settings.beta * gap_P, of_P, size_G) / comparison.settings.beta
    value_QG = value_G.view(size_QG.shape)
    if size_QG.shape[1] == 1:
        return value_QG[:, 0], torch.zeros_like(value_QG[:, 0])
    return value_QG[:, 0], mean_reference(value_QG[:, 1:], size_QG[:, 1:])


def _smooth(tail_P: Tensor, of_P: Tensor, size_G: Tensor) -> Tensor:
    """beta U_beta (Eq. aggregate) of groups whose other members have a gap of 0; see `equations`."""
    top_G = tail_P.detach().new_zeros(len(size_G)).scatter_reduce(0, of_P, tail_P.detach(), "amax")
    shift_G = torch.relu(top_G - SHIFT_ABOVE)
    others_G = size_G - torch.bincount(of_P, minlength=len(size_G))
    total_G = others_G * torch.expm1(-shift_G)
    total_G = total_G.index_add(0, of_P, torch.expm1(tail_P - shift_G[of_P]))
    return shift_G + torch.log1p(total_G / size_G.clamp(min=1))


def _excess(
    comparison: Comparison, backbone: Backbone, entity: Embedding, relation: Embedding, found: _Outranking
) -> Tensor:
    """The sum of squared excesses of active occurrences, with a graph."""
    cohort = comparison.cohort
    answer, anchor = cohort.answer[found.index], cohort.anchor[found.index]
    ids, local = np.unique(np.concatenate([anchor, answer, found.entity]), return_inverse=True)
    # Rows are taken once: each taking would give a gradient of the size of the whole table.
    table = entity.whole() if entity.first else entity.trained
    row_UW = table.index_select(0, torch.from_numpy(ids))
    anchor_row = row_UW[torch.from_numpy(local[: len(anchor)])]
    query_QW = _queries(cohort, backbone, anchor_row, relation, found.index)
    pair = np.concatenate([np.arange(len(answer)), found.query]), local[len(anchor) :]
    score = _scores(backbone, query_QW, row_UW, *pair)
    answer_Q, score_P = score[: len(answer)], score[len(answer) :]
    of_P = torch.from_numpy(found.query)
    tau = found.tau.to(score)
    gap_P = gaps(score_P[:, None], answer_Q[of_P], tau[of_P])[:, 0]
    new_Q, reference_Q = _pressures(comparison, gap_P, found.group, found.size)
    if comparison.settings.detach_reference:
        reference_Q = found.reference.to(score)
    return squared_hinge(new_Q, reference_Q) * len(new_Q)


def _queries(
    cohort: Cohort, backbone: Backbone, anchor_QW: Tensor, relation: Embedding, index: Ids
) -> Tensor:
    rows, places = [], []
    for side in SIDES:
        on = torch.from_numpy(np.flatnonzero(cohort.side[index] == side))
        of = torch.from_numpy(cohort.relation[index])[on]
        rows.append(backbone.query(anchor_QW[on], relation.whole()[of], side))
        places.append(on)
    return torch.cat(rows)[torch.argsort(torch.cat(places))]


def _scores(backbone: Backbone, query_QW: Tensor, row_UW: Tensor, query: Ids, row: Ids) -> Tensor:
    """[P] scores of pairs, up to TransE's constant, which no gap has."""
    if backbone.geometry is None:
        return backbone.compare(query_QW[torch.from_numpy(query)], row_UW[torch.from_numpy(row)])
    is_dot, candidate_UW = backbone.geometry is Geometry.DOT, backbone.candidate(row_UW)
    return _PairScores.apply(query_QW, candidate_UW, is_dot, query, row)  # type: ignore[no-any-return]


class _PairScores(torch.autograd.Function):
    """Scores of a list of pairs; rows of pairs are never copied."""

    @staticmethod
    def forward(context: Any, query_QW: Tensor, row_UW: Tensor, is_dot: bool, query: Ids, row: Ids) -> Tensor:
        tables = (
            query_QW.detach().double().contiguous().numpy(),
            row_UW.detach().double().contiguous().numpy(),
        )
        context.held = is_dot, tables, (query, row), query_QW.dtype
        score = np.empty(len(query))
        share(_score_pairs, len(query), is_dot, *tables, query, row, score)
        return torch.from_numpy(score).to(query_QW.dtype)

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        is_dot, tables, pair, dtype = context.held
        weight = upstream[0].double().contiguous().numpy()
        gradients = []
        for own, other in ((0, 1), (1, 0)):
            gradient = np.zeros_like(tables[own])
            start, entry = grouped(pair[own], 0, len(gradient))
            told = is_dot, tables[own], tables[other], pair[other], weight, start, entry
            share(_pull_rows, len(gradient), *told, gradient)
            gradients.append(torch.from_numpy(gradient).to(dtype))
        return *gradients, None, None, None


@kernel
def _score_pairs(begin, end, is_dot, query_QW, row_UW, query, row, score):
    for p in range(begin, end):
        score[p] = exact(is_dot, query_QW[query[p]], row_UW[row[p]])


@fast_kernel
def _pull_rows(begin, end, is_dot, own, other, partner, weight, start, entry, gradient):
    """Rows of one table: what the pairs of each contribute, added in their order."""
    for row in range(begin, end):
        mine = gradient[row]
        for at in range(start[row], start[row + 1]):
            p = entry[at]
            theirs = other[partner[p]]
            for i in range(mine.shape[0]):
                if is_dot:
                    mine[i] += weight[p] * theirs[i]
                else:
                    apart = own[row, i] - theirs[i]
                    mine[i] -= weight[p] * (math.copysign(1.0, apart) if apart != 0 else 0.0)
