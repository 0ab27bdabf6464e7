"""The study file: which runs a study is made of. YAML in, the resolved plan out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import product, starmap
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from meor.errors import ConfigError
from meor.escape import file_name
from meor.methods import METHODS, NONE, is_penalized
from meor.methods.coefficient import TRIAL_SEED_OFFSET
from meor.run.config import Config
from meor.run.explain import explain
from meor.run.settings import Method
from meor.storage.yaml_file import read_yaml, to_yaml
from meor.study.curve import DIAL, MULTIPLE, Curve, several
from meor.study.misfit import MisfitError, lines_of_problems
from meor.study.presets import study_file
from meor.study.rows import Group

FIRST_SELECTION_SEED = TRIAL_SEED_OFFSET
"""Pairs that choose a validated coefficient are numbered from here: no study uses them as its own."""
BALANCE, VALIDATED = "balance", "validated"
PAIR: Final = "pair"
TableName = Literal["absolute", "effects", "ablation", "transfer", "boundary", "frontier"]
_BESIDE = "write {0} in the study file, beside `settings` and not in it"
_OR_OPTION = "give --{1}, or " + _BESIDE
_OWNED = {
    **{name: _OR_OPTION.format(name, name) for name in ("stream", "backbone", "preset")},
    "host": _BESIDE.format("host"),
    "method": _OR_OPTION.format("methods", "method"),
    "seed": _BESIDE.format("first_seed"),
    "coefficient_from": "leave it out; a coefficient acts from the update on that decides it",
    **dict.fromkeys(("coefficient", "coefficient_rule"), _OR_OPTION.format("coefficient_rule", "rule")),
    "evaluation.split": _BESIDE.format("judged"),
}
"""What the study itself decides for each run, and how to say it."""


def _rule(value: Any) -> Any:
    """`balance`, `validated`, or a number that is the coefficient itself."""
    if value in (BALANCE, VALIDATED):
        return value
    try:
        number = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"is not one of {BALANCE}, {VALIDATED}, a number")
    return repr(number)


def _name(value: str) -> str:
    """The study's name is that of a folder."""
    if not re.fullmatch(r"[\w.-]{1,80}", value):
        allowed = "letters, digits, dots, hyphens and underscores, no space, at most 80"
        raise ValueError(f"{value!r} is no name of a folder: write {allowed}")
    return value


def folder_name(stream: str) -> str:
    """Under which name the runs of a stream lie."""
    return file_name(Path(stream).name) or "stream"


Names = Annotated[tuple[str, ...], BeforeValidator(several), Field(min_length=1)]


class Study(BaseModel):
    """A study, resolved. Every combination of stream, backbone, host and preset is a group of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: Annotated[str, AfterValidator(_name)]
    stream: Names
    backbone: Names = ("complex",)
    host: Names = ("replay",)
    methods: Annotated[tuple[Method, ...], BeforeValidator(several), Field(min_length=1)]
    preset: Annotated[tuple[Literal["paper", "practical"], ...], BeforeValidator(several)] = ("practical",)
    coefficient_rule: Annotated[
        tuple[Annotated[str, BeforeValidator(_rule)], ...], BeforeValidator(several), Field(min_length=1)
    ] = (BALANCE,)
    curves: dict[str, Curve] = Field(default_factory=dict)  # of a frontier, by name
    schedule: Literal["pair", "own"] = (
        "pair"  # as long as the pair's host alone, or until each stops by itself
    )
    judged: Annotated[
        tuple[Literal["test", "valid"], ...], BeforeValidator(several), Field(min_length=1, max_length=2)
    ] = ("test",)  # the facts that are ranked; tables show the first
    pairs: Annotated[int, Field(ge=1, lt=FIRST_SELECTION_SEED)] = 8
    first_seed: Annotated[int, Field(ge=0, lt=FIRST_SELECTION_SEED)] = 0
    selection_pairs: Annotated[int, Field(ge=1)] = 1
    tables: Annotated[tuple[TableName, ...], BeforeValidator(several)] = ("absolute", "effects")
    settings: dict[str, Any] = Field(default_factory=dict)  # of every run
    sets: tuple[str, ...] = ()  # the same as KEY=VALUE; they win over settings

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        for name in ("stream", "backbone", "host", "methods", "preset", "coefficient_rule"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise MisfitError(name, "names something twice")
        self._check_curves()
        balanced = [each.method for each in self.curves.values() if each.along == MULTIPLE]
        starts = [NONE, *(METHODS[name].start for name in (*self.methods, *balanced))]
        if missing := next((start for start in starts if start not in self.methods), None):
            who = "the others" if missing == NONE else "methods with cap"
            told = f"{METHODS[missing].label.lower()}: {who} are compared with it and start from it"
            raise MisfitError("methods", f"must name {missing}, {told}")
        self._check_folders()
        for key, given in (("settings", [*self.settings]), ("sets", [*self.sets])):
            for name in (text.partition("=")[0].strip() for text in given):
                if name in _OWNED:
                    problem = f"cannot hold {name}, which is no setting of its runs but of the study"
                    raise MisfitError("--set" if key == "sets" else key, f"{problem}: {_OWNED[name]}")
        return self

    def _check_curves(self) -> None:
        for name, curve in self.curves.items():
            if problem := curve.problem() or self._misplaced(curve):
                raise MisfitError("curves", f"{name} {problem}")
        if len({file_name(name) for name in self.curves}) < len(self.curves):
            raise MisfitError("curves", "have two names whose runs would share one folder: rename one")

    def _misplaced(self, curve: Curve) -> str | None:
        """What is wrong with the curve that another one starts from."""
        if curve.of is None:
            return None
        source = self.curves.get(curve.of)
        if source is None or source.of is not None:
            return f"starts from {curve.of}, which is no curve whose runs are trained"
        if any(curve.source_at(at) not in source.values for at in curve.values):
            return f"starts from places that are no values of {curve.of}"
        if curve.along == DIAL and curve.method != source.method:
            return f"dials {curve.of}, so its method is {source.method}"
        return None

    def _check_folders(self) -> None:
        folders: dict[str, str] = {}
        for stream in self.stream:
            other = folders.setdefault(folder_name(stream), stream)
            if other != stream:
                raise MisfitError(
                    "stream",
                    f"names {other} and {stream}, whose runs would share one folder, {folder_name(stream)}: "
                    "rename one of them, or make two studies",
                )

    @classmethod
    def resolve(
        cls, given: Mapping[str, Any], *, path: Path | None = None, lines: Mapping[str, int] | None = None
    ) -> Study:
        """A plan from mappings, the settings of every run checked as well."""
        try:
            plan = cls.model_validate(dict(given))
        except ValidationError as error:
            raise explain(error, cls, path=path, lines=lines_of_problems(error, given, lines or {})) from None
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
    def groups(self) -> list[Group]:
        return list(starmap(Group, product(self.stream, self.backbone, self.host, self.preset)))

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.pairs)

    @property
    def selection_seeds(self) -> range:
        """Pairs that only choose the validated multiple, if any rule asks for it."""
        wanted = self.selection_pairs * (VALIDATED in self.coefficient_rule)
        return range(FIRST_SELECTION_SEED, FIRST_SELECTION_SEED + wanted)

    @property
    def penalized(self) -> tuple[str, ...]:
        return tuple(method for method in self.methods if is_penalized(method))

    @property
    def sample(self) -> int:
        """How many facts of a snapshot its runs rank at most; 0: all of them."""
        return self.config(self.groups[0], NONE, 0).evaluation.sample

    def check_settings(self) -> None:
        """Whatever is wrong with a run's settings is said before the first run."""
        for group in self.groups:
            for method in self.methods if group.stream == self.stream[0] else ():
                self.config(group, method, 0)
            for curve in self.curves.values():
                for at in curve.values:
                    self.config(group, curve.method, 0, sets=curve.sets(at))
            if self.config(group, NONE, 0).cap.factor == VALIDATED:
                raise ConfigError(
                    "cap.factor=validated is chosen for a single run",
                    remedy="Give a study a number, or a curve along cap.factor (judged: valid)",
                )

    def config(
        self,
        group: Group,
        method: str,
        seed: int,
        coefficient: float | None = None,
        begins: int = 1,
        *,
        sets: Sequence[str] = (),
    ) -> Config:
        """The settings of one run."""
        evaluation = self.settings.get("evaluation", {})
        if not isinstance(evaluation, dict):
            raise ConfigError("evaluation is a group of settings", remedy="Set e.g. evaluation.sides")
        flags = {**self.settings, **asdict(group), "method": method, "seed": seed}
        flags |= {"evaluation": {**evaluation, "split": self.judged}}
        flags |= {"coefficient": coefficient, "coefficient_from": begins}
        return Config.gather(flags=flags, sets=[*self.sets, *sets])

    def to_yaml(self) -> str:
        return to_yaml(self.model_dump(mode="json"))
