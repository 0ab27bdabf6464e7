"""Negatives of a pass (decision 14): one addressed draw holds them all, and row number is fact number.

So the order of facts, the batch size and the step a run went on from change nothing, and paired
methods share every negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meor.errors import InputError
from meor.random import Address, generator
from meor.typing import HEAD_COLUMN, TAIL_COLUMN, Facts, Ids


@dataclass(frozen=True, slots=True)
class Negatives:
    """[F, K] entities that replace one endpoint of a fact, and which endpoint (a Side) each replaces."""

    entity: Ids
    replaced: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.entity)


def draw_negatives(fact: Facts, universe: int, count: int, *address: Address) -> Negatives:
    """`count` negatives a fact: a fair coin for the endpoint, uniform over `0..universe-1` but the true id.

    Unfiltered: a negative may be another true fact. The address is ("negatives", run, update, pass);
    replay facts have one of their own, so the size of the buffer shifts nobody else's negatives.
    """
    ends = fact[:, [HEAD_COLUMN, TAIL_COLUMN]]
    if not len(fact):
        return Negatives(np.empty((0, count), np.int64), np.empty((0, count), np.int8))
    if universe < 2 or ends.max() >= universe:
        raise InputError(
            f"negatives were asked for among {universe} entities for a fact that names entity {ends.max()}",
            remedy="Draw them from at least two entities, both endpoints of every fact among them",
        )
    # One number decides both coin and entity: uniform on 2 * (universe - 1) values, the coin in its last bit.
    draw_FK = generator(*address).integers(0, 2 * (universe - 1), (len(fact), count))
    tail_FK = (draw_FK & 1).astype(bool)
    draw_FK >>= 1
    # Step over the true id. Random booleans are joined by logic: `where` would mispredict every branch.
    draw_FK += ((draw_FK >= ends[:, 1:]) & tail_FK) | ((draw_FK >= ends[:, :1]) & ~tail_FK)
    return Negatives(draw_FK, tail_FK.view(np.int8))
