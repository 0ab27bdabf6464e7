"""The `validated` coefficient rule (decision 34): a multiple of the balanced one, chosen on validation facts.

A study chooses once for all of its pairs. A single run chooses for itself, on trial runs of another seed
that rank validation facts only; trials lie in the cache, so an interrupted choice goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meor.errors import RunError
from meor.evaluation.calibration_grid import MARGIN
from meor.evaluation.overall import note, overall
from meor.run.config import Config

MULTIPLES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
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


def choose_multiple(
    config: Config,
    balanced: float,
    trial: Callable[[Config, Path], dict[str, Any]],
    folder: Path,
    say: Callable[[str], None],
) -> tuple[float, tuple[Candidate, ...]]:
    """Try every multiple of a balanced coefficient; `trial` makes a run in a folder, or finds it there."""

    def measured(name: str, **changes: Any) -> tuple[float, float]:
        aside = {
            "seed": config.seed + TRIAL_SEED_OFFSET,
            "coefficient_rule": "balance",
            "evaluation": config.evaluation.model_copy(update={"split": ("valid",)}),
        }
        found = trial(config.model_copy(update={**aside, **changes}), folder / name)["valid"]
        whole = overall(found["H_cur"]), overall(found["A_TN"])
        cur, acquired = (each.value for each in whole)
        if cur is None or acquired is None:
            missing = "H_cur" if cur is None else "A_TN"
            raise RunError(
                f"No validation fact of {config.stream} has a place in {missing}, and the coefficient rule "
                "validated needs it. Choose the rule balance."
            )
        told = f"H_cur {cur:.4f}{whole[0].mark}, A_TN {acquired:.4f}{whole[1].mark}"
        footnote = note(zip(("H_cur", "A_TN"), whole, strict=True))
        say(f"trial {name}: validation {told}" + (f" ({footnote.rstrip('.')})" if footnote else ""))
        return cur, acquired

    replay = Candidate(0.0, *measured("replay", method="replay", coefficient=None))
    candidates = tuple(
        Candidate.against(
            replay, multiple, *measured(f"{config.method}-{multiple:g}", coefficient=multiple * balanced)
        )
        for multiple in MULTIPLES
    )
    return best_multiple(candidates), candidates
