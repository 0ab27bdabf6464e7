"""The coefficients of a study (decision 34): balanced in each pair, or one validated multiple per method."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from meor.errors import MeorError, StudyError
from meor.methods import METHODS, NONE, current_name, former_name
from meor.methods.coefficient import (
    MULTIPLES,
    Balance,
    Candidate,
    best_multiple,
    end_of_grid,
    goes_on,
    most_telling,
)
from meor.run.control import balanced
from meor.run.view import RunView
from meor.storage.disk import Disk, commit_file
from meor.storage.json_file import read_sealed, sealed
from meor.stream.snapshot import Stream
from meor.study.plan import Study
from meor.study.rows import Group, Row


@dataclass(frozen=True, slots=True)
class KeptBalance:
    """A balanced coefficient of a study, and whose it is."""

    group: Group
    pair: int
    method: str
    balance: Balance


def read_balance(path: Path) -> Balance | None:
    """None where nothing is kept, or where what is kept is damaged."""
    try:
        return Balance(**read_sealed(path)) if path.is_file() else None
    except (TypeError, MeorError):
        return None


def kept_balances(plan: Study, whose: Mapping[Path, tuple[Group, int, str]]) -> tuple[KeptBalance, ...]:
    """Those that are kept, in the order of groups, pairs and methods."""
    order = {group: place for place, group in enumerate(plan.groups)}
    methods = list(METHODS)
    found = [
        KeptBalance(*named, kept) for path, named in whose.items() if (kept := read_balance(path)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (order[one.group], one.pair, methods.index(one.method))))


def kept_balance(
    path: Path, alone: RunView, stream: Stream, method: str, say: Callable[[str], object] = lambda _: None
) -> Balance:
    """The balance at the first update of the pair's host alone that has enough to balance by (decision 34).

    Made once and kept beside the runs. Where no update has enough, its coefficient is 0.
    """
    kept = read_balance(path)
    if kept is not None:
        return kept
    if path.is_file():
        say(f"{path} was changed, is damaged, or is an earlier version's; it is made again")
    config = alone.config.model_copy(update={"method": method})
    asked: list[Balance] = []
    for update in stream.updates:
        asked.append(balanced(config, stream, update, alone.model))
        if not asked[-1].is_inactive:
            break
    found = most_telling(asked)
    write_balance(path, found)
    return found


def write_balance(path: Path, balance: Balance) -> None:
    """Cells of a method may get here at once, with equal bytes."""
    commit_file(Disk(), path, sealed(asdict(balance)), shared=True)


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for a method, and all that it was chosen from."""

    group: Group
    method: str
    multiple: float  # 0: no multiple kept newcomers, so the penalty is not used
    none: Candidate  # what multiple 0 gives
    candidates: tuple[Candidate, ...]
    pairs: tuple[int, ...]

    @property
    def remark(self) -> str | None:
        """What a person should know of it."""
        if self.multiple == 0.0:
            kept = f"no multiple of {self.method} kept A_TN on validation facts"
            return f"{self.group}: {kept}; coefficient 0"
        told = end_of_grid(self.multiple, self.candidates)
        return f"{self.group}: {self.method} takes {told}" if told else None


def read_kept_balance(kept: Mapping[str, Any]) -> KeptBalance:
    """As `balances.json` holds it; earlier versions did not say at which update."""
    group, method = Group(**kept["group"]), current_name(kept["method"])
    return KeptBalance(group, kept["pair"], method, Balance(**{"update": 0, **kept["balance"]}))


def read_choice(kept: Mapping[str, Any]) -> Choice:
    """As `selection.json` holds it, perhaps of a version that called the host alone by another name."""
    candidates = tuple(Candidate(**one) for one in kept["candidates"])
    alone = Candidate(**kept[NONE if NONE in kept else former_name(NONE)])
    return Choice(
        Group(**kept["group"]),
        current_name(kept["method"]),
        kept["multiple"],
        alone,
        candidates,
        tuple(kept["pairs"]),
    )


def choices(plan: Study, judged: Sequence[Row]) -> tuple[tuple[Choice, ...], dict[str, str]]:
    """One per group and method; and why, where nothing can be chosen."""
    found, refused = [], {}
    for group in plan.groups:
        for method in plan.penalized_of(group):
            try:
                found.append(choose(judged, group, method))
            except StudyError as error:
                refused[f"the validated multiple of {method} in {group}"] = str(error)
    return tuple(found), refused


def choose(rows: Sequence[Row], group: Group, method: str) -> Choice:
    """The multiple with the highest validation H_cur among those that keep A_TN; the smallest of equals."""
    mine = [row for row in rows if row.group == group]
    alone = {row.pair: row for row in mine if row.method == METHODS[method].start}
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
