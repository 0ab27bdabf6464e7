"""Everything about a penalty that is fixed before any score is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meor.cohort.matching import DRAWS, References, Signature, Structure, build_references, shuffled_partners
from meor.cohort.newcomers import SCALE_SAMPLE, Cohort, build_cohort
from meor.errors import ConfigError, NonFiniteError
from meor.methods.equations import EPSILON_TAU, ETA_MAD
from meor.methods.registry import MEOR, Variant
from meor.random import Address, generator
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Facts, Floats, Ids

BETA = 5.0
MEMORY = 1 << 29


@dataclass(frozen=True, slots=True)
class Settings:
    """The paper's numbers; a run records each."""

    beta: float = BETA
    draws: int = DRAWS  # J
    scale_sample: int = SCALE_SAMPLE  # K_scale
    signature: Signature = "all"
    eta: float = ETA_MAD
    epsilon: float = EPSILON_TAU
    detach_reference: bool = False  # where old rows move; the paper detaches the scale only (decision 30)
    memory: int = MEMORY  # bytes for the temporaries of one tile

    def __post_init__(self) -> None:
        for name in ("beta", "draws", "scale_sample", "epsilon", "memory"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}", remedy="Give a number above 0")


class Columns(NamedTuple):
    """Who is compared with the answers of some occurrences. Groups are the newcomers, then each draw."""

    entity: Ids  # [Q, C] newcomers and drawn old entities; -1: none
    size: Ids  # [Q, 1 + J] members of each group
    group: Ids  # [C] the group of a column


@dataclass(frozen=True, slots=True)
class Comparison:
    """Who is compared with whom, and how: shared ids, a variant, and its numbers."""

    references: References
    variant: Variant = MEOR
    settings: Settings = field(default_factory=Settings)
    stream: Stream | None = field(default=None, repr=False, compare=False)  # of which it was built
    partner: Ids = field(init=False)  # [X] whose references an occurrence uses
    value_of: Ids = field(init=False)  # [X] whose mean reference is subtracted
    eligible: NDArray[np.bool_] = field(init=False)  # [X]
    _kept: dict[bytes, Columns] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        cohort = self.cohort
        own = np.arange(len(cohort))
        other = own if self.variant.assignment == "own" else shuffled_partners(cohort)
        object.__setattr__(self, "partner", other if self.variant.assignment == "shuffled" else own)
        object.__setattr__(self, "value_of", other if self.variant.assignment == "values" else own)
        object.__setattr__(self, "eligible", cohort.eligible)

    @classmethod
    def build(
        cls,
        stream: Stream,
        update: int,
        fact: Facts,
        *,
        run: Address,
        variant: Variant = MEOR,
        settings: Settings | None = None,
    ) -> Comparison:
        """The comparison of both sides of a replay buffer at an update; `run` is shared by a pair."""
        settings = Settings() if settings is None else settings
        cohort = build_cohort(stream, update, fact, run=run, scale_sample=settings.scale_sample)
        structure = Structure.through(stream, update, settings.signature)
        references = build_references(cohort, structure, draws=settings.draws, rule=variant.reference)
        return cls(references, variant, settings, stream)

    @property
    def cohort(self) -> Cohort:
        return self.references.cohort

    def members(self, index: Ids) -> Ids:
        """B_M: the eligible ones among the given occurrences, in their order and with their repetitions."""
        index = np.asarray(index, dtype=np.int64)
        return np.asarray(index[self.eligible[index]])

    def drawn(self, index: Ids) -> NDArray[np.int32]:
        """[Q, J, n_new] the old ids each occurrence is compared with; -1 where there is none.

        A borrowed reference may hold the occurrence's own answer or known answers: they are dropped.
        """
        drawn = self.references.draw(self.partner[index]).id
        if self.variant.assignment == "shuffled":
            for row, x in enumerate(index):
                mine = np.append(self.cohort.known_of(int(x)), self.cohort.answer[x])
                drawn[row][np.isin(drawn[row], mine)] = -1
        return drawn

    def columns(self, index: Ids) -> Columns:
        """Everybody whom occurrences are compared with; kept, because steps come by again at every pass."""
        key = index.tobytes()
        found = self._kept.get(key)
        if found is None:
            found = self._columns(index)
            held = sum(each.entity.nbytes for each in self._kept.values())
            if held + found.entity.nbytes <= self.settings.memory // 2:
                self._kept[key] = found
        return found

    def _columns(self, index: Ids) -> Columns:
        newcomer = np.arange(self.cohort.n_old, self.cohort.n_cur)
        entity = np.where(self.cohort.is_newcomer(index), newcomer, -1)
        group = np.zeros(len(newcomer), np.int64)
        if self.variant.centered:
            drawn = self.drawn(index).astype(np.int64)
            entity = np.column_stack([entity, drawn.reshape(len(index), -1)])
            group = np.concatenate([group, 1 + np.repeat(np.arange(drawn.shape[1]), drawn.shape[2])])
        groups = range(int(group.max(initial=0)) + 1)
        size = np.stack([(entity[:, group == each] >= 0).sum(1) for each in groups], axis=1)
        return Columns(np.ascontiguousarray(entity), size, group)


def both_sides_of(replay: Ids) -> Ids:
    """The occurrences of facts of the buffer: fact f stands at 2f (head missing) and 2f + 1 (tail)."""
    index = np.repeat(2 * np.asarray(replay, dtype=np.int64), 2)
    index[1::2] += 1
    return index


def sample_records(cohort: Cohort, count: int) -> Ids:
    """`count` distinct eligible occurrences (all, if fewer); a larger sample holds the smaller ones."""
    eligible = np.flatnonzero(cohort.eligible)
    named = np.column_stack([cohort.fact[eligible], cohort.side[eligible]])
    _, first = np.unique(named, axis=0, return_index=True)  # also orders them, whatever the buffer's order
    order = generator("records", cohort.run, cohort.update).permutation(len(first))
    return np.asarray(eligible[first[order[:count]]], dtype=np.int64)


def require_finite(cohort: Cohort, score: Floats, occurrence: Ids) -> None:
    """Refuse scores that are not finite: B_M is shared by a pair, so nothing may be dropped (decision 35)."""
    finite = np.isfinite(score)
    if finite.all():
        return
    bad = int(occurrence[np.flatnonzero(~finite.reshape(len(occurrence), -1).all(1))[0]])
    head, relation, tail = (int(part) for part in cohort.fact[bad])
    raise NonFiniteError(
        f"A score of the {SIDES[cohort.side[bad]].label} query of fact ({head}, {relation}, {tail}) is not "
        f"finite at update {cohort.update}, so the penalty has no value. "
        "Lower the learning rate or the coefficient."
    )
