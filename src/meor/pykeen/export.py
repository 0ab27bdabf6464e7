"""A run's model as a PyKEEN model: the same scores, and it can be trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from meor.backbone.base import Model
from meor.errors import ModelError, RunError
from meor.evaluation.external import COMPLEX
from meor.methods import METHODS
from meor.pykeen.held import keep_weights
from meor.run.view import RunView

_LIKE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "complex": ("ComplEx", {"regularizer": None}),
    "distmult": ("DistMult", {"regularizer": None, "entity_constrainer": None}),
    "transe": ("TransE", {"scoring_fct_norm": 1, "entity_constrainer": None}),
    "transe-l2": ("TransE", {"scoring_fct_norm": 2, "entity_constrainer": None}),
    "rotate": ("RotatE", {}),
}
"""PyKEEN's model of each backbone, without what would change rows that a run has trained."""


def to_pykeen(
    run: RunView | Path | str, update: int | None = None, *, frozen: bool = True, **options: Any
) -> Any:
    """The model of a run after an update (the last one, if none is named) as a PyKEEN model.

    Ids are the stream's, as in `triples_of`. Scores are equal, but for the constant 9 of distances. Training
    begins with these weights, and where `frozen` it moves newcomers and new relations of the update alone.
    `options` go to PyKEEN's model, such as `loss`.
    """
    from meor.pykeen import triples_of  # says what to install where PyKEEN is missing

    view = run if isinstance(run, RunView) else RunView.open(Path(run))
    if METHODS[view.config.method].kind == "transform":
        raise ModelError(
            f"{view.config.method} changes scores after training, and a PyKEEN model holds rows alone",
            remedy="Choose a run of another method",
            path=view.path,
        )
    if not view.updates or update not in (None, *view.updates):
        raise RunError(f"{view.path} has no update {update}; it has {view.updates}.")
    chosen = view.updates[-1] if update is None else update
    rows = view.model(chosen)
    made = as_pykeen(rows, triples_of(view.stream(), chosen), **options)
    if not (frozen and chosen):
        return keep_weights(made)
    before = view.model(chosen - 1)
    new = {
        "entity_representations.0._embeddings.weight": torch.arange(before.n_entities, rows.n_entities),
        "relation_representations.0._embeddings.weight": torch.arange(before.n_relations, rows.n_relations),
    }
    return keep_weights(made, new)


def as_pykeen(model: Model, factory: Any, **options: Any) -> Any:
    """A PyKEEN model with the rows of ours, in their dtype. The factory's ids are row numbers."""
    from pykeen import models
    from pykeen.utils import NoRandomSeedNecessary

    name, width = model.backbone.name, model.entity.shape[1]
    if name not in _LIKE:
        raise ModelError(
            f"PyKEEN has no model that scores as {name} does", remedy=f"Export one of {', '.join(_LIKE)}"
        )
    kind, chosen = _LIKE[name]
    dim = width // 2 if name in COMPLEX else width
    given = {"loss": "softplus", "random_seed": NoRandomSeedNecessary, **chosen, **options}
    made = getattr(models, kind)(triples_factory=factory, embedding_dim=dim, **given).to(model.entity.dtype)
    made._random_seed = None  # checkpoints of a training ask for it
    turns = _turns(model.relation) if name == "rotate" else model.relation
    for table, rows in ((made.entity_representations, model.entity), (made.relation_representations, turns)):
        weight = table[0]._embeddings.weight
        with torch.no_grad():
            weight.copy_(_interleaved(rows) if name in COMPLEX else rows)
    return made


def _turns(relation: Tensor) -> Tensor:
    """Coordinates of modulus 1: PyKEEN keeps them so, and our RotatE divides when it scores."""
    real, imaginary = relation.chunk(2, dim=1)
    modulus = torch.hypot(real, imaginary)
    return torch.cat([real / modulus, imaginary / modulus], dim=1)


def _interleaved(rows: Tensor) -> Tensor:
    return torch.stack(rows.chunk(2, dim=1), dim=2).flatten(1)
