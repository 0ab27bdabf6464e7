"""The groups of settings of a run."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from meor.methods.registry import CAP_FACTOR, CAP_GROWTH, BySize
from meor.stream.occurrence import ALL

SMALLEST: Final = sys.float_info.min
Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
SideName = Literal["head", "tail"]
SplitName = Literal["train", "valid", "test"]


def _several(value: Any) -> Any:
    """`split: test` means the same as `split: [test]`."""
    return [value] if isinstance(value, str) else value


def _in_full(path: str) -> str:
    """So that `meor resume` finds it from any folder."""
    return str(Path(path).absolute())


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BaseModelFiles(Section):
    """Embeddings made elsewhere, which stand in for base training."""

    entity: str  # or PyKEEN's trained_model.pkl, which brings all of it
    relation: str | None = None
    vocabulary: str | None = None
    layout: Literal["halves", "interleaved"] = "halves"


class Base(Section):
    """Training on snapshot 0 (decisions 12 to 15)."""

    epochs: Positive = 200
    learning_rate: Rate = 1e-4
    batch: Positive = 2048
    negatives: Positive = 10
    validate_every: Positive = 10
    patience: Positive = 3
    init_std: Rate | Literal["xavier"] = 0.05


LENGTH = frozenset({"passes", "steps", "schedule"})
"""Of `refine`: how long an update is trained, said beforehand."""

STOPPING = frozenset({"validate_steps", "least_steps", "patience", "tolerance"})
"""Of `refine`: how an update stops by itself."""


class Refine(Section):
    """Training on each update (decisions 16 to 21)."""

    learning_rate: Rate
    passes: Positive
    batch: Positive = 2048
    negatives: Positive = 10
    order: Literal["file", "permuted"]
    newcomer_init: Literal["base", "matched", "neighbours", "schema"]
    replay_size: Annotated[int, Field(ge=0)] = 2048
    replay_negatives: Literal["current", "old"] = "current"
    buffer: Literal["uniform", "reservoir"] = "uniform"
    validate_steps: Annotated[int, Field(ge=0)] = 0  # 0 makes all passes; others let an update stop by itself
    least_steps: Annotated[int, Field(ge=0)] = 0  # before so many an update does not stop by itself
    patience: Positive = 3
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.0  # share of the best that a better one adds at least
    schedule: tuple[Positive, ...] | None = None  # passes of updates 1, 2, ... instead of `passes`
    steps: Positive | None = None  # of each update, in whole passes, instead of `passes`
    classes: Annotated[str, AfterValidator(_in_full)] | None = (
        None  # of entities, for `newcomer_init: schema`
    )

    @model_validator(mode="before")
    @classmethod
    def _patient_only_where_it_stops(cls, given: Any) -> Any:
        # Settings without effect are neither kept nor written, so what is read back equals what was written.
        if isinstance(given, dict) and not given.get("validate_steps"):
            return {key: value for key, value in given.items() if key not in STOPPING - {"validate_steps"}}
        return given

    @model_serializer(mode="wrap")
    def _say_only_what_stops(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Runs that make all their passes keep the hash and the bytes they had before there was a choice.
        found: dict[str, Any] = dump(self)
        unsaid = set() if self.validate_steps else set(STOPPING)
        unsaid |= {key for key in ("schedule", "steps", "classes") if found.get(key) is None}
        return {key: value for key, value in found.items() if key not in unsaid}

    @model_validator(mode="after")
    def _decided_or_by_itself(self) -> Self:
        said = [key for key in ("schedule", "steps") if getattr(self, key) is not None]
        if said and self.validate_steps:
            raise ValueError(f"{said[0]} decides how long an update is trained, so validate_steps must be 0")
        if len(said) > 1:
            raise ValueError("schedule and steps both decide how long an update is trained: give one of them")
        return self

    @model_validator(mode="after")
    def _classes_where_they_are_used(self) -> Self:
        if (self.newcomer_init == "schema") != (self.classes is not None):
            raise ValueError(
                "newcomer_init=schema and classes=FILE (lines `entity TAB class`) belong together: give both "
                "or neither"
            )
        return self


class PenaltySettings(Section):
    """Scale, matching and aggregate (decisions 23 to 33)."""

    beta: Rate = 5.0
    draws: Positive = 4
    scale_sample: Positive = 256
    mad_weight: Weight = 0.1
    epsilon: Rate = 1e-8
    signature: Literal["all", "role"] = "all"
    detach_reference: bool = False


SIZE: Final = "size"
VALIDATED: Final = "validated"


def _by_size(value: Any, *, what: str, least: float) -> BySize:
    several = isinstance(value, list | tuple)
    try:
        found = tuple(float(each) for each in (value if several else [value]))
    except (TypeError, ValueError):
        found = ()
    if len(found) != 1 + several or not all(least <= each < math.inf for each in found):
        raise ValueError(f"{value!r} is neither {what} nor two: at a small update, and at a large one")
    return (found[0], found[1]) if several else found[0]


def _factor(value: Any) -> Any:
    """By the size of an update: the numbers of today, so that a run says by which it was made."""
    value = CAP_FACTOR if value == SIZE else value
    return value if value == VALIDATED else _by_size(value, what="a number above 0", least=SMALLEST)


def _asked(value: Any) -> Any:
    return None if value is None else _by_size(value, what="a number from 0 on", least=0.0)


Asked = Annotated[BySize | None, BeforeValidator(_asked)]


class Cap(Section):
    """How long a newcomer's row may become: `factor` times what its degree suggests (methods with `cap`)."""

    # two numbers: at a small update and at a large one; or chosen on validation facts, before the run begins
    factor: Annotated[BySize | Literal["validated"], BeforeValidator(_factor)] = CAP_FACTOR
    growth: Annotated[float, Field(ge=1, allow_inf_nan=False)] = CAP_GROWTH  # per update, three times at most
    norm: Literal["at-most", "exactly"] = "at-most"

    def at(self, factor: float) -> Cap:
        return self.model_copy(update={"factor": factor})


class Evaluation(Section):
    """What is ranked, and against which positives (decisions 6 to 9)."""

    split: Annotated[tuple[Literal["test", "valid"], ...], BeforeValidator(_several)] = Field(
        default=("test",), min_length=1
    )
    updates: tuple[Positive, ...] | None = None
    sides: Annotated[tuple[SideName, ...], BeforeValidator(_several)] = Field(
        default=("head", "tail"), min_length=1
    )
    filter_splits: Annotated[tuple[SplitName, ...], BeforeValidator(_several)] = ("train", "valid", "test")
    sample: Annotated[int, Field(ge=0, strict=True)] = ALL  # facts of a snapshot that are ranked at most

    @model_validator(mode="after")
    def _nothing_twice(self) -> Self:
        for name in ("split", "updates", "sides", "filter_splits"):
            values = getattr(self, name)
            if values is not None and len(set(values)) < len(values):
                raise ValueError(f"{name} names something twice")
        return self

    @property
    def selection_filter(self) -> tuple[SplitName, ...]:
        """By whose positives whatever selects is filtered: never by those of test facts (decision 15)."""
        return tuple(name for name in self.filter_splits if name != "test")

    @model_serializer(mode="wrap")
    def _say_only_what_is_sampled(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Runs that rank everything keep the hash and the bytes they had before there was a sample.
        found: dict[str, Any] = dump(self)
        if self.sample == ALL:
            found.pop("sample", None)
        return found
