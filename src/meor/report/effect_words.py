"""What the bounds of an effect say, in one word."""

from __future__ import annotations

from meor.report.words import number
from meor.study.effects import MARGIN, PRESERVED, Effect

VERDICTS = (
    f"Better, worse: the bound excludes 0. Kept: not below the margin of {number(MARGIN, 3)}. Open: neither "
    "is shown. Same: smaller than can be told."
)


def verdict(name: str, found: Effect) -> tuple[str, str]:
    """What the one-sided bounds say, never more; and its tone."""
    if found.improved:
        return "better", "good"
    if found.worsened:
        return "worse", "bad"
    if name in PRESERVED:
        return ("kept", "good") if found.preserved else ("open", "bad")
    return ("same", "muted") if found.is_none else ("open", "muted")
