"""One property, two lengths: a short run in `make test`, a long one in `make test-long`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

SLOW_IS_FINE = [HealthCheck.too_slow]  # a whole graph is generated, on a machine that may be busy


class Lengths:
    """A decorator for properties that remembers them, so that they can be run again at length."""

    def __init__(self, short: int, long: int):
        share = float(os.environ.get("MEOR_EXAMPLES", "1"))  # mutants are tried with fewer
        self.short, self.long = max(1, int(short * share)), long
        self.known: dict[str, tuple[Callable[..., None], tuple[SearchStrategy[Any], ...]]] = {}

    def __call__(
        self, *strategies: SearchStrategy[Any]
    ) -> Callable[[Callable[..., None]], Callable[[], None]]:
        def wrap(checked: Callable[..., None]) -> Callable[[], None]:
            self.known[checked.__name__] = checked, strategies
            return self._settings(self.short, derandomize=True)(given(*strategies)(checked))

        return wrap

    def at_length(self, name: str) -> None:
        checked, strategies = self.known[name]
        seed(2026)(self._settings(self.long, derandomize=False)(given(*strategies)(checked)))()

    @staticmethod
    def _settings(examples: int, *, derandomize: bool) -> settings:
        return settings(
            max_examples=examples,
            deadline=None,
            derandomize=derandomize,
            database=None,
            suppress_health_check=SLOW_IS_FINE,
        )
