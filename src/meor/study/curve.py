"""A curve of a frontier: one method, and one thing that is varied along it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from meor.methods import METHODS, is_penalized
from meor.run.settings import Method

MULTIPLE, COEFFICIENT = "multiple", "coefficient"
DIAL, PLACE = "dial", "place"
"""Of curves that start from the finished runs of another one, so that nothing is trained."""


def several(value: Any) -> Any:
    """`stream: ENTITY` means the same as `stream: [ENTITY]`."""
    return [value] if isinstance(value, str | int | float) else value


class Curve(BaseModel):
    """Runs of every pair beside those of the study's methods, trained as `settings` say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Method
    along: str = MULTIPLE  # of the balanced coefficient; or `coefficient`, or the key of a setting
    of: str | None = None  # the curve whose runs are dialled (along: dial) or transformed (along: place)
    place: float | None = None  # of a dial: where on that curve the run stands
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
        if (self.of is not None) != (self.along in (DIAL, PLACE)):
            return (
                f"must name a curve with `of` and go along {DIAL} or {PLACE}: one of them without the other"
            )
        if (self.place is not None) != (self.along == DIAL):
            return f"must say at which `place` of its curve it dials, and only if it goes along {DIAL}"
        if (METHODS[self.method].kind == "transform") != (self.along == PLACE):
            return f"must go along {PLACE} if its method transforms scores, and only then"
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
        if self.along not in (MULTIPLE, COEFFICIENT, DIAL, PLACE):
            found.append(f"{self.along}={int(at) if at == int(at) else at!r}")
        return found

    def source_at(self, at: float) -> float:
        """Where on the curve `of` the run stands that the one at a value is made from."""
        return at if self.place is None else self.place

    @property
    def starts_alone(self) -> bool:
        """Does it begin at the host alone, as a penalty of coefficient 0?"""
        return self.along in (MULTIPLE, COEFFICIENT) and not self.settings
