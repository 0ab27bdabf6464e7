"""Inside PyKEEN: the penalty in its training loop, rows for newcomers, both universes in its evaluator.

    added = meor.pykeen.MeorCallback(stream, 1, factory)
    pipeline(..., evaluator="meor", training_kwargs={"callbacks": added})

Importing this makes `meor` a name that PyKEEN's resolvers know. Without PyKEEN it can be imported as well:
its names then say what to install.
"""

from __future__ import annotations

from typing import Any

from meor.errors import ModelError

__all__ = ["MeorCallback", "MeorEvaluator", "grow", "to_pykeen", "triples_of"]

try:
    from pykeen.evaluation import evaluator_resolver, metric_resolver
    from pykeen.training.callbacks import callback_resolver
except ImportError:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(name)
        raise ModelError("PyKEEN is not installed", remedy='Install the extra: pip install "meor[pykeen]"')

else:
    from meor.pykeen.callback import MeorCallback
    from meor.pykeen.evaluator import MeorEvaluator, MeorMetricResults
    from meor.pykeen.export import to_pykeen
    from meor.pykeen.growth import grow, triples_of

    callback_resolver.register(MeorCallback, synonyms={"meor"}, raise_on_conflict=False)
    evaluator_resolver.register(MeorEvaluator, raise_on_conflict=False)
    metric_resolver.register(MeorMetricResults, raise_on_conflict=False)
