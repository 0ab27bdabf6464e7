"""P4: what must hold of every matched reference, against cells recomputed with plain sets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.growth import growing, random_model

from meor.cohort.matching import build_references
from meor.cohort.newcomers import build_cohort
from meor.objective.comparison import Comparison
from meor.objective.records import penalty_records
from meor.objective.variants import VARIANTS
from meor.stream.structure import Structure
from meor.typing import SIDES, Side, Split

graphs = st.builds(
    growing,
    st.integers(0, 10**6),
    n_old=st.integers(3, 14),
    n_new=st.integers(1, 12),
    n_relations=st.integers(1, 4),
    density=st.integers(1, 5),
)


class Plain:
    """Bins, signatures and known answers of one side with sets and loops."""

    def __init__(self, stream, side: Side, signature: str):
        facts = stream.prefix(1, [Split.TRAIN]).tolist()
        self.facts = {tuple(fact) for fact in facts}
        self.side, self.n_old = side, stream.entity_counts[0]
        self.key = {}
        for e in range(stream.entity_counts[1]):
            pairs = [(r, 0) for h, r, t in facts if h == e] + [(r, 1) for h, r, t in facts if t == e]
            degree = sum(role == side for _, role in pairs)
            shown = frozenset(p for p in pairs if signature == "all" or p[1] == side)
            self.key[e] = ((degree.bit_length(), shown), (degree.bit_length(),), ())

    def pool(self, fact) -> list[int]:
        h, r, t = fact
        asked = [(e, r, t) if self.side is Side.HEAD else (h, r, e) for e in range(self.n_old)]
        answer = h if self.side is Side.HEAD else t
        return [e for e in range(self.n_old) if e != answer and asked[e] not in self.facts]


def check(stream, run: int, signature: str) -> None:
    cohort = build_cohort(stream, 1, stream.snapshots[0].train[:4], run=run)
    references = build_references(cohort, Structure.through(stream, 1, signature), draws=3)  # type: ignore[arg-type]
    plain = {side: Plain(stream, side, signature) for side in SIDES}
    for x in range(len(cohort)):
        of = plain[SIDES[cohort.side[x]]]
        pool = of.pool(cohort.fact[x].tolist())
        newcomers = cohort.newcomers_of(x).tolist()
        drawn, level = references.draws_of(x), references.levels_of(x)
        if not pool:
            assert drawn.shape == (3, 0)
            continue
        assert drawn.shape == (3, len(newcomers))  # |O| = |N|
        cells = []
        for newcomer in newcomers:
            by_level = [[e for e in pool if of.key[e][at] == of.key[newcomer][at]] for at in range(3)]
            assert set(by_level[0]) <= set(by_level[1]) <= set(by_level[2])  # coarser keys merge
            first = next(at for at in range(3) if by_level[at])
            cells.append((first, tuple(by_level[first])))
        assert level.tolist() == [first for first, _ in cells]  # the first key with a member left
        for draw in drawn.tolist():
            by_cell: dict = {}
            for entity, cell in zip(draw, cells, strict=True):
                assert entity in cell[1]  # so neither the answer nor a known answer
                by_cell.setdefault(cell, []).append(entity)
            for (_, members), taken in by_cell.items():
                fresh = taken[: len(members)]
                assert len(set(fresh)) == len(fresh)  # no repetition until the cell is exhausted


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(graphs, st.integers(0, 2**40), st.sampled_from(["all", "role"]))
def test_references_obey_every_rule_of_matching(stream, run, signature):
    check(stream, run, signature)


@pytest.mark.long
@settings(max_examples=20_000, deadline=None)
@given(graphs, st.integers(0, 2**40), st.sampled_from(["all", "role"]))
def test_references_obey_every_rule_of_matching_long(stream, run, signature):
    check(stream, run, signature)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(graphs, st.integers(0, 100), st.sampled_from(["negate", "permute", "randomise"]))
def test_no_id_depends_on_a_score(stream, seed, change):
    """Scoring with any model leaves cohorts, matches, draws and scale samples alone, for every variant."""
    fact = stream.snapshots[0].train[:3]
    model = random_model(stream, "complex", seed)
    other = random_model(stream, "complex", seed + (change == "randomise"))
    if change == "negate":
        other.relation.neg_()
    if change == "permute":
        other.entity.copy_(other.entity.flip(0))
    ids = []
    for judged in (model, other):
        for variant in VARIANTS.values():
            made = Comparison.build(stream, 1, fact, run=seed, variant=variant)
            penalty_records(made, judged)
            index = np.arange(len(made.cohort))
            drawn = made.references.draw(index)
            ids.append((made.cohort.scale, made.cohort.n_newcomers, made.eligible, drawn.id, drawn.level))
    n = len(VARIANTS)
    for at in range(n):
        assert all(np.array_equal(a, b) for a, b in zip(ids[at], ids[at + n], strict=True))
    for name in ("mmr", "shuffled", "uncentered"):  # the very same references as MEOR
        at = list(VARIANTS).index(name)
        assert all(np.array_equal(a, b) for a, b in zip(ids[0], ids[at], strict=True))


def test_members_of_an_exhausted_cell_repeat_evenly():
    stream = growing(1, n_old=3, n_new=40, n_relations=1, density=1)
    cohort = build_cohort(stream, 1, stream.snapshots[0].train[:1], run=0)
    made = build_references(cohort, Structure.through(stream, 1), draws=50, rule="role")
    pool = cohort.old_pool_of(0)
    count = Counter(made.draws_of(0).ravel().tolist())
    assert set(count) == set(pool.tolist())
    expected = sum(count.values()) / len(pool)
    assert all(abs(value - expected) < 6 * np.sqrt(expected) for value in count.values())
