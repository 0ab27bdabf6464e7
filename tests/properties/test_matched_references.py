"""P4: what must hold of every matched reference, against cells recomputed with plain sets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.growth import growing, random_model
from tests.properties.lengths import Lengths

from meor.cohort.matching import Structure, build_references
from meor.cohort.newcomers import build_cohort
from meor.methods.comparison import Comparison
from meor.methods.penalty import penalty_records
from meor.methods.registry import penalties
from meor.typing import SIDES, Side, Split

holds = Lengths(short=1000, long=20_000)
graphs = st.builds(
    growing,
    st.integers(0, 10**6),
    n_old=st.integers(3, 14),
    n_new=st.integers(1, 12),
    n_relations=st.integers(1, 4),
    density=st.integers(1, 5),
)


kinds = st.sampled_from(sorted(penalties()))


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


@holds(graphs, st.integers(0, 2**40), st.sampled_from(["all", "role"]))
def test_references_obey_every_rule_of_matching(stream, run, signature):
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


def ids_of(made: Comparison) -> tuple[np.ndarray, ...]:
    drawn = made.references.draw(np.arange(len(made.cohort)))
    return made.cohort.scale, made.cohort.n_newcomers, made.eligible, drawn.id, drawn.level


def same(one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@holds(graphs, st.integers(0, 100), st.sampled_from(["negate", "permute", "randomise"]), kinds)
def test_no_id_depends_on_a_score(stream, seed, change, kind):
    """Scoring with any model leaves cohorts, matches, draws and scale samples alone, for every variant."""
    fact = stream.snapshots[0].train[:3]
    model = random_model(stream, "complex", seed)
    other = random_model(stream, "complex", seed + (change == "randomise"))
    if change == "negate":
        other.relation.neg_()
    if change == "permute":
        other.entity.copy_(other.entity.flip(0))
    found = []
    for judged in (model, other):
        made = Comparison.build(stream, 1, fact, run=seed, variant=penalties()[kind])
        penalty_records(made, judged)
        found.append(ids_of(made))
    assert same(*found)


@holds(graphs, st.integers(0, 2**40))
def test_every_variant_of_a_pair_has_the_references_of_meor(stream, run):
    fact = stream.snapshots[0].train[:3]
    meor, *others = (
        ids_of(Comparison.build(stream, 1, fact, run=run, variant=penalties()[name]))
        for name in ("meor", "mmr", "shuffled", "uncentered")
    )
    assert all(same(meor, other) for other in others)
    role = ids_of(Comparison.build(stream, 1, fact, run=run, variant=penalties()["uor"]))
    assert same(meor[:3], role[:3])  # UOR has draws of its own and shares the rest


@holds(graphs, st.integers(0, 2**40), st.randoms(use_true_random=False))
def test_a_draw_depends_on_its_occurrence_alone(stream, run, random):
    """Not on the other facts of the buffer, their order, or how often one is asked for."""
    fact = stream.snapshots[0].train[:4]
    order = random.choices(range(len(fact)), k=6)
    structure = Structure.through(stream, 1)
    whole, other = (
        build_references(build_cohort(stream, 1, chosen, run=run), structure)
        for chosen in (fact, fact[order])
    )
    index = np.array([2 * at + side for at in order for side in SIDES])
    one, again = whole.draw(index), other.draw(np.arange(len(index)))
    assert np.array_equal(one.id, again.id)
    assert np.array_equal(one.level, again.level)
    assert np.array_equal(whole.cohort.scale[index], other.cohort.scale)


def test_members_of_an_exhausted_cell_repeat_evenly():
    stream = growing(1, n_old=3, n_new=40, n_relations=1, density=1)
    cohort = build_cohort(stream, 1, stream.snapshots[0].train[:1], run=0)
    made = build_references(cohort, Structure.through(stream, 1), draws=50, rule="role")
    pool = cohort.old_pool_of(0)
    count = Counter(made.draws_of(0).ravel().tolist())
    assert set(count) == set(pool.tolist())
    expected = sum(count.values()) / len(pool)
    assert all(abs(value - expected) < 6 * np.sqrt(expected) for value in count.values())


@pytest.mark.long
@pytest.mark.parametrize("name", holds.known)
def test_the_same_at_length(name):
    holds.at_length(name)
