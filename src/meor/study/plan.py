"""The study file: which runs a study is made of. YAML in, the resolved plan out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
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
from meor.methods import METHODS, NONE, needs_coefficient
from meor.methods.coefficient import TRIAL_SEED_OFFSET
from meor.run.config import Config
from meor.run.explain import explain
from meor.run.learner import known_method
from meor.storage.yaml_file import read_yaml, to_yaml
from meor.study.curve import MULTIPLE, Curve, check_curves
from meor.study.host_choice import (
    DEFAULT,
    backbones_of,
    default_method,
    for_hosts,
    host_name,
    host_settings,
    host_text,
)
from meor.study.keys import BALANCE, VALIDATED, folder_friendly, rule, several
from meor.study.misfit import MisfitError, lines_of_problems, refuse_owned
from meor.study.presets import study_file
from meor.study.rows import Group

FIRST_SELECTION_SEED = TRIAL_SEED_OFFSET
"""Pairs that choose a validated coefficient are numbered from here: no study uses them as its own."""
PAIR: Final = "pair"
FIELD: Final = "field"
TableName = Literal["absolute", "effects", "ablation", "transfer", "boundary", "frontier", "field"]


def folder_name(stream: str) -> str:
    """Under which name the runs of a stream lie."""
    return file_name(Path(stream).name) or "stream"


Names = Annotated[tuple[str, ...], BeforeValidator(several)]
StudyMethod = Annotated[
    str, BeforeValidator(lambda value: value if value == DEFAULT else known_method(value))
]


class Study(BaseModel):
    """A study, resolved. Each combination of stream, host, its backbones and preset is a group of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: Annotated[str, AfterValidator(folder_friendly)]
    stream: Annotated[Names, Field(min_length=1)]
    backbone: Names = ()  # of hosts that take any; others bring theirs
    host: Annotated[
        tuple[Annotated[str, BeforeValidator(host_text)], ...], BeforeValidator(several), Field(min_length=1)
    ] = ("replay",)
    methods: Annotated[tuple[StudyMethod, ...], BeforeValidator(several), Field(min_length=1)]
    preset: Annotated[tuple[Literal["paper", "practical"], ...], BeforeValidator(several)] = ("practical",)
    coefficient_rule: Annotated[
        tuple[Annotated[str, BeforeValidator(rule)], ...], BeforeValidator(several), Field(min_length=1)
    ] = (BALANCE,)
    curves: dict[str, Curve] = Field(default_factory=dict)  # of a frontier, by name
    schedule: Literal["pair", "own"] = (
        "pair"  # as long as the pair's host alone, or until each stops by itself
    )
    judged: Annotated[
        tuple[Literal["test", "valid"], ...], BeforeValidator(several), Field(min_length=1, max_length=2)
    ] = ("test",)  # the facts that are ranked; tables show the first
    pairs: Annotated[int, Field(ge=1, lt=FIRST_SELECTION_SEED)] = 8
    controlled_pairs: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """By host: in how many pairs methods are run. The host alone is run in all of them."""
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
        check_curves(self.curves)
        self._check_hosts()
        balanced = [each.method for each in self.curves.values() if each.along == MULTIPLE]
        named = [name for name in (*self.methods, *balanced) if name != DEFAULT]
        starts = [NONE, *(METHODS[name].start for name in named)]
        if missing := next((start for start in starts if start not in self.methods), None):
            who = "the others" if missing == NONE else "methods with cap"
            told = f"{METHODS[missing].label.lower()}: {who} are compared with it and start from it"
            raise MisfitError("methods", f"must name {missing}, {told}")
        self._check_folders()
        refuse_owned("settings", self.settings)
        refuse_owned("--set", (text.partition("=")[0].strip() for text in self.sets))
        return self

    def _check_hosts(self) -> None:
        if left := set(self.backbone) - {group.backbone for group in self.groups}:
            raise MisfitError("backbone", f"names {min(left)}, which no host of the study trains")
        if unknown := [host for host in self.controlled_pairs if host not in self.host]:
            raise MisfitError("controlled_pairs", f"names {unknown[0]}, which is no host of the study")

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
        if (changes or {}).get("host"):
            given |= for_hosts([*map(host_text, given["host"])], given)
        given.setdefault("study", path.stem)
        if sets:
            given["sets"] = [*given.get("sets", ()), *sets]
        return cls.resolve(given, path=path, lines=lines)

    @property
    def groups(self) -> list[Group]:
        return [
            Group(stream, backbone, host, preset)
            for stream, host in product(self.stream, self.host)
            for backbone, preset in product(backbones_of(host, self.backbone), self.preset)
        ]

    def methods_of(self, group: Group) -> tuple[str, ...]:
        """Those of a group, each after the one it starts from; `default` is the group's own."""
        chosen = default_method(group.backbone, host_name(group.host))
        named = (chosen if name == DEFAULT else name for name in self.methods)
        every = dict.fromkeys(each for name in named for each in (METHODS[name].start, name))
        return tuple(name for name in every if self._pairs_of(group, name))

    def penalized_of(self, group: Group) -> tuple[str, ...]:
        return tuple(method for method in self.methods_of(group) if needs_coefficient(method))

    def runs_of(self, group: Group) -> list[tuple[int, str]]:
        """The seeds and methods of a group, pair by pair."""
        return [
            (seed, method)
            for seed in range(self.first_seed, self.first_seed + self.pairs)
            for method in self.methods_of(group)
            if seed - self.first_seed < self._pairs_of(group, method)
        ]

    def _pairs_of(self, group: Group, method: str) -> int:
        return self.pairs if method == NONE else self.controlled_pairs.get(group.host, self.pairs)

    @property
    def selection_seeds(self) -> range:
        """Pairs that only choose the validated multiple, if any rule asks for it."""
        wanted = self.selection_pairs * (VALIDATED in self.coefficient_rule)
        return range(FIRST_SELECTION_SEED, FIRST_SELECTION_SEED + wanted)

    @property
    def asks_for_protocols(self) -> bool:
        """Are test facts also ranked as the field ranks them?"""
        return FIELD in self.tables and "test" in self.judged

    @property
    def sample(self) -> int:
        """How many facts of a snapshot its runs rank at most; 0: all of them."""
        return self.config(self.groups[0], NONE, 0).evaluation.sample

    def check_settings(self) -> None:
        """Whatever is wrong with a run's settings is said before the first run."""
        for group in self.groups:
            for method in self.methods_of(group) if group.stream == self.stream[0] else ():
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
        flags |= {"host": host_settings(group.host)}
        flags |= {"evaluation": {**evaluation, "split": self.judged}}
        flags |= {"coefficient": coefficient, "coefficient_from": begins}
        return Config.gather(flags=flags, sets=[*self.sets, *sets])

    def to_yaml(self) -> str:
        return to_yaml(self.model_dump(mode="json"))
