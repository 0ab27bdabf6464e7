"""What is constant while old rows are frozen: query rows, answer scores, tau_x and every old reference.

Computed once per update (decision 28). A score is the exact float64 sum of `search.exact`, which depends
on two rows alone; so computing one occurrence again, in any company, gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Backbone, Scoring
from meor.cohort.newcomers import Cohort
from meor.compiled import share
from meor.evaluation.tally import candidate_rows
from meor.methods.comparison import Comparison, require_finite
from meor.methods.equations import Scale, scales
from meor.methods.kernels import reference_pressures
from meor.search.clumps import Clumps
from meor.search.exact import exact_columns, exact_scores
from meor.search.outrankers import outrankers
from meor.search.queries import Known, Queries
from meor.search.screen import Candidates
from meor.typing import SIDES, Floats, Ids


@dataclass(slots=True)
class Scratch:
    """What one step may leave to the next: the memory of narrowed rows, and gradients on their way."""

    candidates: Candidates | None = None
    clumps: Clumps | None = None
    scattered: bool = False  # rows form no clumps: do not look for them again
    pending: list[Any] = field(default_factory=list)  # gradients on their way, by occurrence (`sparse`)


@dataclass(frozen=True, slots=True)
class Frozen:
    """Constants of every occurrence of an update."""

    scoring: Scoring
    queries: Queries  # [X, W]; thresholds are exact scores of the answers (TransE: without its constant)
    scale: Scale
    reference: Floats  # [X] the mean old reference; 0 where nothing is subtracted or nobody is eligible
    dropped: int  # entries of borrowed references that were no candidates (shuffled only)
    scratch: Scratch = field(default_factory=Scratch, compare=False)


def freeze(comparison: Comparison, backbone: Backbone, entity: Tensor, relation: Tensor) -> Frozen:
    """The constants of an update (decision 28) at the present old rows."""
    cohort = comparison.cohort
    query_XW = query_rows(cohort, np.arange(len(cohort)), backbone, entity, relation)
    old_EW = candidate_rows(backbone, entity[: cohort.n_old])
    scale = scale_of(comparison, backbone.scoring, query_XW, old_EW)
    answer_score = exact_scores(backbone.scoring, query_XW, old_EW, cohort.answer)
    require_finite(cohort, answer_score, np.arange(len(cohort)))
    known = Known(cohort.known_start, cohort.known_end, cohort.known)
    queries = Queries.prepare(backbone.scoring, query_XW, cohort.answer, known, answer_score, coarse=True)
    frozen = Frozen(backbone.scoring, queries, scale, np.zeros(len(cohort)), 0)
    if not comparison.variant.centered:
        return frozen
    return _with_references(comparison, frozen, old_EW)


def present_scale(comparison: Comparison, backbone: Backbone, entity: Tensor, relation: Tensor) -> Scale:
    """tau_x at the present rows, for hosts that move them: only the scale samples are scored."""
    cohort = comparison.cohort
    old_EW = candidate_rows(backbone, entity[: cohort.n_old])
    query_XW = query_rows(cohort, np.arange(len(cohort)), backbone, entity, relation)
    return scale_of(comparison, backbone.scoring, query_XW, old_EW)


def scale_of(comparison: Comparison, scoring: Scoring, query_XW: Floats, old_EW: Floats) -> Scale:
    """tau_x of all occurrences, from their query rows and the rows of old entities."""
    cohort, settings = comparison.cohort, comparison.settings
    score_XK = exact_columns(scoring, query_XW, old_EW, cohort.scale)
    require_finite(cohort, score_XK, np.arange(len(cohort)))
    return scales(
        score_XK, cohort.scale_size, cohort.relation, cohort.side, eta=settings.eta, epsilon=settings.epsilon
    )


def query_rows(cohort: Cohort, index: Ids, backbone: Backbone, entity: Tensor, relation: Tensor) -> Floats:
    """[Q, W] float64 query rows of occurrences."""
    rows, places = [], []
    for side in SIDES:
        on = np.flatnonzero(cohort.side[index] == side)
        anchor = torch.from_numpy(cohort.anchor[index[on]]).to(entity.device)
        of = torch.from_numpy(cohort.relation[index[on]]).to(entity.device)
        with torch.no_grad():
            row = backbone.query(entity[anchor].double(), relation[of].double(), side)
        rows.append(row.cpu().numpy())
        places.append(on)
    return np.concatenate(rows)[np.argsort(np.concatenate(places))]


def _with_references(comparison: Comparison, frozen: Frozen, old_EW: Floats) -> Frozen:
    cohort, settings = comparison.cohort, comparison.settings
    index = np.flatnonzero(comparison.eligible)
    reference, dropped = np.zeros(len(cohort)), 0
    each = 4 * settings.draws * cohort.n_new + 40 * cohort.n_old
    size = max(1, settings.memory // max(each, 1))
    old = Candidates.prepare(frozen.scoring, old_EW, coarse=True)
    for begin in range(0, len(index), size):
        part = index[begin : begin + size]
        reference[part], missing = _mean_pressures(comparison, frozen, old, part)
        dropped += missing
    return replace(frozen, reference=reference[comparison.value_of], dropped=dropped)


def _mean_pressures(comparison: Comparison, frozen: Frozen, old: Candidates, part: Ids) -> tuple[Floats, int]:
    """The mean old reference (Eq. old-reference) of a few occurrences, and how many entries were dropped."""
    cohort, settings = comparison.cohort, comparison.settings
    queries = frozen.queries.select(part)
    above = outrankers(old, queries)
    if not np.isfinite(above.score).all():
        require_finite(cohort, above.score, np.repeat(part, np.diff(above.start)))
    drawn = comparison.references.draw(comparison.partner[part]).id
    out_QJ3 = np.empty((len(part), settings.draws, 3))
    found = above.start, above.column, above.score, frozen.scale.tau[part]
    share(reference_pressures, len(part), drawn, *found, queries.asked, cohort.n_old, settings.beta, out_QJ3)
    size_QJ = out_QJ3[:, :, 2]
    value_QJ = out_QJ3[:, :, 0 if comparison.variant.aggregate == "smooth" else 1]
    mean = np.where(size_QJ > 0, value_QJ, 0.0).sum(1) / np.maximum((size_QJ > 0).sum(1), 1)
    return mean, int((drawn >= 0).sum() - size_QJ.sum())
