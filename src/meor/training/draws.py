"""What training draws: the replay buffer and negatives, all addressed and without a score.

One addressed draw holds all negatives of a pass: row f belongs to fact f. So neither the order of facts, nor
the batch size, nor a resumed run changes a negative, and the methods of a pair share them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from meor.errors import ConfigError, InputError
from meor.random import Address, generator
from meor.stream.snapshot import Stream
from meor.typing import HEAD_COLUMN, TAIL_COLUMN, Facts, Ids, Split

BUFFER_SIZE = 2048

Policy = Literal["uniform", "reservoir"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Replay facts of one update, in the order in which batches take them."""

    fact: Facts  # [R, 3]
    row: Ids  # [R] their rows in the training prefix through the update before

    def __len__(self) -> int:
        return len(self.fact)


def one_of(name: str, value: str, choices: Any) -> None:
    """Refuse a word that is not a choice of the Literal; without this it would silently mean the default."""
    if value not in get_args(choices):
        raise ConfigError(f"{name} is {value!r}", remedy=f"Use one of {', '.join(get_args(choices))}")


def empty_buffer() -> Buffer:
    return Buffer(np.empty((0, 3), dtype=np.int64), np.empty(0, dtype=np.int64))


def draw_buffer(
    stream: Stream, update: int, *, seed: int, size: int = BUFFER_SIZE, policy: Policy = "uniform"
) -> Buffer:
    """At most `size` training facts of snapshots before `update`, redrawn at each update.

    Either policy is uniform without replacement. `uniform` needs the whole history at each update;
    `reservoir` looks at each fact once, when it arrives, as a stream that does not keep its past must.
    """
    one_of("policy", policy, Policy)
    if update < 1:
        return empty_buffer()
    past = stream.prefix(update - 1, [Split.TRAIN])
    if policy == "uniform":
        row = generator("buffer", seed, update).choice(len(past), min(size, len(past)), replace=False)
    else:
        row = np.empty(0, dtype=np.int64)
        arrived = 0
        for index in range(update):
            count = len(stream.snapshots[index].train)
            row = admit_to_reservoir(row, arrived, count, seed=seed, snapshot=index, size=size)
            arrived += count
    row = row.astype(np.int64)
    return Buffer(past[row], row)


def admit_to_reservoir(
    kept: Ids, arrived: int, count: int, *, seed: int, snapshot: int, size: int = BUFFER_SIZE
) -> Ids:
    """The rows kept after `count` more facts came (rows `arrived..arrived+count-1`): Vitter's algorithm R."""
    row = np.arange(arrived, arrived + count)
    filled = min(max(size - len(kept), 0), count)
    slots = np.concatenate([kept, row[:filled]])
    row = row[filled:]
    slot = generator("reservoir", seed, snapshot).integers(0, row + 1)  # fact t takes one of t + 1 places
    taken = slot < size
    slots[slot[taken]] = row[taken]  # a slot taken twice keeps the later fact, as one by one would
    return slots


@dataclass(frozen=True, slots=True)
class Negatives:
    """[F, K] entities that replace one endpoint of a fact, and which endpoint (a Side) each replaces."""

    entity: Ids
    replaced: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.entity)


def draw_negatives(fact: Facts, universe: int, count: int, *address: Address) -> Negatives:
    """`count` negatives per fact: a coin chooses the endpoint; any of `0..universe-1` but the true id.

    Unfiltered: a negative may be another true fact. The address is ("negatives", run, update, pass);
    replay facts have one of their own, so the size of the buffer shifts nobody else's negatives.
    """
    ends = fact[:, [HEAD_COLUMN, TAIL_COLUMN]]
    if not len(fact):
        return Negatives(np.empty((0, count), np.int64), np.empty((0, count), np.int8))
    if universe < 2 or ends.max() >= universe:
        raise InputError(
            f"negatives were to be drawn among {universe} entities for a fact that names entity {ends.max()}",
            remedy="Draw them from at least two entities, both endpoints of every fact among them",
        )
    # One number decides both coin and entity: uniform on 2 * (universe - 1) values, the coin in its last bit.
    draw_FK = generator(*address).integers(0, 2 * (universe - 1), (len(fact), count))
    tail_FK = (draw_FK & 1).astype(bool)
    draw_FK >>= 1
    # Step over the true id. Random booleans are joined by logic: `where` would mispredict every branch.
    draw_FK += ((draw_FK >= ends[:, 1:]) & tail_FK) | ((draw_FK >= ends[:, :1]) & ~tail_FK)
    return Negatives(draw_FK, tail_FK.view(np.int8))
