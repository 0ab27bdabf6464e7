"""What a frontier is asked: who beats training less, MEOR's controls, the cap; where a curve is best."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from meor.methods import CAP, METHODS, NONE, penalties
from meor.methods.coefficient import Candidate, best_multiple
from meor.methods.registry import with_cap
from meor.study.curve import Curve
from meor.study.frontier import Curves, Verdict, competitors, families, verdict
from meor.study.rows import Group, Row

MEOR = "meor"
LESS = "Does any control beat training less?"
CONTROLS = "Does MEOR beat its controls?"
ADDED = "Does anything add to the cap?"


@dataclass(frozen=True, slots=True)
class Question:
    """Its verdicts are ours minus theirs, theirs being what the question is about."""

    text: str
    verdicts: tuple[Verdict, ...]
    apart: tuple[tuple[str, str], ...]  # ours and theirs, which never have the same A_TN in two pairs

    @property
    def answer(self) -> str:
        """In a word; MEOR is asked about all of its controls, and the others about any competitor."""
        words = {each.word for each in self.verdicts}
        if self.text == CONTROLS and "ahead" in words:
            return "yes" if words == {"ahead"} else "in part"
        return "yes" if "ahead" in words else "not shown" if "undecided" in words else "no"


def questions(rows: Sequence[Row], group: Group, curves: Curves) -> list[Question]:
    """Those that the curves can answer, each over all competitors that it is about."""
    known = competitors(rows, group, curves)
    found = []
    for text, asked in _asked(curves).items():
        judged = [(ours, theirs, verdict(group, ours, theirs, known)) for ours, theirs in asked]
        told = tuple(each for _, _, each in judged if each is not None)
        apart = tuple((ours, theirs) for ours, theirs, each in judged if each is None)
        if asked:
            found.append(Question(text, told, apart))
    return found


def _asked(curves: Curves) -> dict[str, list[tuple[str, str]]]:
    """Ours and theirs, by question."""
    of = {name: {curves[each].method for each in members} for name, members in families(curves).items()}
    trained = [name for name, members in families(curves).items() if not any(curves[m].of for m in members)]

    def plain(method: str) -> list[str]:
        """Competitors that are this method and nothing after training."""
        return [name for name in trained if of[name] == {method}]

    capped = [name for name, used in of.items() if all(METHODS[each].capped for each in used)]
    less, cap = plain(NONE), plain(CAP)
    return {
        LESS: [(ours, theirs) for theirs in less for ours in of if ours not in less],
        CONTROLS: [
            (ours, theirs)
            for meor, others in _families_of_controls()
            for ours in plain(meor)
            for other in others
            for theirs in plain(other)
        ],
        ADDED: [(ours, theirs) for theirs in cap for ours in capped if ours not in cap],
    }


def _families_of_controls() -> Iterator[tuple[str, list[str]]]:
    """MEOR and its controls: as they are, and capped."""
    others = [name for name in penalties() if name != MEOR]
    yield MEOR, others
    yield with_cap(MEOR), [with_cap(name) for name in others]


def best_places(rows: Sequence[Row], group: Group, curves: Curves) -> dict[str, str]:
    """By curve: the value with the highest H_cur on validation facts that keeps the host's A_TN there.

    Empty where the study did not rank validation facts.
    """
    mine = [row for row in rows if row.group == group]
    alone = {row.pair: row for row in mine if row.method == NONE and row.curve is None}
    start = _judged(0.0, alone.values())
    if start is None:
        return {}
    found = {}
    for name, curve in curves.items():
        at = {value: [row for row in mine if (row.curve, row.at) == (name, value)] for value in curve.values}
        if all({row.pair for row in runs} == set(alone) for runs in at.values()):
            found[name] = _best_place(curve, start, at)
    return found


def _best_place(curve: Curve, alone: Candidate, at: Mapping[float, Collection[Row]]) -> str:
    tried = [each for value, runs in at.items() if (each := _judged(value, runs)) is not None]
    against = [Candidate.against(alone, each.multiple, each.H_cur, each.A_TN) for each in tried]
    best = best_multiple(against)
    if not best:
        return "no value keeps newcomers as well as the host alone"
    at_end = best in (min(curve.values), max(curve.values))
    return f"{curve.along} {best:g}" + (", the end of its values" if at_end else "")


def _judged(value: float, runs: Collection[Row]) -> Candidate | None:
    """Means over pairs on validation facts."""
    known = [
        (row.H_cur_valid, row.A_TN_valid)
        for row in runs
        if row.H_cur_valid is not None and row.A_TN_valid is not None
    ]
    if not known or len(known) < len(runs):
        return None
    cur, acquired = (math.fsum(ends) / len(ends) for ends in zip(*known, strict=True))
    return Candidate(value, cur, acquired)
