"""MEOR and its four controls, as data; one code path reads them. `registry` gives them names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Aggregate = Literal["smooth", "max"]
Reference = Literal["matched", "role"]
Assignment = Literal["own", "shuffled"]


@dataclass(frozen=True, slots=True)
class Variant:
    """What is summed up, whom newcomers are compared with, whose reference it is, and whether it counts."""

    aggregate: Aggregate  # U_beta or the largest gap
    reference: Reference  # nested keys, or the role alone
    assignment: Assignment  # an occurrence's own references, or another's
    centered: bool  # is the mean old reference subtracted?


MEOR = Variant(aggregate="smooth", reference="matched", assignment="own", centered=True)
MMR = replace(MEOR, aggregate="max")
UOR = replace(MEOR, reference="role")
SHUFFLED = replace(MEOR, assignment="shuffled")
UNCENTERED = replace(MEOR, centered=False)
