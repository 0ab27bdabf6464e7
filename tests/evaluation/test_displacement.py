from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests import oracle

from meor.cohort.matching import Structure
from meor.evaluation import displacement
from meor.evaluation.rank import rank_update
from meor.typing import Role, Side


def _ranked(seed: int = 0):
    rng = np.random.default_rng(seed)
    stream = oracle.small_stream(rng, admitted=5, facts=25)
    model = oracle.dyadic_model("complex", len(stream.entities), len(stream.relations), rng)
    return stream, [each for update in stream.updates for each in rank_update(stream, model, update)]


def test_a_tally_counts_historical_queries_alone():
    _, ranks = _ranked()
    rows = [
        (int(old), int(cur))
        for each in ranks
        for old, cur, role in zip(each.old, each.cur, each.occurrences.role, strict=True)
        if role == Role.HISTORICAL
    ]
    found = displacement.tally(ranks)
    assert found.queries == len(rows)
    assert found.displaced == sum(cur > old for old, cur in rows)
    assert found.places == sum(cur - old for old, cur in rows)
    assert abs(found.lost - sum(1 / old - 1 / cur for old, cur in rows)) < 1e-12


def test_no_query_loses_nothing_and_has_no_mean():
    assert displacement.tally([]).to_json() == {
        "queries": 0,
        "displaced": 0,
        "places": 0,
        "mean_reciprocal_rank_lost": None,
    }
    assert displacement.worst([]) == ()


def test_the_worst_lost_most_reciprocal_rank():
    _, ranks = _ranked(1)
    everything = displacement.worst(ranks, 10_000)
    assert len(everything) == displacement.tally(ranks).displaced
    assert [each.lost for each in everything] == sorted((each.lost for each in everything), reverse=True)
    assert displacement.worst(ranks, 3) == everything[:3]


def test_tables_partition_the_whole_by_relation_cohort_and_degree():
    stream, ranks = _ranked(2)
    total = displacement.tally(ranks)
    found = {table.name: dict(table.rows) for table in displacement.tables(stream, ranks)}
    assert set(found) == {"relation", "admitted_at", "degree_bin"}
    for rows in found.values():
        assert sum(row.queries for row in rows.values()) == total.queries
        assert sum(row.places for row in rows.values()) == total.places
        assert abs(sum(row.lost for row in rows.values()) - total.lost) < 1e-12


def test_an_answers_cohort_and_degree_are_those_of_the_stream():
    stream, ranks = _ranked(2)
    found = {table.name: dict(table.rows) for table in displacement.tables(stream, ranks)}
    by_cohort: dict[int, int] = {}
    by_bin: dict[int, int] = {}
    for each in ranks:
        asked = each.occurrences
        bins = Structure.through(stream, asked.update).degree_bin[asked.side]
        for answer in asked.answer[asked.role == Role.HISTORICAL]:
            cohort = stream.entities.admitted_at[answer]
            by_cohort[cohort] = by_cohort.get(cohort, 0) + 1
            by_bin[int(bins[answer])] = by_bin.get(int(bins[answer]), 0) + 1
    assert {key: row.queries for key, row in found["admitted_at"].items()} == by_cohort
    assert {key: row.queries for key, row in found["degree_bin"].items()} == by_bin


def test_a_stream_without_newcomers_displaces_nobody():
    rng = np.random.default_rng(0)
    stream = oracle.small_stream(rng, admitted=0, facts=25)
    model = oracle.dyadic_model("transe", len(stream.entities), len(stream.relations), rng)
    ranks = rank_update(stream, model, 2)
    assert displacement.tally(ranks).displaced == 0
    assert displacement.worst(ranks) == ()


def test_what_was_lost_is_a_mean_over_all_historical_queries():
    assert displacement.Tally(queries=4, displaced=1, places=3, lost=0.5).mean_lost == 0.125
    _, ranks = _ranked()
    found = displacement.tally(ranks)
    assert 0 < found.displaced < found.queries
    assert found.to_json()["mean_reciprocal_rank_lost"] == found.lost / found.queries


def test_each_newcomer_ahead_is_charged_an_equal_share_of_what_was_lost():
    one = displacement.Displaced(1, Side.TAIL, 0, (3, 0, 8), old=2, cur=5)
    assert one.answer == 8
    assert one.lost == 0.5 - 0.2
    assert one.share == one.lost / 3


def test_of_equal_losses_the_one_that_fell_further_comes_first():
    """Two sides of one query are given the same loss by hand."""
    _, ranks = _ranked()
    one = next(each for each in ranks if ((each.cur > each.old) & (each.occurrences.role == 0)).any())
    row = int(np.flatnonzero((one.cur > one.old) & (one.occurrences.role == Role.HISTORICAL))[0])
    short, long = (replace(one, old=one.old.copy(), cur=one.cur.copy()) for _ in range(2))
    for each, (old, cur) in ((short, (2, 4)), (long, (3, 12))):  # both lose a quarter, to the bit
        each.old[:], each.cur[:] = 1, 1
        each.old[row], each.cur[row] = old, cur
    for order in ((short, long), (long, short)):
        assert [found.cur - found.old for found in displacement.worst(order)] == [9, 2]


def test_a_short_list_of_the_worst_is_cut_by_reciprocal_rank_lost():
    """First to second loses a half; tenth to thousandth a tenth."""
    _, ranks = _ranked()
    one = next(each for each in ranks if (each.occurrences.role == Role.HISTORICAL).sum() > 1)
    rows = np.flatnonzero(one.occurrences.role == Role.HISTORICAL)[:2]
    old, cur = np.ones(len(one.old), np.int64), np.ones(len(one.old), np.int64)
    old[rows], cur[rows] = (10, 1), (1000, 2)
    (found,) = displacement.worst([replace(one, old=old, cur=cur)], 1)
    assert (found.old, found.cur) == (1, 2)
    old[rows], cur[rows] = (2, 3), (3, 300)  # a sixth and a third
    (found,) = displacement.worst([replace(one, old=old, cur=cur)], 1)
    assert (found.old, found.cur) == (3, 300)
