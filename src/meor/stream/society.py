"""The invented society behind the embedded world: who is admitted when, and which facts come about.

Labels are invented, too (`names.json`): nothing there names a real person or place by intent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from meor.random import generator
from meor.stream.snapshot import LabelFact

_NAMES = json.loads(resources.files("meor.stream").joinpath("names.json").read_text(encoding="utf-8"))
_WORDS = {kind: " ".join(lines).split() for kind, lines in _NAMES["words"].items()}
_PARTS = {part: [_WORDS[kind] for kind in kinds] for part, kinds in _NAMES["parts"].items()}
_KINDS = ("countries", "languages", "professions", "genres", "awards")
COUNTRIES, LANGUAGES, PROFESSIONS, GENRES, AWARDS = (tuple(_NAMES[kind]) for kind in _KINDS)
LIVED, WORKS_FOR, INFLUENCED, CITES = "has lived in", "works for", "influenced by", "cites"

# Entities per snapshot, and facts between old entities.
_BASE = {"cities": 78, "companies": 48, "universities": 18, "societies": 18, "people": 440, "works": 300}
_UPDATE = {"cities": 5, "companies": 4, "universities": 1, "societies": 2, "people": 104, "works": 78}
_SETTLED = 45


class _Namer:
    """Hands out labels that are distinct over all kinds; the same seed gives the same labels."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._used = {*COUNTRIES, *LANGUAGES, *PROFESSIONS, *GENRES, *AWARDS}

    def __call__(self, kind: str, profession: str = "") -> str:
        form = self._pick(_NAMES["forms"][kind])
        for attempt in range(1000):
            parts = {name: "".join(map(self._pick, words)) for name, words in _PARTS.items()}
            label = form.format(**parts, c=profession.capitalize())
            if attempt > 100:
                label = f"{label} {attempt}"
            if label not in self._used:
                self._used.add(label)
                return label
        raise AssertionError("a thousand numbered labels cannot all be taken")

    def _pick(self, words: Sequence[str]) -> str:
        return words[int(self._rng.integers(len(words)))]


class _Urn(list[str]):
    """Preferential attachment: every draw puts two more balls of the drawn member into the urn."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self._rng = rng

    def draw(self) -> str:
        label = self[int(self._rng.integers(len(self)))]
        self += (label, label)
        return label


@dataclass(frozen=True, slots=True)
class Person:
    label: str
    country: int
    profession: int


@dataclass(frozen=True, slots=True)
class Work:
    label: str
    genre: int


class Society:
    """The world so far; `begin` and `finish` make one snapshot of it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = generator("world", seed, "facts")
        self.name = _Namer(generator("world", seed, "labels"))
        self.people: list[Person] = []
        self.works: list[Work] = []
        self.old_people: list[Person] = []  # those of earlier snapshots
        self.old_works: list[Work] = []
        self.author = _Urn(rng)
        self.city = [_Urn(rng) for _ in COUNTRIES]
        self.company = [_Urn(rng) for _ in COUNTRIES]
        self.university = [_Urn(rng) for _ in COUNTRIES]
        self.society = [_Urn(rng) for _ in PROFESSIONS]
        self.model = [_Urn(rng) for _ in PROFESSIONS]  # whom people of a profession look up to
        self.classic = [_Urn(rng) for _ in GENRES]
        self._person_of: dict[str, Person] = {}
        self._city_of: dict[str, str] = {}  # where an organisation sits
        self._known: set[LabelFact] = set()
        self._facts: list[LabelFact] = []

    def begin(self, snapshot: int) -> None:
        """Admit the places of a snapshot; whoever is here now counts as old."""
        self._facts = []
        self.old_people, self.old_works = list(self.people), list(self.works)
        self._add_places(snapshot)

    def finish(self, snapshot: int) -> list[LabelFact]:
        """Admit people and works, and return the facts of the snapshot in the order they came about."""
        size = _UPDATE if snapshot else _BASE
        for _ in range(size["people"]):
            self.add_person()
        for _ in range(size["works"]):
            self.add_work()
        for _ in range(_SETTLED if snapshot else 0):
            self._settle()
        if snapshot >= 2:
            for _ in range(25):
                self.say(self.author.draw(), "awarded", AWARDS[self._any(snapshot - 1)])
        if snapshot >= 3:
            for _ in range(25):
                genre = self._any(len(GENRES))
                self.say(self.classic[genre].draw(), "translated by", self.model[genre].draw())
        return self._facts

    def say(self, head: str, relation: str, tail: str) -> None:
        fact = (head, relation, tail)
        if head != tail and fact not in self._known:
            self._known.add(fact)
            self._facts.append(fact)

    def _chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _any(self, count: int) -> int:
        return int(self.rng.integers(count))

    def _add_places(self, snapshot: int) -> None:
        size = _UPDATE if snapshot else _BASE

        def community(index: int, count: int) -> int:
            # the base gives every community its share, so that no urn is empty
            return self._any(count) if snapshot else index % count

        for index in range(size["cities"]):
            self.add_city(community(index, len(COUNTRIES)))
        for index in range(size["companies"]):
            self.add_company(community(index, len(COUNTRIES)))
        for index in range(size["universities"]):
            self._based(self.name("university"), community(index, len(COUNTRIES)), self.university)
        for index in range(size["societies"]):
            profession = community(index, len(PROFESSIONS))
            label = self.name("society", PROFESSIONS[profession])
            self.society[profession].append(label)
            self.say(label, "unites", PROFESSIONS[profession])
            self.say(label, "based in", self.city[self._any(len(COUNTRIES))].draw())

    def add_city(self, country: int) -> str:
        label = self.name("city")
        self.say(label, "located in", COUNTRIES[country])
        if not len(self.city[country]):
            self.say(label, "capital of", COUNTRIES[country])
            self.say(COUNTRIES[country], "official language", LANGUAGES[country])
        elif self._chance(0.5):
            twin = self.city[self._any(country + 1)].draw()
            self.say(label, "twinned with", twin)
            self.say(twin, "twinned with", label)
        self.city[country].append(label)
        return label

    def add_company(self, country: int) -> str:
        label = self.name("company")
        self._based(label, country, self.company)
        if self._chance(0.4):
            self.say(label, "trades with", self.company[country].draw())
        return label

    def _based(self, label: str, country: int, kind: list[_Urn]) -> None:
        self._city_of[label] = self.city[country].draw()
        kind[country].append(label)
        self.say(label, "based in", self._city_of[label])
        self.say(label, "operates in", COUNTRIES[country])

    def add_person(self, profession: int | None = None) -> Person:
        country = self._any(len(COUNTRIES))
        person = Person(
            self.name("person"), country, self._any(len(PROFESSIONS)) if profession is None else profession
        )
        birthplace = self.city[country].draw()
        self.say(person.label, "born in", birthplace)
        self.say(person.label, "citizen of", COUNTRIES[country])
        self.say(person.label, "profession", PROFESSIONS[person.profession])
        self.say(person.label, LIVED, birthplace if self._chance(0.5) else self.city[country].draw())
        for _ in range(int(self.rng.poisson(1.2))):
            self.say(person.label, LIVED, self.city[country].draw())
        for _ in range(1 + int(self.rng.poisson(0.5))):
            employer = self.company[country].draw()
            self.say(person.label, WORKS_FOR, employer)
            self.say(person.label, LIVED, self._city_of[employer])
        self._add_ties(person)
        self.people.append(person)
        self._person_of[person.label] = person
        self.author.append(person.label)
        self.model[person.profession].append(person.label)
        return person

    def _add_ties(self, person: Person) -> None:
        if self._chance(0.7):
            self.say(person.label, "studied at", self.university[person.country].draw())
        for _ in range(int(self.rng.poisson(0.8))):
            self.say(person.label, "member of", self.society[person.profession].draw())
        for _ in range(int(self.rng.poisson(1.8)) if len(self.model[person.profession]) else 0):
            self.say(person.label, INFLUENCED, self.model[person.profession].draw())
        if self.people and self._chance(0.25):
            spouse = self.people[self._any(len(self.people))].label
            self.say(person.label, "married to", spouse)
            self.say(spouse, "married to", person.label)

    def add_work(self, genre: int | None = None) -> Work:
        author = self._person_of[self.author.draw()]
        if genre is None:
            # each profession has its genre, and now and then somebody strays
            genre = author.profession if self._chance(0.75) else self._any(len(GENRES))
        work = Work(self.name("work"), genre)
        self.say(author.label, "wrote", work.label)
        self.say(work.label, "genre", GENRES[genre])
        self.say(work.label, "written in", LANGUAGES[author.country])
        self.say(work.label, "published by", self.company[author.country].draw())
        if self._chance(0.6):
            self.say(work.label, "set in", self.city[author.country].draw())
        for _ in range(int(self.rng.poisson(2.6)) if len(self.classic[genre]) else 0):
            self.say(work.label, CITES, self.classic[genre].draw())
        self.works.append(work)
        self.classic[genre].append(work.label)
        return work

    def _settle(self) -> None:
        """One new fact between old entities; never one that would touch the untouched."""
        person = self.old_people[self._any(len(self.old_people))]
        work = self.old_works[self._any(len(self.old_works))]
        possible = (
            (person.label, "studied at", self.university[person.country].draw()),
            (person.label, "member of", self.society[person.profession].draw()),
            (work.label, "set in", self.city[self._any(len(COUNTRIES))].draw()),
        )
        self.say(*possible[self._any(3)])
