"""The coefficient that makes host and penalty pull equally hard, found without a rank (decision 34)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from meor.errors import NonFiniteError
from meor.methods.comparison import sample_records
from meor.methods.penalty import Penalty
from meor.training.loss import Table

RECORDS = 1024
ENOUGH = 16
"""Active records from which a coefficient is made: of fewer it would be a matter of chance."""


@dataclass(frozen=True, slots=True)
class Balance:
    """A coefficient, and what it was made from."""

    coefficient: float
    host_norm: float
    penalty_norm: float
    records: int  # occurrences the penalty was averaged over
    active: int  # of which had an excess
    update: int  # at whose end, trained without a penalty, both were measured

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
    penalty: Penalty, entity: Table, relation: Table, *, records: int = RECORDS
) -> tuple[Tensor, int, int]:
    """g_pen (decision 34): of the mean penalty over addressed eligible occurrences; and how many, active."""
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
    penalty: Penalty, entity: Table, relation: Table, losses: Iterable[Tensor], *, records: int = RECORDS
) -> Balance:
    """The whole rule at the present weights: `losses` are the host's, of the batches of one pass."""
    first = penalty.cohort.n_old - entity.first
    host = mean_gradient(losses, entity.trained)[first:]
    gradient, count, active = penalty_gradient(penalty, entity, relation, records=records)
    return balance(host, gradient[first:], records=count, active=active, update=penalty.cohort.update)


def most_telling(asked: Sequence[Balance]) -> Balance:
    """Of the updates that were asked in turn: the one that decided, else the first of those most active."""
    return max(asked, key=lambda one: (not one.is_inactive, one.active))
