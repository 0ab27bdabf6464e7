"""The `validated` coefficient rule (decision 34): a multiple of the balanced one, chosen on validation facts.

A study chooses once for all of its pairs. A single run chooses for itself, on trial runs of another seed
that rank validation facts only; trials lie in the cache, so an interrupted choice goes on where it stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meor.errors import ConfigError, NonFiniteError
from meor.evaluation.endpoints import note, overall
from meor.methods.calibration_grid import MARGIN
from meor.run.config import Config

MULTIPLES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5)
ALWAYS = 6
"""So many multiples are tried whatever they give: through 300."""

IN_VAIN = 2
"""Beyond them the search ends after so many in succession that are no better."""

TRIAL_SEED_OFFSET = 1_000_000
"""A trial's seed is the run's plus this: no pair of a study comes near it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a multiple gave on validation facts."""

    multiple: float
    H_cur: float
    A_TN: float
    admitted: bool = True  # A_TN is no more than the margin below replay's

    @classmethod
    def against(cls, replay: Candidate, multiple: float, cur: float, acquired: float) -> Candidate:
        return cls(multiple, cur, acquired, acquired >= replay.A_TN - MARGIN)


def best_multiple(candidates: Iterable[Candidate]) -> float:
    """The admitted multiple with the highest H_cur, the smallest of equals; 0 where none is admitted."""
    admitted = [one for one in candidates if one.admitted]
    best = max(admitted, key=lambda one: (one.H_cur, -one.multiple), default=None)
    return 0.0 if best is None else best.multiple


def goes_on(candidates: Sequence[Candidate]) -> bool:
    """Whether the multiple after these, the grid's first ones in order, is to be tried as well."""
    if len(candidates) >= len(MULTIPLES):
        return False
    if len(candidates) < ALWAYS:
        return True
    best = max((one.H_cur for one in candidates if one.admitted), default=math.inf)
    return any(one.admitted and one.H_cur >= best for one in candidates[-IN_VAIN:])


def end_of_grid(multiple: float, candidates: Sequence[Candidate]) -> str:
    """What is said where the largest multiple that was tried is the one chosen; else nothing."""
    if not candidates or multiple != max(one.multiple for one in candidates):
        return ""
    return f"the largest multiple that was tried, {multiple:g}; a larger one may give more"


def choose_multiple(
    config: Config,
    balanced: float,
    trial: Callable[[Config, Path], dict[str, Any]],
    folder: Path,
    say: Callable[[str], None],
) -> tuple[float, tuple[Candidate, ...]]:
    """Try multiples of a balanced coefficient; `trial` makes a run in a folder, or finds it there.

    `config` says from which update on the coefficient acts.
    """

    def measured(name: str, **changes: Any) -> tuple[float, float]:
        aside = {"seed": config.seed + TRIAL_SEED_OFFSET, "coefficient_rule": "balance"}
        changed = config.for_selection().model_copy(update={**aside, **changes})
        found = trial(changed, folder / name)["valid"]
        whole = overall(found["H_cur"]), overall(found["A_TN"])
        cur, acquired = (each.value for each in whole)
        if cur is None or acquired is None:
            missing = "H_cur" if cur is None else "A_TN"
            raise ConfigError(
                f"coefficient_rule validated judges by validation facts, and none of {config.stream} has a "
                f"place in {missing}",
                remedy="Choose the rule balance, or give a coefficient",
            )
        told = f"H_cur {cur:.4f}{whole[0].mark}, A_TN {acquired:.4f}{whole[1].mark}"
        footnote = note(zip(("H_cur", "A_TN"), whole, strict=True))
        say(f"trial {name}: validation {told}" + (f" ({footnote.rstrip('.')})" if footnote else ""))
        return cur, acquired

    replay = Candidate(0.0, *measured("replay", method="replay", coefficient=None))
    candidates: list[Candidate] = []
    while goes_on(candidates):
        multiple = MULTIPLES[len(candidates)]
        try:
            values = measured(f"{config.method}-{multiple:g}", coefficient=multiple * balanced)
        except NonFiniteError as error:
            say(f"multiples from {multiple:g} on are not tried: {error}")
            break
        candidates.append(Candidate.against(replay, multiple, *values))
    chosen = best_multiple(candidates)
    if told := end_of_grid(chosen, candidates):
        say(f"{config.method} takes {told}")
    return chosen, tuple(candidates)
