"""Weights that PyKEEN must not lose: it starts every training by drawing all parameters anew.

PyKEEN has an initializer for rows made elsewhere, but it shares their memory with training, and parameters
of an interaction have none. So the model itself remembers (`keep_weights`): two of its methods are objects
of this module. They are pickled and copied with the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class _AtReset:
    """In place of `model.reset_parameters_`: the kept weights, and not a new draw."""

    def __init__(self, model: Any, kept: Mapping[str, Tensor]) -> None:
        self.model, self.kept = model, dict(kept)

    def __call__(self) -> Any:
        self.model.load_state_dict(self.kept)
        return self.model


class _AfterStep:
    """In place of `model.post_parameter_update`: PyKEEN's constraints, then all but the trained rows are
    put back. An optimizer's moments, weight decay and constraints move rows without a gradient, too."""

    def __init__(self, model: Any, kept: Mapping[str, Tensor], trained: Mapping[str, Tensor]) -> None:
        self.model, self.kept, self.trained = model, dict(kept), dict(trained)

    def __call__(self) -> None:
        type(self.model).post_parameter_update(self.model)
        with torch.no_grad():
            for name, value in self.model.state_dict(keep_vars=True).items():
                moved = self.trained.get(name)
                now = None if moved is None else value[moved]
                value.copy_(self.kept[name])
                if moved is not None:
                    value[moved] = now


def keep_weights(model: Any, trained: Mapping[str, Tensor] | None = None) -> Any:
    """The model, which returns to its present weights wherever PyKEEN would draw new ones.

    With `trained` (the row numbers that training may move, by parameter) everything else is frozen.
    """
    vars(model).pop("post_parameter_update", None)  # of the model that this one was made from
    kept = {name: value.detach().clone() for name, value in model.state_dict().items()}
    model.reset_parameters_ = _AtReset(model, kept)
    if trained is not None:
        model.post_parameter_update = _AfterStep(model, kept, trained)
    return model


def is_frozen(model: Any) -> bool:
    return isinstance(vars(model).get("post_parameter_update"), _AfterStep)
