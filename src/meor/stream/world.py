"""The embedded default stream: a small invented world that grows, with planted newcomer pressure.

People, places, organisations and works live in communities (countries, professions, genres); within a
community ties go to those who already have many, so there are hubs and tails. Five snapshots: a base and
four updates with newcomers, a few facts between old entities, and from time to time a new relation.

**The planted truth.** Every update admits eight strong competitors: two metropolises, employers,
celebrities and classics. Each joins one community, and about two fifths of that community's *old* members
get a fact with it (`x has lived in M`), so that it becomes one of the community's best-connected entities at
once. The other old members never do, in any split of any snapshot. An embedding that generalises within a
community will therefore put the competitor above the established answers of those untouched members,
although it is no answer of theirs: candidate-set interference with a known cause.

`Stream.planted` holds label triples (newcomer, relation, displaced answer). Each says: with u the update
that admitted the newcomer, there are at least `MIN_QUERIES` test facts (x, relation, displaced answer) from
snapshots before u, x being an untouched member of the community, for which the newcomer is an eligible
false candidate on the tail side, now and at every later update. What a trained model should show: at update
u the distinct (newcomer, relation) pairs of that update cost historical tail queries more reciprocal rank
than nearly all other pairs do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meor.random import generator
from meor.stream.snapshot import LabelFact, Stream, build_stream
from meor.stream.society import CITES, COUNTRIES, GENRES, INFLUENCED, LIVED, PROFESSIONS, WORKS_FOR, Society
from meor.typing import Split

SNAPSHOTS = 5
MIN_QUERIES = 2  # with a single query, finding the planted truth would be a matter of luck
DISPLACED = 3  # at most so many displaced answers are named per planted newcomer
HELD_OUT = 0.15  # of a snapshot's facts, for valid and again for test
PLANTED_PER_KIND = 2  # so many metropolises, employers, celebrities and classics per update
TOUCHED_SHARE = 0.4  # of the community's old members

_COMMUNITIES = {LIVED: COUNTRIES, WORKS_FOR: COUNTRIES, INFLUENCED: PROFESSIONS, CITES: GENRES}


@dataclass(frozen=True, slots=True)
class _Plant:
    """A newcomer built to compete for the `relation` queries of the untouched."""

    newcomer: str
    relation: str
    update: int
    untouched: frozenset[str]  # for membership only: its order would depend on the process


def world(seed: int = 0) -> Stream:
    """The embedded stream of a seed: the same labels, facts and splits on every machine."""
    society = Society(seed)
    turns = {relation: society.rng.permutation(len(of)) for relation, of in _COMMUNITIES.items()}
    rng = generator("world", seed, "splits")
    seen: set[tuple[str, str]] = set()
    plants: list[_Plant] = []
    snapshots: list[dict[Split, Sequence[LabelFact]]] = []
    for index in range(SNAPSHOTS):
        society.begin(index)
        for turn in range((index - 1) * PLANTED_PER_KIND, index * PLANTED_PER_KIND) if index else ():
            for relation, order in turns.items():
                plants.append(_compete(society, relation, int(order[turn % len(order)]), index))
        snapshots.append(_split(society.finish(index), seen, rng))
    planted = [triple for plant in plants for triple in _displaced(plant, snapshots)]
    return build_stream("world", snapshots, planted)


def _compete(society: Society, relation: str, community: int, update: int) -> _Plant:
    """Admit a strong competitor into a community: two fifths of its old members get a fact with it."""
    if relation == LIVED:
        newcomer, urn = society.add_city(community), society.city[community]
    elif relation == WORKS_FOR:
        newcomer, urn = society.add_company(community), society.company[community]
    elif relation == INFLUENCED:
        newcomer, urn = society.add_person(community).label, society.model[community]
    else:
        newcomer, urn = society.add_work(community).label, society.classic[community]
    members = _old_members(society, relation, community)
    order = society.rng.permutation(len(members))
    cut = round(TOUCHED_SHARE * len(members))
    for index in order[:cut]:
        society.say(members[index], relation, newcomer)
        urn.append(newcomer)
    return _Plant(newcomer, relation, update, frozenset(members[index] for index in order[cut:]))


def _old_members(society: Society, relation: str, community: int) -> list[str]:
    if relation == CITES:
        return [work.label for work in society.old_works if work.genre == community]
    if relation == INFLUENCED:
        return [person.label for person in society.old_people if person.profession == community]
    return [person.label for person in society.old_people if person.country == community]


def _split(
    facts: Sequence[LabelFact], seen: set[tuple[str, str]], rng: np.random.Generator
) -> dict[Split, Sequence[LabelFact]]:
    """Hold out facts whose entities and relation all occur earlier; adds to `seen` for later snapshots."""
    train: list[LabelFact] = []
    free: list[LabelFact] = []
    for index in rng.permutation(len(facts)):
        head, relation, tail = facts[index]
        parts = {("entity", head), ("relation", relation), ("entity", tail)}
        (free if parts <= seen else train).append(facts[index])
        seen |= parts
    count = min(round(HELD_OUT * len(facts)), len(free) // 2)
    held_out, rest = free[: 2 * count], free[2 * count :]
    return {Split.TRAIN: train + rest, Split.VALID: held_out[:count], Split.TEST: held_out[count:]}


def _displaced(plant: _Plant, snapshots: Sequence[dict[Split, Sequence[LabelFact]]]) -> list[LabelFact]:
    """The answers a planted newcomer competes with, most queried first."""
    queries = Counter(
        tail
        for snapshot in snapshots[: plant.update]
        for head, relation, tail in snapshot[Split.TEST]
        if relation == plant.relation and head in plant.untouched
    )
    ordered = sorted(queries.items(), key=lambda item: (-item[1], item[0]))
    return [
        (plant.newcomer, plant.relation, answer)
        for answer, count in ordered[:DISPLACED]
        if count >= MIN_QUERIES
    ]
