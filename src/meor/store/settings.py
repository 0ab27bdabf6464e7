"""The rules of a store's gate: part of a version, and changed for one admission by the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from meor.run.explain import explain
from meor.run.settings import Positive, Section
from meor.storage.yaml_file import read_yaml, to_yaml

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Between = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class GateSettings(Section):
    """What an admission may cost."""

    budget: Share = 0.01  # D_MCI of the protected queries at most
    floor: Share = 0.0  # A_TN of the batch at least; 0 asks nothing
    sample: Positive = 2000  # known facts that stand for all, where nothing else is protected
    confidence: Between = 0.95

    @classmethod
    def resolve(cls, given: dict[str, Any], path: Path | None = None) -> GateSettings:
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise explain(error, cls, path=path) from None

    @classmethod
    def load(cls, path: Path) -> GateSettings:
        return cls.resolve(read_yaml(path)[0], path)

    def changed(self, **given: Any) -> GateSettings:
        """With what the command line says; None says nothing."""
        told = {key: value for key, value in given.items() if value is not None}
        return self.resolve({**self.model_dump(), **told})

    def to_yaml(self) -> str:
        return to_yaml(self.model_dump(mode="json"))
