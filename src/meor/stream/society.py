"""The invented society behind the embedded world: who is admitted when, and which facts come about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meor.random import generator
from meor.stream.names import AWARDS, COUNTRIES, GENRES, LANGUAGES, PROFESSIONS, Namer
from meor.stream.snapshot import LabelFact

LIVED, WORKS_FOR, INFLUENCED, CITES = "has lived in", "works for", "influenced by", "cites"
PLANTED_A_KIND = 2  # a metropolis, an employer, a celebrity and a classic, so many times an update
TOUCHED_SHARE = 0.4  # of the community's old members

COMMUNITIES: dict[str, tuple[str, ...]] = {
    LIVED: COUNTRIES,
    WORKS_FOR: COUNTRIES,
    INFLUENCED: PROFESSIONS,
    CITES: GENRES,
}


@dataclass(frozen=True, slots=True)
class _Size:
    cities: int
    companies: int
    universities: int
    societies: int
    people: int
    works: int
    settled: int


_BASE = _Size(cities=78, companies=48, universities=18, societies=18, people=440, works=300, settled=0)
_UPDATE = _Size(cities=5, companies=4, universities=1, societies=2, people=104, works=78, settled=45)


class _Urn:
    """Preferential attachment: every draw puts two more balls of the drawn member into the urn."""

    __slots__ = ("_balls", "_rng")

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._balls: list[str] = []

    def add(self, label: str) -> None:
        self._balls.append(label)

    def draw(self) -> str:
        label = self._balls[int(self._rng.integers(len(self._balls)))]
        self._balls += (label, label)
        return label

    def __len__(self) -> int:
        return len(self._balls)


@dataclass(frozen=True, slots=True)
class _Person:
    label: str
    country: int
    profession: int


@dataclass(frozen=True, slots=True)
class _Work:
    label: str
    genre: int


@dataclass(frozen=True, slots=True)
class Plant:
    """A newcomer built to compete for the `relation` queries of the untouched."""

    newcomer: str
    relation: str
    update: int
    untouched: frozenset[str]  # for membership only: its order would depend on the process


class Society:
    """The world so far; `grow` adds one snapshot and returns its facts in the order they came about."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = generator("world", seed, "facts")
        self.name = Namer(generator("world", seed, "labels"))
        self.people: list[_Person] = []
        self.works: list[_Work] = []
        self.plants: list[Plant] = []
        self.author = _Urn(rng)
        self.city = [_Urn(rng) for _ in COUNTRIES]
        self.company = [_Urn(rng) for _ in COUNTRIES]
        self.university = [_Urn(rng) for _ in COUNTRIES]
        self.society = [_Urn(rng) for _ in PROFESSIONS]
        self.model = [_Urn(rng) for _ in PROFESSIONS]  # whom people of a profession look up to
        self.classic = [_Urn(rng) for _ in GENRES]
        self._person_of: dict[str, _Person] = {}
        self._city_of: dict[str, str] = {}  # where an organisation sits
        self._turn = {kind: rng.permutation(len(of)) for kind, of in COMMUNITIES.items()}
        self._known: dict[LabelFact, None] = {}
        self._facts: list[LabelFact] = []

    def grow(self, snapshot: int) -> list[LabelFact]:
        self._facts = []
        size = _UPDATE if snapshot else _BASE
        old_people, old_works = list(self.people), list(self.works)
        self._add_places(size)
        if snapshot:
            self._plant(snapshot, old_people, old_works)
        for _ in range(size.people):
            self._add_person()
        for _ in range(size.works):
            self._add_work()
        for _ in range(size.settled):
            self._settle(old_people, old_works)
        if snapshot >= 2:
            self._award(AWARDS[: snapshot - 1])
        if snapshot >= 3:
            self._translate()
        return self._facts

    def _say(self, head: str, relation: str, tail: str) -> None:
        fact = (head, relation, tail)
        if head != tail and fact not in self._known:
            self._known[fact] = None
            self._facts.append(fact)

    def _chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _any(self, count: int) -> int:
        return int(self.rng.integers(count))

    def _add_places(self, size: _Size) -> None:
        def community(index: int, count: int) -> int:
            # the base gives every community its share, so that no urn is empty
            return index % count if size is _BASE else self._any(count)

        for index in range(size.cities):
            self._add_city(community(index, len(COUNTRIES)))
        for index in range(size.companies):
            self._add_company(community(index, len(COUNTRIES)))
        for index in range(size.universities):
            self._based(self.name.university(), community(index, len(COUNTRIES)), self.university)
        for index in range(size.societies):
            profession = community(index, len(PROFESSIONS))
            label = self.name.society(PROFESSIONS[profession])
            self.society[profession].add(label)
            self._say(label, "unites", PROFESSIONS[profession])
            self._say(label, "based in", self.city[self._any(len(COUNTRIES))].draw())

    def _add_city(self, country: int) -> str:
        label = self.name.city()
        self._say(label, "located in", COUNTRIES[country])
        if not len(self.city[country]):
            self._say(label, "capital of", COUNTRIES[country])
            self._say(COUNTRIES[country], "official language", LANGUAGES[country])
        elif self._chance(0.5):
            twin = self.city[self._any(country + 1)].draw()
            self._say(label, "twinned with", twin)
            self._say(twin, "twinned with", label)
        self.city[country].add(label)
        return label

    def _add_company(self, country: int) -> str:
        label = self.name.company()
        self._based(label, country, self.company)
        if self._chance(0.4):
            self._say(label, "trades with", self.company[country].draw())
        return label

    def _based(self, label: str, country: int, kind: list[_Urn]) -> None:
        self._city_of[label] = self.city[country].draw()
        kind[country].add(label)
        self._say(label, "based in", self._city_of[label])
        self._say(label, "operates in", COUNTRIES[country])

    def _add_person(self, profession: int | None = None) -> _Person:
        country = self._any(len(COUNTRIES))
        person = _Person(
            self.name.person(), country, self._any(len(PROFESSIONS)) if profession is None else profession
        )
        birthplace = self.city[country].draw()
        self._say(person.label, "born in", birthplace)
        self._say(person.label, "citizen of", COUNTRIES[country])
        self._say(person.label, "profession", PROFESSIONS[person.profession])
        self._say(person.label, LIVED, birthplace if self._chance(0.5) else self.city[country].draw())
        for _ in range(int(self.rng.poisson(1.2))):
            self._say(person.label, LIVED, self.city[country].draw())
        for _ in range(1 + int(self.rng.poisson(0.5))):
            employer = self.company[country].draw()
            self._say(person.label, WORKS_FOR, employer)
            self._say(person.label, LIVED, self._city_of[employer])
        self._add_ties(person)
        self.people.append(person)
        self._person_of[person.label] = person
        self.author.add(person.label)
        self.model[person.profession].add(person.label)
        return person

    def _add_ties(self, person: _Person) -> None:
        if self._chance(0.7):
            self._say(person.label, "studied at", self.university[person.country].draw())
        for _ in range(int(self.rng.poisson(0.8))):
            self._say(person.label, "member of", self.society[person.profession].draw())
        for _ in range(int(self.rng.poisson(1.8)) if len(self.model[person.profession]) else 0):
            self._say(person.label, INFLUENCED, self.model[person.profession].draw())
        if self.people and self._chance(0.25):
            spouse = self.people[self._any(len(self.people))].label
            self._say(person.label, "married to", spouse)
            self._say(spouse, "married to", person.label)

    def _add_work(self, genre: int | None = None) -> _Work:
        author = self._person_of[self.author.draw()]
        if genre is None:
            # each profession has its genre, and now and then somebody strays
            genre = author.profession if self._chance(0.75) else self._any(len(GENRES))
        work = _Work(self.name.work(), genre)
        self._say(author.label, "wrote", work.label)
        self._say(work.label, "genre", GENRES[genre])
        self._say(work.label, "written in", LANGUAGES[author.country])
        self._say(work.label, "published by", self.company[author.country].draw())
        if self._chance(0.6):
            self._say(work.label, "set in", self.city[author.country].draw())
        for _ in range(int(self.rng.poisson(2.6)) if len(self.classic[genre]) else 0):
            self._say(work.label, CITES, self.classic[genre].draw())
        self.works.append(work)
        self.classic[genre].add(work.label)
        return work

    def _settle(self, people: Sequence[_Person], works: Sequence[_Work]) -> None:
        """One new fact between old entities; never one that would touch the untouched."""
        person = people[self._any(len(people))]
        work = works[self._any(len(works))]
        head, relation, tail = (
            (person.label, "studied at", self.university[person.country].draw()),
            (person.label, "member of", self.society[person.profession].draw()),
            (work.label, "set in", self.city[self._any(len(COUNTRIES))].draw()),
        )[self._any(3)]
        self._say(head, relation, tail)

    def _award(self, awards: Sequence[str]) -> None:
        for _ in range(25):
            self._say(self.author.draw(), "awarded", awards[self._any(len(awards))])

    def _translate(self) -> None:
        for _ in range(25):
            genre = self._any(len(GENRES))
            self._say(self.classic[genre].draw(), "translated by", self.model[genre].draw())

    def _plant(self, update: int, people: Sequence[_Person], works: Sequence[_Work]) -> None:
        """Admit this update's competitors, each into a community whose turn it is."""
        for turn in range((update - 1) * PLANTED_A_KIND, update * PLANTED_A_KIND):
            for relation, turns in self._turn.items():
                community = int(turns[turn % len(turns)])
                if relation in (LIVED, WORKS_FOR):
                    members = [person.label for person in people if person.country == community]
                elif relation == INFLUENCED:
                    members = [person.label for person in people if person.profession == community]
                else:
                    members = [work.label for work in works if work.genre == community]
                self._compete(relation, community, members, update)

    def _compete(self, relation: str, community: int, members: Sequence[str], update: int) -> None:
        if relation == LIVED:
            newcomer, urn = self._add_city(community), self.city[community]
        elif relation == WORKS_FOR:
            newcomer, urn = self._add_company(community), self.company[community]
        elif relation == INFLUENCED:
            newcomer, urn = self._add_person(community).label, self.model[community]
        else:
            newcomer, urn = self._add_work(community).label, self.classic[community]
        order = self.rng.permutation(len(members))
        cut = round(TOUCHED_SHARE * len(members))
        for index in order[:cut]:
            self._say(members[index], relation, newcomer)
            urn.add(newcomer)
        self.plants.append(Plant(newcomer, relation, update, frozenset(members[i] for i in order[cut:])))
