"""P3: ranks equal a sort of the whole universe, whatever the scores, filters, sizes and tiles."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from tests import oracle
from tests.properties.lengths import Lengths

from meor.backbone import BACKBONES, Model
from meor.errors import MemoryBudgetError
from meor.evaluation.rank import FilterPrefix, Rules, Ties, count_update, plain_rank, rank, rank_update
from meor.evaluation.tally import SMALLEST_BLOCK
from meor.stream.occurrence import EvaluationFilter, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Split

EXACT = sorted(name for name, backbone in BACKBONES.items() if backbone.compares_stored_rows)
"""Backbones whose scores of dyadic rows are exact sums; a unit row has roots in it."""

holds = Lengths(short=2000, long=20_000)


@dataclass
class Case:
    stream: Stream
    model: Model
    update: int
    split: Split

    @property
    def sizes(self) -> tuple[int, int]:
        counts = self.stream.entity_counts
        return (counts[self.update - 1] if self.update else 0), counts[self.update]


@st.composite
def cases(draw) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    stream = oracle.small_stream(
        rng,
        snapshots=draw(st.integers(1, 3)),
        base=draw(st.integers(1, 6)),
        admitted=draw(st.integers(0, 4)),
        facts=draw(st.integers(0, 12)),
        relations=draw(st.integers(1, 2)),
    )
    name = draw(st.sampled_from(["complex", "distmult", "transe"]))  # others: tests/backbone, test_rank
    model = oracle.dyadic_model(
        name,
        len(stream.entities),
        len(stream.relations),
        rng,
        dim=draw(st.integers(1, 3)),
        levels=draw(st.integers(0, 3)),
    )
    # A power of two keeps every sum exact and takes the scores far out of float32's range.
    scale = 2.0 ** draw(st.sampled_from([0, 0, 0, -90, 90, 300] if name == "transe" else [0, 0, 0, -90, 90]))
    model = Model(model.backbone, model.entity * scale, model.relation * scale)
    return Case(stream, model, draw(st.integers(0, len(stream.snapshots) - 1)), draw(st.sampled_from(SPLITS)))


@holds(cases())
def test_ranks_equal_a_sort_by_score_and_id_in_both_universes(case):
    n_old, n_cur = case.sizes
    known = case.stream.prefix(case.update)
    for ranks in rank_update(case.stream, case.model, case.update, split=case.split):
        judged = oracle.judge(case.model, ranks.occurrences, known, n_old, n_cur)
        assert ranks.cur.tolist() == [each.cur for each in judged]
        assert ranks.old.tolist() == [each.old or 0 for each in judged]


@holds(cases())
def test_the_current_rank_is_the_old_rank_plus_the_newcomers_ahead(case):
    n_old, n_cur = case.sizes
    known = case.stream.prefix(case.update)
    for ranks in rank_update(case.stream, case.model, case.update, split=case.split):
        judged = oracle.judge(case.model, ranks.occurrences, known, n_old, n_cur)
        has_old = ranks.occurrences.answer < n_old
        ahead = np.array([len(each.ahead) for each in judged], dtype=np.int64)
        assert (ranks.cur[has_old] == ranks.old[has_old] + ahead[has_old]).all()
        assert (ranks.old[~has_old] == 0).all()


@holds(cases())
def test_ranks_are_those_of_the_plain_reference(case):
    for ranks in rank_update(case.stream, case.model, case.update, split=case.split):
        asked = ranks.occurrences
        if not len(asked):
            continue
        score = np.array(oracle.scores(case.model, asked, case.sizes[1]))
        known = EvaluationFilter.through(case.stream, case.update).on(asked.side)
        left_out = np.zeros(score.shape, bool)
        for row, (anchor, relation) in enumerate(zip(asked.anchor, asked.relation, strict=True)):
            left_out[row, known.of(anchor, relation)] = True
        old, cur = (plain_rank(score, asked.answer, left_out, universe) for universe in case.sizes)
        assert (ranks.cur == cur).all()
        assert (ranks.old == np.where(asked.answer < case.sizes[0], old, 0)).all()


@holds(cases())
def test_tie_rules_bracket_each_other_and_read_the_same_counts(case):
    n_old, n_cur = case.sizes
    for side in SIDES:
        asked = occurrences(case.stream, case.update, side, case.split)
        counts = count_update(case.stream, case.model, asked)
        rank_of = {ties: counts.ranks(ties)[1] for ties in Ties}
        judged = oracle.judge(case.model, asked, case.stream.prefix(case.update), n_old, n_cur)
        assert rank_of[Ties.OPTIMISTIC].tolist() == [1 + each.greater for each in judged]
        assert rank_of[Ties.PESSIMISTIC].tolist() == [1 + each.greater + each.tied for each in judged]
        assert (2 * rank_of[Ties.REALISTIC] == rank_of[Ties.OPTIMISTIC] + rank_of[Ties.PESSIMISTIC]).all()
        assert (rank_of[Ties.OPTIMISTIC] <= rank_of[Ties.ID]).all()
        assert (rank_of[Ties.ID] <= rank_of[Ties.PESSIMISTIC]).all()


@holds(cases())
def test_ties_by_id_give_every_candidate_of_a_query_a_rank_of_its_own(case):
    """Asked in turn about each entity with nothing known, ranks are a permutation: a total order."""
    n_old, n_cur = case.sizes
    nothing = EvaluationFilter.from_facts(np.empty((0, 3), dtype=np.int64), len(case.stream.relations))
    for side in SIDES:
        asked = occurrences(case.stream, case.update, side, case.split)
        if not len(asked):
            continue
        everyone = asked.select(np.zeros(n_cur, dtype=np.int64))
        everyone.fact[:, side.answer_column] = np.arange(n_cur)
        ranks = rank(case.model, everyone, nothing, (n_old, n_cur))
        assert sorted(ranks.cur.tolist()) == list(range(1, n_cur + 1))
        assert sorted(ranks.old[:n_old].tolist()) == list(range(1, n_old + 1))


@holds(cases(), st.sampled_from(list(FilterPrefix)))
def test_a_filter_never_removes_the_answer_and_never_worsens_a_rank(case, prefix):
    filtered, raw = (
        rank_update(case.stream, case.model, case.update, split=case.split, rules=rules)
        for rules in (Rules(filter_prefix=prefix), Rules(filter_prefix=prefix, filter_splits=()))
    )
    for some, every in zip(filtered, raw, strict=True):
        assert (some.cur >= 1).all()
        assert (some.cur <= every.cur).all()
        assert ((some.old == 0) == (every.old == 0)).all()


@holds(cases())
def test_the_introduced_filter_is_the_filter_of_the_introducing_snapshot(case):
    n_old, n_cur = case.sizes
    options = {"split": case.split, "rules": Rules(filter_prefix=FilterPrefix.INTRODUCED)}
    for ranks in rank_update(case.stream, case.model, case.update, **options):
        asked = ranks.occurrences
        for row in range(len(asked)):
            one = asked.select(np.array([row]))
            known = case.stream.prefix(int(asked.snapshot[row]))
            assert ranks.cur[row] == oracle.judge(case.model, one, known, n_old, n_cur)[0].cur


def stretched(model: Model, power: int) -> Model:
    """Scores times a power of two, to the bit."""
    entity = 2.0**power if model.backbone.name == "transe" else 1.0
    return Model(model.backbone, model.entity * entity, model.relation * 2.0**power)


def cubed(model: Model) -> Model:
    """Scores to the third: <a, b, c>^3 is the product of the rows' threefold Kronecker products."""
    thrice = [
        torch.stack([torch.kron(row, torch.kron(row, row)) for row in of])
        for of in (model.entity, model.relation)
    ]
    return Model(model.backbone, *thrice)


@holds(cases(), st.sampled_from([-3, 2, 40]))
def test_a_monotone_transform_of_all_scores_changes_no_rank(case, power):
    before = rank_update(case.stream, case.model, case.update, split=case.split)
    others = [stretched(case.model, power)]
    if case.model.backbone.name == "distmult":
        others.append(cubed(case.model))
    for model in others:
        after = rank_update(case.stream, model, case.update, split=case.split)
        for one, other in zip(before, after, strict=True):
            assert one.cur.tolist() == other.cur.tolist()
            assert one.old.tolist() == other.old.tolist()


@holds(cases(), st.integers(0, 2**32))
def test_neither_blocks_nor_screening_nor_company_changes_a_rank(case, seed):
    """Queries, many times over and in any order, cut into the smallest blocks a budget may force."""
    n_old, n_cur = case.sizes
    known = EvaluationFilter.through(case.stream, case.update)
    for side in SIDES:
        asked = occurrences(case.stream, case.update, side, case.split)
        if not len(asked):
            continue
        alone = [
            rank(case.model, asked.select(np.array([at])), known, (n_old, n_cur)) for at in range(len(asked))
        ]
        order = np.random.default_rng(seed).integers(0, len(asked), 2 * SMALLEST_BLOCK + 7)
        crowd = asked.select(order)
        least = smallest_budget(case.model, crowd, known, n_old, n_cur)
        for options in ({"memory": least}, {"screen": False}):
            ranks = rank(case.model, crowd, known, (n_old, n_cur), **options)
            assert ranks.cur.tolist() == [int(alone[at].cur[0]) for at in order]
            assert ranks.old.tolist() == [int(alone[at].old[0]) for at in order]


def smallest_budget(model, asked, known, n_old, n_cur) -> int:
    """What the refusal of an impossible budget says is needed."""
    with pytest.raises(MemoryBudgetError) as refused:
        rank(model, asked, known, (n_old, n_cur), memory=1)
    (needed,) = re.findall(r"needs ([\d,]+)", str(refused.value))
    return int(needed.replace(",", ""))


@pytest.mark.parametrize("name", EXACT)
def test_neither_budget_nor_screening_nor_order_changes_a_rank(name):
    rng = np.random.default_rng(5)
    stream = oracle.small_stream(rng, base=120, admitted=60, facts=900, relations=3)
    model = oracle.dyadic_model(name, len(stream.entities), len(stream.relations), rng, dim=6, levels=2)
    n_old, n_cur = stream.entity_counts[1], stream.entity_counts[2]
    known = EvaluationFilter.through(stream, 2)
    for side in SIDES:
        asked = occurrences(stream, 2, side)
        assert len(asked) > 300
        whole = rank(model, asked, known, (n_old, n_cur))
        tight = rank(model, asked, known, (n_old, n_cur), memory=5 << 20)
        plain = rank(model, asked, known, (n_old, n_cur), screen=False)
        order = rng.permutation(len(asked))
        mixed = rank(model, asked.select(order), known, (n_old, n_cur))
        for other in (tight, plain):
            assert (whole.cur == other.cur).all()
            assert (whole.old == other.old).all()
        assert (whole.cur[order] == mixed.cur).all()


@pytest.mark.long
@pytest.mark.parametrize("name", holds.known)
def test_the_same_at_length(name):
    holds.at_length(name)
