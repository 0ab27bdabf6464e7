"""Invented, readable labels for the embedded world. Nothing here names a real person or place by intent."""

from __future__ import annotations

import numpy as np

COUNTRIES = ("Valdoria", "Ostmere", "Calvenia", "Tirrasia", "Branholt", "Sundria")
LANGUAGES = ("Valdorian", "Ostmeric", "Calvenian", "Tirrasian", "Branholtish", "Valdorian")
PROFESSIONS = ("novelist", "cartographer", "composer", "physicist", "historian", "architect")
GENRES = ("sea story", "travelogue", "song cycle", "treatise", "chronicle", "pattern book")
AWARDS = ("Silver Quill", "Lantern Prize", "Order of the Heron", "Meridian Medal", "Amber Laurel")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FIRST = _words(
    "Ada Anselm Bram Brita Cleo Corin Dario Delia Edda Emeric Fenn Freya Gideon Greta Hale Hedda Ines Ivo "
    "Jonna Joren Kaia Kasimir Leon Lotte Luc Mira Moritz Nela Nils Odo Orla Pia Piet Quill Ria Runa Sela "
    "Sorin Tamsin Tove Udo Ulla Vera Viggo Wanda Wim Xenia Yara Yorick Zeno"
)
_SURNAME = _words(
    "Ald Ber Bran Cal Cor Dell Dorn Elm Fal Garr Hal Hol Isk Jar Kel Lind Lor Mor Nor Ost Pell Quar Ros "
    "Sel Tam Tor Ul Ver Wick Yar"
)
_SURNAME_END = _words("ell ander by croft dane en er holm ick ing is lake low man mond ow sen stedt ton vik")
_PLACE = _words(
    "Alder Amber Ash Barrow Birch Black Bright Castle Cinder Clear Crane Dun Elder Fair Fern Frost Grey "
    "Heron Iron Lark Lind Maple Mill North Oak Otter Raven Salt Silver Stone Swan Thorn White Wind"
)
_PLACE_END = _words("brook burgh bury dale fell field ford gate haven holm mere mouth port stead wick worth")
_PLACE_FORM = ("{}", "{}", "{}", "Harbour of {}", "Upper {}", "New {}", "{} Bay", "{}-on-Sea")
_ADJECTIVE = _words(
    "Amber Borrowed Burning Crooked Distant Drowned Empty Faithful Frozen Gilded Glass Hidden Hollow Last "
    "Lesser Lost Narrow Paper Patient Quiet Restless Salt Second Silent Sleeping Slow Sunken Unfinished"
)
_NOUN = _words(
    "Almanac Anchor Archive Atlas Bell Bridge Candle Compass Estuary Garden Gate Harbour Harvest Heron "
    "Island Ladder Lantern Ledger Lighthouse Map Meridian Mirror Orchard Overture River Season Staircase "
    "Tide Tower Voyage Winter"
)
_WORK_FORM = ("The {a} {n}", "The {a} {n}", "{n} of the {a} {m}", "Letters on the {a} {n}", "The {n} of {f}")
_COMPANY_FORM = ("{s} & {t}", "{s} Works", "{p} Shipping", "{p} Press", "{s} Brothers", "House of {s}")
_SOCIETY_FORM = ("{p} Guild of {c}s", "{a} Society of {c}s", "League of {p} {c}s", "{s} Circle of {c}s")


class Namer:
    """Hands out labels that are distinct over all kinds; the same seed gives the same labels."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._used = {*COUNTRIES, *LANGUAGES, *PROFESSIONS, *GENRES, *AWARDS}

    def _pick(self, words: tuple[str, ...]) -> str:
        return words[int(self._rng.integers(len(words)))]

    def _distinct(self, form: str, profession: str = "") -> str:
        for attempt in range(1000):
            label = form.format(
                f=self._pick(_FIRST),
                s=self._pick(_SURNAME) + self._pick(_SURNAME_END),
                t=self._pick(_SURNAME) + self._pick(_SURNAME_END),
                p=self._pick(_PLACE) + self._pick(_PLACE_END),
                a=self._pick(_ADJECTIVE),
                n=self._pick(_NOUN),
                m=self._pick(_NOUN),
                c=profession.capitalize(),
            )
            if attempt > 100:
                label = f"{label} {attempt}"
            if label not in self._used:
                self._used.add(label)
                return label
        raise AssertionError("a thousand numbered labels cannot all be taken")

    def person(self) -> str:
        return self._distinct("{f} {s}")

    def city(self) -> str:
        return self._distinct(self._pick(_PLACE_FORM).format("{p}"))

    def company(self) -> str:
        return self._distinct(self._pick(_COMPANY_FORM))

    def university(self) -> str:
        return self._distinct("University of {p}")

    def society(self, profession: str) -> str:
        return self._distinct(self._pick(_SOCIETY_FORM), profession)

    def work(self) -> str:
        return self._distinct(self._pick(_WORK_FORM))
