"""The penalty where old rows move: queries, answers and references change with every step.

Every score in it has a gradient, but it is 0 for candidates at or below the answer, and for queries without
an excess. So kernels score everything, a graph of single numbers says what each pair contributes, and only
pairs that contribute reach the rows. `dense.py` is its reference.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Backbone
from meor.evaluation.tally import candidate_rows
from meor.methods.above import above_answers
from meor.methods.comparison import Comparison, require_finite
from meor.methods.equations import SHIFT_ABOVE, gaps, mean_reference, squared_hinge
from meor.methods.frozen import query_rows
from meor.methods.moving_scale import MovingScale
from meor.methods.pairs import Pairs, through_rows
from meor.search.exact import exact_scores
from meor.search.screen import Candidates
from meor.training.loss import Embedding
from meor.typing import Floats, Ids


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
    size, total, pairs = max(1, comparison.settings.memory // each), 0.0, list[Pairs]()
    for begin in range(0, len(index), size):
        part, tau = index[begin : begin + size], tau_Q[begin : begin + size]
        excess, some = _excess(comparison, candidates, query_XW[part], part, tau)
        if excess > 0:
            total += excess
            pairs.append(some.times(1.0 / len(index)))
    if not pairs:
        return entity.data.new_zeros(())
    return through_rows(total / len(index), backbone, entity, relation, candidates.row, pairs)


def _excess(
    comparison: Comparison, candidates: Candidates, query_QW: Floats, part: Ids, tau_Q: Floats
) -> tuple[float, Pairs]:
    """The sum of squared excesses of some occurrences, and what every pair contributes to it."""
    cohort, settings = comparison.cohort, comparison.settings
    column_QC, size_QG, slot_C = comparison.columns(part)
    answer = cohort.answer[part]
    answer_score = exact_scores(candidates.scoring, query_QW, candidates.row, answer)
    require_finite(cohort, answer_score, part)
    query, column, score = above_answers(cohort, candidates, query_QW, part, answer_score, column_QC)
    of_P, group = torch.from_numpy(query), query * size_QG.shape[1] + slot_C[column]
    with torch.enable_grad():
        answer_Q, score_P = (torch.from_numpy(each).requires_grad_() for each in (answer_score, score))
        gap_P = gaps(score_P[:, None], answer_Q[of_P], torch.from_numpy(tau_Q)[of_P])[:, 0]
        new_Q, reference_Q = _pressures(comparison, gap_P, group, torch.from_numpy(size_QG))
        kept_Q = reference_Q.detach() if settings.detach_reference else reference_Q
        total = squared_hinge(new_Q, kept_Q) * len(part)
        by_answer, by_score = torch.autograd.grad(total, (answer_Q, score_P))
    who = np.concatenate([np.arange(len(part)), query]), np.concatenate([answer, column_QC[query, column]])
    weight = torch.cat([by_answer, by_score]).numpy()
    return float(total.detach()), Pairs.of(cohort, part, query_QW, *who, weight)


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
