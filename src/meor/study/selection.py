"""The `validated` rule (decision 34): one multiple a method, chosen on validation facts of other pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from meor.errors import StudyError
from meor.methods import NONE
from meor.methods.coefficient import MULTIPLES, Candidate, best_multiple, goes_on
from meor.study.rows import Group, Row


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for a method, and all that it was chosen from."""

    group: Group
    method: str
    multiple: float  # 0: no multiple kept newcomers, so the penalty is not used
    none: Candidate  # what multiple 0 gives
    candidates: tuple[Candidate, ...]
    pairs: tuple[int, ...]


def choose(rows: Sequence[Row], group: Group, method: str) -> Choice:
    """The multiple with the highest validation H_cur among those that keep A_TN; the smallest of equals."""
    mine = [row for row in rows if row.group == group]
    alone = {row.pair: row for row in mine if row.method == NONE}
    if not alone:
        raise StudyError(f"No selection pair of {group} has the host alone, so nothing can be chosen.")
    base = list(alone.values())
    unused = Candidate(0.0, _mean(base, "H_cur"), _mean(base, "A_TN"))
    candidates = []
    for multiple in MULTIPLES:
        found = [row for row in mine if row.method == method and row.multiple == multiple]
        if {row.pair for row in found} != set(alone):
            continue  # a failed cell: its multiple cannot be judged by the same pairs
        candidates.append(Candidate.against(unused, multiple, _mean(found, "H_cur"), _mean(found, "A_TN")))
    chosen = best_multiple(candidates)
    return Choice(group, method, chosen, unused, tuple(candidates), tuple(sorted(alone)))


def next_multiple(rows: Sequence[Row], choice: Choice) -> float | None:
    """The multiple to try after those a choice was made from; None where the grid ends (decision 34)."""
    tried = choice.candidates
    if [one.multiple for one in tried] != list(MULTIPLES[: len(tried)]) or not goes_on(tried):
        return None  # after a failed cell the grid is as long as it is
    if not any(row.coefficient for row in rows if row.group == choice.group and row.method == choice.method):
        return None  # every multiple of 0 is one run
    return MULTIPLES[len(tried)]


def _mean(rows: Sequence[Row], name: str) -> float:
    values = [row.shown(name) for row in rows]  # every multiple is judged over the same cells
    defined = [value for value in values if value is not None]
    if len(defined) < len(values) or not values:
        raise StudyError(
            f"{name} is undefined on the validation facts of {rows[0].stream}; "
            "the validated rule needs it. Choose the rule balance."
        )
    return math.fsum(defined) / len(defined)
