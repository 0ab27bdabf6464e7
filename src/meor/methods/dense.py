"""The reference path: plain torch, every score in the graph, any model and device.

It is what hosts that move old rows use, and what a user's own scoring function goes through; the faster
paths must agree with it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Backbone
from meor.cohort.newcomers import Cohort
from meor.methods.comparison import Comparison, require_finite
from meor.methods.equations import Scale, gaps, mean_reference, pressure, scales
from meor.typing import SIDES, Ids, Side

ScoreFunction = Callable[[Tensor, Tensor, Side], Tensor]
"""(anchor ids [Q], relation ids [Q], missing side) -> scores [Q, E] of every entity 0..E-1."""


def table_scores(backbone: Backbone, entity: Tensor, relation: Tensor) -> ScoreFunction:
    """The scoring function of whole tables."""

    def score(anchor: Tensor, of: Tensor, side: Side) -> Tensor:
        anchor, of = anchor.to(entity.device), of.to(entity.device)
        return backbone.compare_all(backbone.query(entity[anchor], relation[of], side), entity)

    return score


def score_all(score: ScoreFunction, cohort: Cohort, index: Ids) -> Tensor:
    """[Q, n_cur] scores of occurrences against every entity of E_u, in the order of `index`."""
    parts, order = [], []
    for side in SIDES:
        on = np.flatnonzero(cohort.side[index] == side)
        if len(on):
            anchor, relation = cohort.anchor[index[on]], cohort.relation[index[on]]
            parts.append(score(torch.from_numpy(anchor), torch.from_numpy(relation), side))
            order.append(on)
    back = np.argsort(np.concatenate(order))
    score_QE = torch.cat(parts)[torch.from_numpy(back).to(parts[0].device), : cohort.n_cur]
    require_finite(cohort, score_QE.detach().double().cpu().numpy(), index)
    return score_QE


def dense_scale(comparison: Comparison, score: ScoreFunction) -> Scale:
    """tau_x (Eq. scale) of every occurrence of the update from this step's scores, detached."""
    cohort, settings = comparison.cohort, comparison.settings
    found = np.zeros(cohort.scale.shape)
    size = max(1, settings.memory // (24 * max(cohort.n_cur, 1)))
    with torch.no_grad():
        for begin in range(0, len(cohort), size):
            part = np.arange(begin, min(begin + size, len(cohort)))
            score_QE = score_all(score, cohort, part)
            column = torch.from_numpy(np.maximum(cohort.scale[part], 0)).to(score_QE.device)
            found[part] = score_QE.gather(1, column).double().cpu().numpy()
    found[cohort.scale < 0] = 0.0
    return scales(
        found, cohort.scale_size, cohort.relation, cohort.side, eta=settings.eta, epsilon=settings.epsilon
    )


def dense_pressures(
    comparison: Comparison, score: ScoreFunction, index: Ids, scale: Scale
) -> tuple[Tensor, Tensor]:
    """U of the newcomers (Eq. aggregate) and the mean old reference (Eq. old-reference), differentiable."""
    cohort = comparison.cohort
    each = 40 * (cohort.n_cur + comparison.settings.draws * cohort.n_new)
    size = max(1, comparison.settings.memory // max(each, 1))

    def over(chosen: Ids) -> list[tuple[Tensor, Tensor]]:
        blocks = range(0, len(chosen), size)
        return [_pressures(comparison, score, chosen[begin : begin + size], scale) for begin in blocks]

    own = over(index)
    borrowed = over(comparison.value_of[index]) if comparison.variant.assignment == "values" else own
    return torch.cat([new for new, _ in own]), torch.cat([reference for _, reference in borrowed])


def _pressures(
    comparison: Comparison, score: ScoreFunction, index: Ids, scale: Scale
) -> tuple[Tensor, Tensor]:
    cohort, variant, settings = comparison.cohort, comparison.variant, comparison.settings
    score_QE = score_all(score, cohort, index)
    device = score_QE.device
    answer_Q = score_QE.gather(1, torch.from_numpy(cohort.answer[index, None]).to(device))[:, 0]
    gap_QE = gaps(score_QE, answer_Q, torch.from_numpy(scale.tau[index]).to(score_QE))
    member_QN = torch.from_numpy(cohort.is_newcomer(index)).to(device)
    new_Q = pressure(gap_QE[:, cohort.n_old :], variant.aggregate, settings.beta, member_QN)
    if not variant.centered:
        return new_Q, torch.zeros_like(new_Q)
    drawn = comparison.drawn(index)
    column = torch.from_numpy(np.maximum(drawn, 0).astype(np.int64)).to(device)
    gap_QJN = gap_QE.gather(1, column.flatten(1)).view(column.shape)
    member_QJN = torch.from_numpy(drawn >= 0).to(device)
    reference_QJ = pressure(gap_QJN, variant.aggregate, settings.beta, member_QJN)
    reference_Q = mean_reference(reference_QJ, member_QJN.sum(-1))
    return new_Q, reference_Q.detach() if settings.detach_reference else reference_Q
