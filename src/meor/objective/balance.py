"""The coefficient that makes host and penalty pull equally hard, found without a rank (decision 34)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from meor.backbone.loss import Table
from meor.errors import NonFiniteError
from meor.objective.comparison import sample_records
from meor.objective.penalty import Penalty

RECORDS = 64


@dataclass(frozen=True, slots=True)
class Balance:
    """A coefficient, and what it was made from."""

    coefficient: float
    host_norm: float
    penalty_norm: float
    records: int  # occurrences the penalty was averaged over
    active: int  # of which had an excess

    @property
    def is_inactive(self) -> bool:
        """Nothing to balance: no record was active, so the coefficient is 0."""
        return self.active == 0

    def describe(self) -> str:
        if self.is_inactive:
            return f"inactive: 0 of {self.records} records active, coefficient 0"
        return (
            f"coefficient {self.coefficient:.6g} = {self.host_norm:.6g} / {self.penalty_norm:.6g} "
            f"({self.active} of {self.records} records active)"
        )


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


def balance(host: Tensor, penalty: Tensor, *, records: int, active: int) -> Balance:
    """The gradient-balance rule (Sec. Experimental Setting): |g_host| / |g_pen|; 0 if nothing is active.

    Both are gradients by newcomer entity rows.
    """
    host_norm, penalty_norm = float(host.norm()), float(penalty.norm())
    if active == 0 or penalty_norm == 0.0:
        return Balance(0.0, host_norm, penalty_norm, records, 0)
    coefficient = host_norm / penalty_norm
    if not torch.isfinite(torch.tensor(coefficient)):
        raise NonFiniteError(
            f"The balance of gradients {host_norm} / {penalty_norm} is not finite. Lower the learning rate."
        )
    return Balance(coefficient, host_norm, penalty_norm, records, active)


def balance_penalty(
    penalty: Penalty, entity: Table, relation: Table, losses: Iterable[Tensor], *, records: int = RECORDS
) -> Balance:
    """The whole rule at the present weights: `losses` are the host's, of the batches of one pass."""
    first = penalty.cohort.n_old - entity.first
    host = mean_gradient(losses, entity.trained)[first:]
    gradient, count, active = penalty_gradient(penalty, entity, relation, records=records)
    return balance(host, gradient[first:], records=count, active=active)
