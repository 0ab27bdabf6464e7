"""Measure and control candidate-set interference in knowledge graphs that grow.

The public names are imported when they are first used: `import meor` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    # streams
    "Stream": "meor.stream.snapshot",
    "open_stream": "meor.stream.registry",
    "read_stream": "meor.stream.readers",
    "grow": "meor.stream.growth",
    "world": "meor.stream.world",
    "Side": "meor.typing",
    "Split": "meor.typing",
    # models and ranks
    "BACKBONES": "meor.backbone",
    "Model": "meor.backbone",
    "load_external": "meor.evaluation.external",
    "rank_update": "meor.evaluation.rank",
    "endpoints": "meor.evaluation.endpoints",
    # training
    "Plan": "meor.training.base",
    "Update": "meor.training.base",
    "Replay": "meor.hosts.replay",
    "Training": "meor.training.refine",
    "refine": "meor.training.refine",
    # the penalty
    "Comparison": "meor.methods.comparison",
    "Penalty": "meor.methods.penalty",
    # whole runs
    "Config": "meor.run.config",
    "RunView": "meor.run.view",
    "start": "meor.run.session",
    "resume": "meor.run.session",
    "MeorError": "meor.errors",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604  (every one of them is a string)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"meor has no public name {name!r}; there are {', '.join(_HOME)}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
