"""The penalty of a batch: one scalar to add to a host's loss.

    penalty = Penalty(Comparison.build(stream, update, buffer.fact, run=seed), backbone)
    loss = host_loss + coefficient * penalty(entity, relation, replay)

`of_scores` is the general path and takes any scoring function. Where old rows are frozen only newcomers
are scored, against constants of the update, and on the CPU only those above the answer count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from meor.backbone.base import GAMMA, Backbone, Geometry, Model
from meor.cohort.newcomers import Cohort
from meor.methods.comparison import Comparison, both_sides_of, require_finite
from meor.methods.dense import ScoreFunction, dense_pressures, dense_scale, table_scores
from meor.methods.equations import Scale, gaps, pressure, squared_hinge
from meor.methods.frozen import Frozen, Scratch, freeze, present_scale
from meor.methods.moving import moving_penalty
from meor.methods.moving_scale import MovingScale
from meor.methods.sparse import Tiles, join_pending, sparse_penalty, sparse_pressures
from meor.training.loss import Embedding
from meor.typing import Floats, Ids


@dataclass(slots=True)
class Penalty:
    """The penalty of one update; a callable for the training loop, and for loops of one's own."""

    comparison: Comparison
    backbone: Backbone | None = None
    fast: bool | None = None  # None: the outranker kernels where the tables are on the CPU
    beside: bool = False  # True: added to another loss, whose gradient the fast path completes in place
    _frozen: tuple[Embedding, Embedding, Frozen] | None = field(init=False, default=None)
    _scale: Scale | None = field(init=False, default=None)
    _moving: MovingScale | None = field(init=False, default=None)

    @property
    def cohort(self) -> Cohort:
        return self.comparison.cohort

    def begin(self, model: Model) -> None:
        """The update begins at these rows. A penalty that depends on them overrides this."""

    def __call__(self, entity: Embedding, relation: Embedding, replay: Ids, /) -> Tensor:
        """L_MEOR (Eq. meor) over both sides of the given facts of the buffer, in their order."""
        return self.over(entity, relation, both_sides_of(replay))

    def over(self, entity: Embedding, relation: Embedding, index: Ids) -> Tensor:
        """L_MEOR (Eq. meor) over occurrences; a 0 without a graph where nothing is active."""
        index = self.comparison.members(index)
        if not len(index):
            return entity.data.new_zeros(())
        backbone = self._known_backbone()
        if not self.is_frozen(entity, relation):
            if self._kernels_serve(entity) and self.comparison.variant.assignment != "values":
                if self._moving is None:
                    self._moving = MovingScale(self.comparison, backbone.scoring)
                return moving_penalty(self.comparison, backbone, entity, relation, index, self._moving)
            scale = self._present_scale(entity, relation)
            return self._general(table_scores(backbone, entity.whole(), relation.whole()), index, scale)
        frozen = self.frozen(entity, relation)
        if self._kernels_serve(entity):
            return sparse_penalty(self.comparison, frozen, entity, index, beside=self.beside)
        return self._newcomers_only(backbone, frozen, entity, index)

    def pressures(self, entity: Embedding, relation: Embedding, index: Ids) -> tuple[Floats, Floats]:
        """U of the newcomers and the mean old reference of eligible occurrences, at the present rows."""
        backbone = self._known_backbone()
        with torch.no_grad():
            if not self.is_frozen(entity, relation):
                score = table_scores(backbone, entity.data, relation.data)
                scale = self._present_scale(entity, relation)
                new, reference = dense_pressures(self.comparison, score, index, scale)
                return new.double().cpu().numpy(), reference.double().cpu().numpy()
            frozen = self.frozen(entity, relation)
            rows = entity.trained.detach().cpu().numpy()
            tiles = Tiles.of(rows, frozen.scoring, self.comparison.settings.memory)
            return sparse_pressures(self.comparison, frozen, tiles, index).value, frozen.reference[index]

    def of_scores(self, score: ScoreFunction, replay: Ids) -> Tensor:
        """L_MEOR (Eq. meor) over both sides of facts of the buffer, from a scoring function: any model.

        The scale is made from this step's scores of all scale samples, unless `hold_scale` was called.
        """
        return self.over_scores(score, both_sides_of(replay))

    def over_scores(self, score: ScoreFunction, index: Ids) -> Tensor:
        index = self.comparison.members(index)
        if not len(index):
            return torch.zeros(())
        scale = dense_scale(self.comparison, score) if self._scale is None else self._scale
        return self._general(score, index, scale)

    def hold_scale(self, score: ScoreFunction) -> Scale:
        """Keep tau_x from now on: right where old entities and relations are frozen, and much cheaper."""
        self._scale = dense_scale(self.comparison, score)
        return self._scale

    def is_frozen(self, entity: Embedding, relation: Embedding) -> bool:
        """Are query rows, answers and old references constants, and do candidates have the trained rows?"""
        newest = int(self.cohort.relation.max(initial=-1))
        is_constant = entity.first == self.cohort.n_old and relation.first > newest
        return is_constant and self._known_backbone().compares_stored_rows

    def frozen(self, entity: Embedding, relation: Embedding) -> Frozen:
        """The constants of the update, computed when a table is seen for the first time."""
        if self._frozen is None or self._frozen[0] is not entity:
            found = self._still_right(entity, relation)
            if found is None:
                found = freeze(self.comparison, self._known_backbone(), entity.data, relation.data)
            self._frozen = entity, relation, found
            if self.beside:
                entity.trained.register_post_accumulate_grad_hook(join_pending(found))  # type: ignore[no-untyped-call]
        return self._frozen[2]

    def _still_right(self, entity: Embedding, relation: Embedding) -> Frozen | None:
        """The constants held, if they were made from the same frozen rows in other tables."""
        if self._frozen is None:
            return None
        pairs = zip(self._frozen[:2], (entity, relation), strict=True)
        same = all(torch.equal(one.data[: one.first], two.data[: two.first]) for one, two in pairs)
        return replace(self._frozen[2], scratch=Scratch()) if same else None

    @property
    def held(self) -> Frozen | None:
        """The constants of the update, if they are there with their references."""
        return self._frozen[2] if self._frozen is not None and self.comparison.variant.centered else None

    def forget(self) -> None:
        """Drop what is held: old rows have been changed in place."""
        self._frozen = self._scale = None

    def _present_scale(self, entity: Embedding, relation: Embedding) -> Scale:
        return present_scale(self.comparison, self._known_backbone(), entity.data, relation.data)

    def _general(self, score: ScoreFunction, index: Ids, scale: Scale) -> Tensor:
        new_Q, reference_Q = dense_pressures(self.comparison, score, index, scale)
        return _active_hinge(new_Q, reference_Q)

    def _newcomers_only(self, backbone: Backbone, frozen: Frozen, entity: Embedding, index: Ids) -> Tensor:
        """Eq. meor where only newcomers move: constants of the update, torch for the rest."""
        cohort, rows = self.cohort, entity.trained
        score_QN = backbone.compare_all(torch.from_numpy(frozen.queries.row[index]).to(rows), rows)
        require_finite(cohort, score_QN.detach().double().cpu().numpy(), index)
        # Exact scores leave TransE's constant out.
        answer = frozen.queries.threshold[index] + (GAMMA if backbone.geometry is Geometry.L1 else 0.0)
        answer_Q, tau_Q, reference_Q = (
            torch.from_numpy(part).to(rows)
            for part in (answer, frozen.scale.tau[index], frozen.reference[index])
        )
        member_QN = torch.from_numpy(cohort.is_newcomer(index)).to(rows.device)
        gap_QN = gaps(score_QN, answer_Q, tau_Q)
        settings, variant = self.comparison.settings, self.comparison.variant
        new_Q = pressure(gap_QN, variant.aggregate, settings.beta, member_QN)
        return _active_hinge(new_Q, reference_Q)

    def _kernels_serve(self, entity: Embedding) -> bool:
        return self.fast or (self.fast is None and entity.data.device.type == "cpu")

    def _known_backbone(self) -> Backbone:
        if self.backbone is None:
            raise TypeError(
                "This penalty has no backbone. Use of_scores with a scoring function of your model."
            )
        return self.backbone


def _active_hinge(new_Q: Tensor, reference_Q: Tensor) -> Tensor:
    """Eq. meor, without a graph where it is 0: every gradient then has the bits of the host alone."""
    if bool((new_Q > reference_Q).any()):
        return squared_hinge(new_Q, reference_Q)
    return new_Q.detach().new_zeros(())


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
    rows = model.backbone.candidate(model.entity[cohort.n_old : cohort.n_cur].detach()).cpu().numpy()
    tiles = Tiles.of(rows, frozen.scoring, comparison.settings.memory)
    new = np.full(len(cohort), np.nan)
    index = np.flatnonzero(comparison.eligible)
    size = max(1, comparison.settings.memory // (24 * max(cohort.n_new, 1)))
    for begin in range(0, len(index), size):
        part = index[begin : begin + size]
        new[part] = sparse_pressures(comparison, frozen, tiles, part).value
    reference = np.where(comparison.eligible, frozen.reference, np.nan)
    return Records(comparison, frozen.scale, frozen.queries.threshold, new, reference, frozen.dropped)
