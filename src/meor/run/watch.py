"""What a run tells whoever watches it. The command line draws it; the default is silence."""

from __future__ import annotations

from typing import Any


class Watcher:
    """Every method may be overridden; none can change a result."""

    def phase(self, name: str, update: int, *, done: int = 0, total: int = 0) -> None:
        """Something begins: `base`, `update` or `evaluate`, with how many steps it may take."""

    def step(self, done: int, loss: float) -> None:
        """A training step was made."""

    def validated(self, passes: int, mrr: float) -> None:
        """A validation gave this MRR."""

    def event(self, name: str, fields: dict[str, Any]) -> None:
        """A line was added to the run's log."""

    def say(self, text: str) -> None:
        """A remark a person should read."""
