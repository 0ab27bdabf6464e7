"""What the bounds of an effect allow to be said: the same evidence for a rise and for a fall."""

from __future__ import annotations

from meor.study.effects import Effect


def upper_bound(found: Effect) -> float:
    """The one-sided 95 % upper bound: Student t bounds lie alike on both sides of the mean."""
    return 2 * found.mean - found.lower


def lowered(found: Effect) -> bool:
    """The counterpart of `Effect.improved`."""
    return upper_bound(found) < 0


def tone(found: Effect) -> str:
    return "good" if found.improved else "bad" if lowered(found) else "neutral"
