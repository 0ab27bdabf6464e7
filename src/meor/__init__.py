"""Measure and control candidate-set interference in knowledge graphs that grow.

The public names are imported when they are first used: `import meor` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meor import pykeen as pykeen
    from meor.backbone import BACKBONES as BACKBONES
    from meor.backbone import Backbone as Backbone
    from meor.backbone import Geometry as Geometry
    from meor.backbone import Model as Model
    from meor.calls.audit import audit as audit
    from meor.calls.report import report as report
    from meor.calls.run import open_run as open_run
    from meor.calls.run import run as run
    from meor.calls.study import open_study as open_study
    from meor.calls.study import study as study
    from meor.errors import MeorError as MeorError
    from meor.evaluation.endpoints import endpoint as endpoint
    from meor.evaluation.endpoints import endpoints as endpoints
    from meor.evaluation.external import load_external as load_external
    from meor.evaluation.pykeen_folder import read_pykeen as read_pykeen
    from meor.evaluation.pykeen_model import from_pykeen as from_pykeen
    from meor.evaluation.rank import Rules as Rules
    from meor.evaluation.rank import rank_update as rank_update
    from meor.hosts import HOSTS as HOSTS
    from meor.hosts import Host as Host
    from meor.hosts import HostSettings as HostSettings
    from meor.hosts import Replay as Replay
    from meor.methods.comparison import Comparison as Comparison
    from meor.methods.penalty import Penalty as Penalty
    from meor.methods.registry import MEOR as MEOR
    from meor.methods.registry import METHODS as METHODS
    from meor.methods.registry import Method as Method
    from meor.methods.registry import Variant as Variant
    from meor.methods.registry import register as register
    from meor.pykeen.export import to_pykeen as to_pykeen
    from meor.run.config import Config as Config
    from meor.run.dial import dial as dial
    from meor.run.session import resume as resume
    from meor.run.session import start as start
    from meor.run.view import RunView as RunView
    from meor.store.folder import Store as Store
    from meor.stream.files import read_stream as read_stream
    from meor.stream.growth import grow as grow
    from meor.stream.registry import open_stream as open_stream
    from meor.stream.snapshot import Stream as Stream
    from meor.stream.world import world as world
    from meor.training.host import Plan as Plan
    from meor.training.host import Stage as Stage
    from meor.training.host import Step as Step
    from meor.training.host import Update as Update
    from meor.training.loss import Embedding as Embedding
    from meor.training.refine import refine as refine
    from meor.training.training import Training as Training
    from meor.typing import Side as Side
    from meor.typing import Split as Split

__version__ = "0.1.0"

_HOME = {
    # one call per command
    "run": "meor.calls.run",
    "open_run": "meor.calls.run",
    "audit": "meor.calls.audit",
    "study": "meor.calls.study",
    "open_study": "meor.calls.study",
    "report": "meor.calls.report",
    # streams
    "Stream": "meor.stream.snapshot",
    "open_stream": "meor.stream.registry",
    "read_stream": "meor.stream.files",
    "grow": "meor.stream.growth",
    "world": "meor.stream.world",
    "Side": "meor.typing",
    "Split": "meor.typing",
    # models and ranks
    "BACKBONES": "meor.backbone",
    "Backbone": "meor.backbone",
    "Geometry": "meor.backbone",
    "Model": "meor.backbone",
    "load_external": "meor.evaluation.external",
    "from_pykeen": "meor.evaluation.pykeen_model",
    "read_pykeen": "meor.evaluation.pykeen_folder",
    "to_pykeen": "meor.pykeen.export",
    "pykeen": "meor",
    "rank_update": "meor.evaluation.rank",
    "Rules": "meor.evaluation.rank",
    "endpoint": "meor.evaluation.endpoints",
    "endpoints": "meor.evaluation.endpoints",
    # training
    "Plan": "meor.training.host",
    "Update": "meor.training.host",
    "Stage": "meor.training.host",
    "Step": "meor.training.host",
    "HOSTS": "meor.hosts",
    "Host": "meor.hosts",
    "HostSettings": "meor.hosts",
    "Replay": "meor.hosts",
    "Embedding": "meor.training.loss",
    "Training": "meor.training.training",
    "refine": "meor.training.refine",
    # methods
    "METHODS": "meor.methods.registry",
    "MEOR": "meor.methods.registry",
    "Method": "meor.methods.registry",
    "Variant": "meor.methods.registry",
    "register": "meor.methods.registry",
    "Comparison": "meor.methods.comparison",
    "Penalty": "meor.methods.penalty",
    # whole runs
    "Config": "meor.run.config",
    "RunView": "meor.run.view",
    "dial": "meor.run.dial",
    "start": "meor.run.session",
    "resume": "meor.run.session",
    # production
    "Store": "meor.store.folder",
    "MeorError": "meor.errors",
}

_ROOMS = ("run", "study", "report", "pykeen")
"""Names that are packages as well; the first three take calls (`meor.called`)."""

__all__ = ["__version__", *_HOME]  # noqa: PLE0604  (every one of them is a string)

if not TYPE_CHECKING:  # a type checker reads the imports above: every name has its real type

    def __getattr__(name):
        if name not in _HOME:
            raise AttributeError(f"meor has no public name {name!r}; there are {', '.join(_HOME)}")
        if name in _ROOMS:
            return import_module(f"meor.{name}")
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
