"""The study file: which runs a study is made of. YAML in, the resolved plan out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from meor.errors import ConfigError
from meor.run.config import Config, Method
from meor.run.explain import explain
from meor.run.validated import TRIAL_SEED_OFFSET
from meor.run.yaml_file import read_yaml

PRESET_STUDIES = ("primary", "ablation", "transfer", "boundary", "frontier")
UNPENALIZED = ("replay", "calibration")
FIRST_SELECTION_SEED = TRIAL_SEED_OFFSET
"""Pairs that choose a validated coefficient are numbered from here: no study uses them as its own."""

BALANCE, VALIDATED = "balance", "validated"
TableName = Literal["absolute", "effects", "ablation", "transfer", "boundary", "frontier"]
_OWNED = (
    "stream",
    "backbone",
    "host",
    "method",
    "preset",
    "seed",
    "coefficient",
    "coefficient_rule",
    "evaluation.split",
)


def _several(value: Any) -> Any:
    """`stream: ENTITY` means the same as `stream: [ENTITY]`."""
    return [value] if isinstance(value, str | int | float) else value


def _rule(value: Any) -> Any:
    """`balance`, `validated`, or a number that is the coefficient itself."""
    if value in (BALANCE, VALIDATED):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < float("inf"):
        raise ValueError(f"is not one of {BALANCE}, {VALIDATED}, a number")
    return repr(number)


Names = Annotated[tuple[str, ...], BeforeValidator(_several), Field(min_length=1)]
Multiple = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Study(BaseModel):
    """A study, resolved. Every combination of stream, backbone, host and preset is a group of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: Annotated[str, Field(pattern=r"^[\w.-]{1,80}$")]
    stream: Names
    backbone: Names = ("complex",)
    host: Names = ("replay",)
    methods: Annotated[tuple[Method, ...], BeforeValidator(_several), Field(min_length=1)]
    preset: Annotated[tuple[Literal["paper", "practical"], ...], BeforeValidator(_several)] = ("practical",)
    coefficient_rule: Annotated[
        tuple[Annotated[str, BeforeValidator(_rule)], ...], BeforeValidator(_several), Field(min_length=1)
    ] = (BALANCE,)
    multiples: Annotated[tuple[Multiple, ...], BeforeValidator(_several), Field(min_length=1)] = (1.0,)
    pairs: Annotated[int, Field(ge=1, lt=FIRST_SELECTION_SEED)] = 8
    first_seed: Annotated[int, Field(ge=0, lt=FIRST_SELECTION_SEED)] = 0
    selection_pairs: Annotated[int, Field(ge=1)] = 1
    tables: Annotated[tuple[TableName, ...], BeforeValidator(_several)] = ("absolute", "effects")
    settings: dict[str, Any] = Field(default_factory=dict)  # of every run
    sets: tuple[str, ...] = ()  # the same as KEY=VALUE; they win over settings

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        for name in ("stream", "backbone", "host", "methods", "preset", "coefficient_rule", "multiples"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} names something twice")
        if "replay" not in self.methods:
            raise ValueError("methods must name replay: the others are compared with it and start from it")
        if self.multiples != (1.0,) and BALANCE not in self.coefficient_rule:
            raise ValueError("multiples are multiples of the balanced coefficient: name the rule balance")
        given = [*self.settings, *(text.partition("=")[0].strip() for text in self.sets)]
        owned = [name for name in _OWNED if name in given]
        if owned:
            raise ValueError(
                f"{owned[0]} is no setting of its runs but of the study: write it one level higher"
            )
        return self

    @classmethod
    def resolve(
        cls, given: Mapping[str, Any], *, path: Path | None = None, lines: Mapping[str, int] | None = None
    ) -> Study:
        """A plan from mappings, the settings of every run checked as well."""
        try:
            plan = cls.model_validate(dict(given))
        except ValidationError as error:
            raise explain(error, cls, path=path, lines=lines or {}) from None
        plan.check_settings()
        return plan

    @classmethod
    def load(
        cls, name_or_path: str, *, changes: Mapping[str, Any] | None = None, sets: Iterable[str] = ()
    ) -> Study:
        """A preset by name, or a study file; then the changes given; then each `--set key=value` of a run."""
        path = study_file(name_or_path)
        given, lines = read_yaml(path)
        for key, value in (changes or {}).items():
            if value is not None:
                given[key] = value
                lines.pop(key, None)
        given.setdefault("study", path.stem)
        if sets:
            given["sets"] = [*given.get("sets", ()), *sets]
        return cls.resolve(given, path=path, lines=lines)

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.pairs)

    @property
    def selection_seeds(self) -> range:
        """Pairs that only choose the validated multiple, if any rule asks for it."""
        wanted = self.selection_pairs if VALIDATED in self.coefficient_rule else 0
        return range(FIRST_SELECTION_SEED, FIRST_SELECTION_SEED + wanted)

    @property
    def penalized(self) -> tuple[str, ...]:
        return tuple(method for method in self.methods if method not in UNPENALIZED)

    @property
    def sample(self) -> int:
        """How many facts of a snapshot its runs rank at most; 0: all of them."""
        run = self.config(self.stream[0], self.backbone[0], self.host[0], self.preset[0], "replay", 0)
        return run.evaluation.sample

    def check_settings(self) -> None:
        """Whatever is wrong with a run's settings is said before the first run."""
        for backbone in self.backbone:
            for host in self.host:
                for preset in self.preset:
                    for method in self.methods:
                        self.config(self.stream[0], backbone, host, preset, method, 0)

    def config(
        self,
        stream: str,
        backbone: str,
        host: str,
        preset: str,
        method: str,
        seed: int,
        *,
        split: str = "test",
        coefficient: float | None = None,
    ) -> Config:
        """The settings of one run."""
        evaluation = self.settings.get("evaluation", {})
        if not isinstance(evaluation, dict):
            raise ConfigError("evaluation is a group of settings", remedy="Set e.g. evaluation.sides")
        evaluation = {**evaluation, "split": [split]}
        return Config.gather(
            flags={
                **self.settings,
                "stream": stream,
                "backbone": backbone,
                "host": host,
                "preset": preset,
                "method": method,
                "seed": seed,
                "evaluation": evaluation,
                "coefficient": coefficient,
            },
            sets=self.sets,
        )

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def study_file(name_or_path: str) -> Path:
    """The file behind the name of a preset, or a path."""
    if name_or_path in PRESET_STUDIES:
        return Path(str(files("meor.study").joinpath("presets", f"{name_or_path}.yaml")))
    path = Path(name_or_path)
    if not path.is_file():
        raise ConfigError(
            f"there is no study {name_or_path}",
            remedy=f"Name one of {', '.join(PRESET_STUDIES)}, or a study file (YAML)",
        )
    return path
