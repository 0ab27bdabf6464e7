from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from meor.stream.occurrence import EvaluationFilter, occurrences
from meor.stream.snapshot import Stream
from meor.stream.world import MIN_QUERIES, world
from meor.typing import SPLITS, Role, Side, Split


@pytest.fixture(scope="module", params=[0, 1, 7])
def stream(request: pytest.FixtureRequest) -> Stream:
    return world(request.param)


def test_the_world_has_five_snapshots_of_the_promised_size(stream: Stream) -> None:
    assert len(stream.snapshots) == 5
    assert 800 <= stream.entity_counts[0] <= 1500
    assert all(150 <= len(stream.newcomers(update)) <= 300 for update in stream.updates)
    assert 10_000 <= sum(len(snapshot) for snapshot in stream.snapshots) <= 16_000
    assert all(len(getattr(snapshot, split)) > 200 for snapshot in stream.snapshots for split in SPLITS)


def test_every_entity_and_relation_is_in_train_by_the_snapshot_that_uses_it(stream: Stream) -> None:
    for index in range(len(stream.snapshots)):
        train, every = stream.prefix(index, [Split.TRAIN]), stream.prefix(index)
        assert set(train[:, [0, 2]].ravel()) == set(every[:, [0, 2]].ravel())
        assert set(train[:, 1]) == set(every[:, 1])


def test_no_fact_is_told_twice_and_none_is_a_loop(stream: Stream) -> None:
    facts = stream.prefix(4)
    assert len(np.unique(facts, axis=0)) == len(facts)
    assert (facts[:, 0] != facts[:, 2]).all()


def test_every_role_occurs_at_every_update_on_both_sides(stream: Stream) -> None:
    for update in stream.updates:
        for side in Side:
            roles = set(occurrences(stream, update, side).role.tolist())
            assert {Role.HISTORICAL, Role.TARGET_NEWCOMER, Role.QUERY_NEWCOMER} <= roles
    # facts between old entities come about too, though not in each small test split
    old = stream.entity_counts[0]
    assert (stream.snapshots[1].facts()[:, [0, 2]] < old).all(1).sum() >= 20


def test_later_updates_bring_new_relations(stream: Stream) -> None:
    assert stream.relation_counts[0] < stream.relation_counts[2] < stream.relation_counts[4]


def test_degrees_have_hubs_and_a_tail(stream: Stream) -> None:
    degree = np.bincount(stream.prefix(4)[:, [0, 2]].ravel())
    assert degree.max() > 15 * np.median(degree)
    assert (degree <= 3).sum() > 10


def test_every_update_plants_competitors_for_four_relations(stream: Stream) -> None:
    for update in stream.updates:
        relations = {
            relation
            for newcomer, relation, _ in stream.planted
            if stream.entities.admitted_at[stream.entities.id(newcomer)] == update
        }
        assert relations == {"has lived in", "works for", "influenced by", "cites"}
    assert len({newcomer for newcomer, _, _ in stream.planted}) >= 28


def test_a_planted_newcomer_is_a_false_candidate_of_enough_historical_queries(stream: Stream) -> None:
    known = EvaluationFilter.through(stream, 4)
    for newcomer, relation, displaced in stream.planted:
        n, r, a = stream.entities.id(newcomer), stream.relations.id(relation), stream.entities.id(displaced)
        update = stream.entities.admitted_at[n]
        assert stream.entities.admitted_at[a] < update
        test = stream.prefix(update - 1, [Split.TEST])
        anchors = test[(test[:, 1] == r) & (test[:, 2] == a), 0]
        eligible = [x for x in anchors.tolist() if n not in known.tail.of(x, r)]
        assert len(eligible) >= MIN_QUERIES, (newcomer, relation, displaced)


def test_a_planted_newcomer_is_at_once_among_the_best_connected_answers_of_its_relation(
    stream: Stream,
) -> None:
    for newcomer, relation, _ in stream.planted:
        n, r = stream.entities.id(newcomer), stream.relations.id(relation)
        update = stream.entities.admitted_at[n]
        train = stream.snapshots[update].train
        newcomers = stream.newcomers(update)
        by_old = train[(train[:, 1] == r) & (train[:, 2] == n) & (train[:, 0] < newcomers.start)]
        assert len(by_old) >= 8
        tails = np.bincount(train[train[:, 1] == r][:, 2], minlength=newcomers.stop)
        # among the four best of the ~200 newcomers: two are planted, two may share their luck
        assert (tails[newcomers.start :] > tails[n]).sum() <= 3


def test_another_process_with_another_hash_seed_tells_the_same_world() -> None:
    code = "from meor.stream.world import world; w = world(3); print(w.content_hash(), w.planted)"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_seeds_tell_different_worlds() -> None:
    assert world(0).content_hash() != world(1).content_hash()


def test_labels_are_readable_and_free_of_numbers() -> None:
    labels = world().entities.labels
    assert not [label for label in labels if any(c.isdigit() or c == "\t" for c in label)]


def test_the_world_is_the_one_that_results_were_measured_on() -> None:
    stream = world()
    assert stream.content_hash() == "f167ffff277eff7d5938faf2ed464ff8214d7caab969dae35bcbcfa418406db8"
    planted = hashlib.sha256(repr(stream.planted).encode()).hexdigest()
    assert planted == "2b9c59b190e00b9c7314be2d60d1b528287cf9503f6c0d31bffd0537ed7e52f7"
