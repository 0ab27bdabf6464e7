"""A curve of a frontier: one method, and one thing that is varied along it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from meor.escape import file_name
from meor.methods import METHODS, NONE, needs_coefficient
from meor.run.learner import Method
from meor.study.keys import several
from meor.study.misfit import MisfitError

MULTIPLE, COEFFICIENT = "multiple", "coefficient"
DIAL, PLACE = "dial", "place"
"""Of curves that start from the finished runs of another one, so that nothing is trained."""
LENGTH = "length"
"""How long each update is trained: so many times as long as in the pair's run of the host alone."""
WEIGHTS = (MULTIPLE, COEFFICIENT, DIAL, PLACE)
"""Curves along these need no coefficient of their own."""


class Curve(BaseModel):
    """Runs of every pair beside those of the study's methods, trained as `settings` say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Method
    along: str = MULTIPLE  # of the balanced coefficient; `coefficient`, `length`, or the key of a setting
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
        if self.along == MULTIPLE and self.settings:
            return (
                "goes along multiples, which are balanced against the study's own run: give coefficients "
                "(along: coefficient), or leave out its settings"
            )
        return self._strange_to_its_method()

    def _strange_to_its_method(self) -> str | None:
        """What is varied although the method has no such thing."""
        if (METHODS[self.method].kind == "transform") != (self.along == PLACE):
            return f"must go along {PLACE} if its method transforms scores, and only then"
        if self.along in (MULTIPLE, COEFFICIENT) and not needs_coefficient(self.method):
            return f"goes along a {self.along}, but {self.method} has no penalty: name the key of a setting"
        if self.along == LENGTH and self.method != NONE:
            return f"goes along {LENGTH}, which is about the host alone: its method is {NONE}"
        if needs_coefficient(self.method) and self.along not in WEIGHTS and COEFFICIENT not in self.settings:
            return f"goes along {self.along}, so its settings give the coefficient of {self.method}"
        return None

    def sets(self, at: float) -> list[str]:
        """The settings of its run at a value, as KEY=VALUE."""
        found = [f"{key}={value}" for key, value in self.settings.items()]
        if self.along not in (*WEIGHTS, LENGTH):
            found.append(f"{self.along}={int(at) if at == int(at) else at!r}")
        return found

    def source_at(self, at: float) -> float:
        """Where on the curve `of` the run stands that the one at a value is made from."""
        return at if self.place is None else self.place

    @property
    def given(self) -> dict[str, float]:
        """The coefficient of all its runs, where its settings give one."""
        found = self.settings.get(COEFFICIENT)
        return {} if found is None else {COEFFICIENT: float(found)}

    @property
    def varies_references(self) -> bool:
        """Do its runs compare with old entities of their own, because the number of draws differs?"""
        return self.along == "penalty.draws"

    @property
    def starts_alone(self) -> bool:
        """Does it begin at the host alone, as a penalty of coefficient 0?"""
        return self.along in (MULTIPLE, COEFFICIENT) and not self.settings


def check_curves(curves: Mapping[str, Curve]) -> None:
    """Refuse curves that do not fit together."""
    for name, curve in curves.items():
        if problem := curve.problem() or _misplaced(curve, curves):
            raise MisfitError("curves", f"{name} {problem}")
    if len({file_name(name) for name in curves}) < len(curves):
        raise MisfitError("curves", "have two names whose runs would share one folder: rename one")


def _misplaced(curve: Curve, curves: Mapping[str, Curve]) -> str | None:
    """What is wrong with the curve that another one starts from."""
    if curve.of is None:
        return None
    source = curves.get(curve.of)
    if source is None or source.of is not None:
        return f"starts from {curve.of}, which is no curve whose runs are trained"
    if any(curve.source_at(at) not in source.values for at in curve.values):
        return f"starts from places that are no values of {curve.of}"
    if curve.along == DIAL and curve.method != source.method:
        return f"dials {curve.of}, so its method is {source.method}"
    return None
