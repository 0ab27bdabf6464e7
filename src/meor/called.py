"""Rooms that are called: `meor.run(...)` is a function, and `meor.run.view` a module.

Whoever imports a module of a room makes the room an attribute of `meor`, in place of a function of its name.
So the room itself takes the call and hands it to the function of `meor.calls`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


class _Called(ModuleType):
    @property
    def _function(self) -> Callable[..., Any]:
        name = self.__name__.rpartition(".")[2]
        found: Callable[..., Any] = getattr(import_module(f"meor.calls.{name}"), name)
        return found

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._function(*args, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)


def make_callable(room: str) -> None:
    """Called by a room's `__init__` with its own name."""
    sys.modules[room].__class__ = _Called
