"""What a penalty is multiplied with (decision 34): decided here, from what runs have measured.

Three rules. A coefficient is *given*. It is *balanced*: host and penalty pull equally hard on newcomer rows,
found without a rank. Or it is *validated*: the multiple of the balanced one that gives the highest H_cur on
validation facts and keeps A_TN. `run/` and `study/` make the runs that measure; nothing here makes one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from meor.errors import NonFiniteError
from meor.methods.calibration_grid import MARGIN
from meor.methods.comparison import sample_records
from meor.methods.penalty import Penalty
from meor.training.loss import Embedding

RECORDS = 1024
ENOUGH = 16
"""Active records that a coefficient needs: from fewer it would be a matter of chance."""


@dataclass(frozen=True, slots=True)
class Balance:
    """A coefficient, and what it was made from."""

    coefficient: float
    host_norm: float
    penalty_norm: float
    records: int  # occurrences the penalty was averaged over
    active: int  # occurrences among them with an excess
    update: int  # trained without a penalty; both norms were measured at its end

    @property
    def is_inactive(self) -> bool:
        """Too little to balance here: the coefficient is 0, and a later update may decide."""
        return self.coefficient == 0.0

    def describe(self) -> str:
        seen = f"{self.active:,} of {self.records:,} records active at update {self.update}"
        if self.is_inactive:
            return f"inactive: {seen}, and a coefficient needs {ENOUGH}"
        return f"coefficient {self.coefficient:.6g} = {self.host_norm:.6g} / {self.penalty_norm:.6g} ({seen})"


def mean_gradient(losses: Iterable[Tensor], rows: Tensor) -> Tensor:
    """g_host (Sec. Experimental Setting, decision 34): the gradient of a loss averaged over batches."""
    total, count = torch.zeros_like(rows), 0
    for loss in losses:
        (part,) = torch.autograd.grad(loss, rows)
        total += part
        count += 1
    return total / max(count, 1)


def penalty_gradient(
    penalty: Penalty, entity: Embedding, relation: Embedding, *, records: int = RECORDS
) -> tuple[Tensor, int, int]:
    """g_pen (decision 34), over a sample of eligible occurrences; its size, and how many of it are active."""
    chosen = sample_records(penalty.cohort, records)
    loss = penalty.over(entity, relation, chosen)
    active = 0
    if len(chosen):
        new, reference = penalty.pressures(entity, relation, chosen)
        active = int((new > reference).sum())
    if not loss.requires_grad:
        return torch.zeros_like(entity.trained), len(chosen), active
    # Newcomers are the last rows of the trained ones, also where a host trains old rows too.
    (gradient,) = torch.autograd.grad(loss, entity.trained)
    return gradient, len(chosen), active


def balance(host: Tensor, penalty: Tensor, *, records: int, active: int, update: int) -> Balance:
    """Our reading of the gradient-balance rule: |g_host| / |g_pen|; 0 where fewer than 16 are active.

    Both are gradients by newcomer entity rows (decision 34; the paper gives no formula).
    """
    host_norm, penalty_norm = float(host.norm()), float(penalty.norm())
    if active < ENOUGH or penalty_norm == 0.0:
        return Balance(0.0, host_norm, penalty_norm, records, active, update)
    coefficient = host_norm / penalty_norm
    if not torch.isfinite(torch.tensor(coefficient)):
        raise NonFiniteError(
            f"The balance of gradients {host_norm} / {penalty_norm} is not finite. Lower the learning rate."
        )
    return Balance(coefficient, host_norm, penalty_norm, records, active, update)


def balance_penalty(
    penalty: Penalty,
    entity: Embedding,
    relation: Embedding,
    losses: Iterable[Tensor],
    *,
    records: int = RECORDS,
) -> Balance:
    """The whole rule at the present weights: `losses` are the host's, of the batches of one pass."""
    first = penalty.cohort.n_old - entity.first
    host = mean_gradient(losses, entity.trained)[first:]
    gradient, count, active = penalty_gradient(penalty, entity, relation, records=records)
    return balance(host, gradient[first:], records=count, active=active, update=penalty.cohort.update)


def most_telling(balances: Sequence[Balance]) -> Balance:
    """The balance that decided; if none did, the first of those with the most active records."""
    return max(balances, key=lambda one: (not one.is_inactive, one.active))


MULTIPLES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5)
ALWAYS = 6
"""The first multiples, through 300, are always tried."""

IN_VAIN = 2
"""After those, the search ends when this many in succession are no better."""

FACTORS = (0.7, 0.85, 1.0, 1.15, 1.3, 1.5)
"""Of the norms that degrees suggest, where the cap itself is chosen on validation facts."""

TRIAL_SEED_OFFSET = 1_000_000
"""A trial's seed is the run's plus this: no pair of a study comes near it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a multiple gave on validation facts."""

    multiple: float
    H_cur: float
    A_TN: float
    admitted: bool = True  # A_TN is at most the margin below that of the host alone

    @classmethod
    def against(cls, alone: Candidate, multiple: float, cur: float, acquired: float) -> Candidate:
        return cls(multiple, cur, acquired, acquired >= alone.A_TN - MARGIN)


def best_multiple(candidates: Iterable[Candidate]) -> float:
    """The admitted multiple with the highest H_cur, the smallest of equals; 0 where none is admitted."""
    admitted = [one for one in candidates if one.admitted]
    best = max(admitted, key=lambda one: (one.H_cur, -one.multiple), default=None)
    return 0.0 if best is None else best.multiple


def goes_on(candidates: Sequence[Candidate]) -> bool:
    """Whether the next multiple of the grid is tried too, given the results of all before it."""
    if len(candidates) >= len(MULTIPLES):
        return False
    if len(candidates) < ALWAYS:
        return True
    best = max((one.H_cur for one in candidates if one.admitted), default=math.inf)
    return any(one.admitted and one.H_cur >= best for one in candidates[-IN_VAIN:])


def end_of_grid(multiple: float, candidates: Sequence[Candidate]) -> str:
    """What is said where the largest multiple that was tried is the one chosen; else nothing."""
    if not candidates or multiple != max(one.multiple for one in candidates):
        return ""
    return f"the largest multiple that was tried, {multiple:g}; a larger one may give more"
