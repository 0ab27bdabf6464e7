"""A curve of a frontier: one method, and one thing that is varied along it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from meor.methods import is_penalized
from meor.run.settings import Method
from meor.study.keys import several

MULTIPLE, COEFFICIENT = "multiple", "coefficient"


class Curve(BaseModel):
    """Runs of every pair beside those of the study's methods, trained as `settings` say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Method
    along: str = MULTIPLE  # of the balanced coefficient; or `coefficient`, or the key of a setting
    values: Annotated[
        tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...],
        BeforeValidator(several),
        Field(min_length=1),
    ]
    settings: dict[str, Any] = Field(default_factory=dict)  # of all its runs, by dotted key
    family: str | None = None  # curves of a family are one competitor: the best of them counts

    def problem(self) -> str | None:
        """What is wrong with keys that are right by themselves."""
        if len(set(self.values)) < len(self.values):
            return "names a value twice"
        if self.along in (MULTIPLE, COEFFICIENT) and not is_penalized(self.method):
            return f"goes along a {self.along}, but {self.method} has no penalty: name the key of a setting"
        if self.along == MULTIPLE and self.settings:
            return (
                "goes along multiples, which are balanced against the study's own run: give coefficients "
                "(along: coefficient), or leave out its settings"
            )
        return None

    def sets(self, at: float) -> list[str]:
        """The settings of its run at a value, as KEY=VALUE."""
        found = [f"{key}={value}" for key, value in self.settings.items()]
        if self.along not in (MULTIPLE, COEFFICIENT):
            found.append(f"{self.along}={int(at) if at == int(at) else at!r}")
        return found

    @property
    def starts_alone(self) -> bool:
        """Does it begin at the host alone, as a penalty of coefficient 0?"""
        return self.along in (MULTIPLE, COEFFICIENT) and not self.settings
