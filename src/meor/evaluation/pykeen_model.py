"""A PyKEEN model in memory: audited by its rows where we know the score, else by PyKEEN's own scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from meor.errors import ModelError
from meor.evaluation.external import COMPLEX
from meor.evaluation.labelled import Array, Labelled, LabelledScore, halves
from meor.evaluation.pykeen_folder import INTERACTIONS, require_turns, split_inverse, transe_of
from meor.typing import Ids, Side

SOURCE = "the PyKEEN model"


def from_pykeen(model: Any, factory: Any) -> Labelled | LabelledScore:
    """A PyKEEN model with the labels of its triples factory, for `meor.audit` and `meor.rank_update`.

    ComplEx, DistMult, TransE and RotatE are ranked from their rows, exactly and fast. Any other model is
    asked for its scores (`predict_t` and `predict_h`), tile by tile.
    """
    entities, relations = (labels_of(factory, f"{kind}_to_id") for kind in ("entity", "relation"))
    backbone = _backbone(model)
    if backbone is None:
        return LabelledScore(_score_of(model), entities, relations, source=SOURCE)
    entity, relation = (
        _rows(getattr(model, f"{kind}_representations")[0], backbone) for kind in ("entity", "relation")
    )
    inverse = None
    if model.use_inverse_triples:
        relation, inverse = split_inverse(SOURCE, relation)
    if backbone == "rotate":
        require_turns(SOURCE, relation)
        require_turns(SOURCE, inverse)
    return Labelled(backbone, entity, relation, entities, relations, inverse, source=SOURCE)


def labels_of(factory: Any, name: str) -> tuple[str, ...]:
    """The labels of a triples factory (`entity_to_id`, `relation_to_id`), in the order of its ids."""
    ids: Mapping[str, int] | None = getattr(factory, name, None)
    if ids is None:
        raise ModelError(
            f"the factory has no {name}, so rows have no names",
            remedy="Give the TriplesFactory of the training, which has labels",
        )
    return tuple(sorted(ids, key=lambda label: ids[label]))


def _backbone(model: Any) -> str | None:
    """The backbone that scores as the model does, from its plain rows; None if there is none."""
    interaction = getattr(model, "interaction", None)
    name = INTERACTIONS.get(type(interaction).__name__)
    tables: list[Any] = [getattr(model, f"{kind}_representations", ()) for kind in ("entity", "relation")]
    plain = all(
        len(table) == 1 and type(table[0]).__name__ == "Embedding" and table[0].normalizer is None
        for table in tables
    )
    if name is None or not plain:
        return None
    if name == "transe":
        return transe_of(SOURCE, interaction.p, interaction.power_norm)  # type: ignore[union-attr]
    return name


def _rows(representation: Any, backbone: str) -> Array:
    rows: Array = representation._embeddings.weight.detach().cpu().numpy().copy()
    return halves(rows) if backbone in COMPLEX else rows


def _score_of(model: Any) -> Any:
    def score(anchor: Ids, relation: Ids, side: Side, candidates: Ids) -> torch.Tensor:
        chosen = torch.from_numpy(candidates).to(model.device)
        ids = [torch.from_numpy(each) for each in (anchor, relation)]
        with torch.no_grad():
            if side is Side.TAIL:
                found = model.predict_t(torch.stack(ids, 1).to(model.device), tails=chosen)
            else:
                found = model.predict_h(torch.stack(ids[::-1], 1).to(model.device), heads=chosen)
        return torch.as_tensor(found).cpu()

    return score
