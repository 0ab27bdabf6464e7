"""What a report consists of, before it is HTML: sections of blocks. The template knows these and no more."""

from __future__ import annotations

from dataclasses import dataclass

from meor.report.svg import Canvas
from meor.study.table import Table


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph; `kind` is "" (plain), "note" (small) or "missing" (what is not there, and why)."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """One question that a reader has, and its answer in plain words."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Card:
    """One number with its name in plain words."""

    name: str
    value: str
    meaning: str
    tone: str = ""  # "", "old" or "new": whose colour it wears
    spread: str = ""  # its interval
    besides: tuple[str, ...] = ()  # the same under other rules


@dataclass(frozen=True, slots=True)
class Figure:
    """One drawing in two widths: a phone gets its own, not a shrunk one."""

    name: str  # of its file
    title: str
    alt: str  # what it shows, for those who do not see it
    caption: str
    wide: Canvas
    narrow: Canvas
    legend: tuple[tuple[str, str], ...] = ()  # (css class of the swatch, words)


@dataclass(frozen=True, slots=True)
class Commands:
    """Lines to type, with what they do."""

    lines: tuple[tuple[str, str], ...]  # (command, words)


@dataclass(frozen=True, slots=True)
class Terms:
    """Words that the page uses, each with what it means."""

    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Template:
    """Fixed words that live in a file of their own under templates/."""

    name: str


Block = Prose | Figure | Table | Commands | Terms | Template


@dataclass(frozen=True, slots=True)
class Section:
    id: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    kicker: str  # what this is a report of
    lead: tuple[Said, ...]  # what happened
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]
    state: str = ""  # said at the top if the run or study is not complete


LIMITS = Section("limits", "Limits and responsible use", (Template("limits.html"),))
