"""The settings of one run: YAML in, the resolved YAML out, and an error that names the nearest option.

Everything here determines results, apart from the places where inputs lie. Threads, memory and
output folders do not change a bit of any result and are therefore no settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from meor.methods import METHODS, NONE, former_name
from meor.run.assignment import flat, parsed, place
from meor.run.explain import explain
from meor.run.learner import (
    HostChoice,
    Method,
    default_method,
    host_defaults,
    known_backbone,
    own_settings,
)
from meor.run.presets import PRESETS, STREAMS
from meor.run.settings import (
    LENGTH,
    STOPPING,
    Asked,
    Base,
    BaseModelFiles,
    Cap,
    Evaluation,
    PenaltySettings,
    Positive,
    Rate,
    Refine,
    Section,
    Weight,
)
from meor.storage.yaml_file import read_yaml, to_yaml
from meor.stream.header import checked_columns
from meor.stream.rules import Duplicates, Reading, Unseen

READING = ("duplicates", "unseen", "columns")
PLACES = ("stream", "data_dir", *READING, "base_model")
"""Where inputs lie and how they are read; the fingerprint holds the hash of what was found there instead."""


class Config(Section):
    """Every setting of a run, resolved: defaults, then the preset, then what was given."""

    stream: str = "world"
    data_dir: str | None = None
    duplicates: Duplicates = "error"
    unseen: Unseen = "error"
    columns: Annotated[str | None, AfterValidator(checked_columns)] = None
    backbone: Annotated[str, BeforeValidator(known_backbone)] = "complex"
    host: HostChoice = Field(default="replay", validate_default=True)  # type: ignore[assignment]
    method: Method = NONE
    preset: Literal["paper", "practical"] = "practical"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    dim: Positive = 200
    dtype: Literal["float64", "float32"] = "float64"
    base_model: BaseModelFiles | None = None
    base: Base = Base()
    refine: Refine
    coefficient: Weight | None = None
    coefficient_from: Positive = 1  # the first update at which a given coefficient acts
    coefficient_rule: Literal["balance", "validated"] = "balance"
    lift: Asked = None  # how much higher facts are to score beside a penalty
    shrink: Asked = None  # beside it, what the cubes of their rows' coordinates cost
    penalty: PenaltySettings = PenaltySettings()
    cap: Cap = Cap()
    evaluation: Evaluation = Evaluation()
    dial: Rate | None = None  # what `meor dial --keep` multiplied newcomers' rows with, after training

    def __init__(self, **settings: Any) -> None:
        # Spelled out because the type checker cannot see that a preset fills `refine`.
        super().__init__(**settings)

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        preset = given.get("preset")
        filled = dict(given)
        # An unknown preset is filled as well: then only its own name is reported, not what it left out.
        known = preset if isinstance(preset, str) and preset in PRESETS else "practical"
        of_stream = STREAMS[known].get(str(given.get("stream", "world")).lower(), {})
        for source in (host_defaults(given.get("host")), of_stream, PRESETS[known]):
            for section, values in source.items():
                own = filled.get(section, {})
                if not isinstance(values, Mapping):
                    filled.setdefault(section, values)
                elif isinstance(own, dict):
                    filled[section] = {**_unless_decided(values, own), **own}
        filled.setdefault("method", default_method(filled))
        return {**filled, **own_settings(filled)}

    @model_serializer(mode="wrap")
    def _say_only_what_is_asked_for(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Runs that do not ask for it keep the hash and the bytes they had before there was such a setting.
        found: dict[str, Any] = dump(self)
        for name in ("unseen", "columns"):
            if getattr(self, name) == type(self).model_fields[name].default:
                found.pop(name, None)
        if not METHODS[self.method].capped:
            found.pop("cap", None)
        for name in ("dial", "lift", "shrink"):
            if getattr(self, name) is None:
                found.pop(name, None)
        return found

    @classmethod
    def resolve(
        cls, given: Mapping[str, Any], *, path: Path | None = None, lines: Mapping[str, int] | None = None
    ) -> Config:
        """A config from nested mappings; whatever is wrong becomes one `ConfigError`."""
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            raise explain(error, cls, path=path, lines=lines) from None

    @classmethod
    def load(cls, path: Path) -> Config:
        return cls.gather(path)

    @classmethod
    def gather(
        cls,
        path: Path | None = None,
        *,
        flags: Mapping[str, Any] | None = None,
        sets: Iterable[str] | Mapping[str, Any] = (),
    ) -> Config:
        """The file, then the flags that were given, then each `--set key=value`; the last one wins.

        `sets` may be a mapping, nested or with dotted keys.
        """
        given: dict[str, Any] = {}
        lines: dict[str, int] = {}
        if path is not None:
            given, lines = read_yaml(path)
        for key, value in (flags or {}).items():
            if value is not None:
                given[key] = value
                lines.pop(key, None)
        if isinstance(given.get("host"), str):  # so that `--set host.name_of_setting=...` finds a group
            given["host"] = {"name": given["host"]}
        for key, value in flat(sets) if isinstance(sets, Mapping) else map(parsed, sets):
            place(given, key.split("."), value)
            lines.pop(key, None)
        return cls.resolve(given, path=path, lines=lines)

    @property
    def reading(self) -> Reading:
        """The rules by which everything opens the stream of this run."""
        return {"duplicates": self.duplicates, "unseen": self.unseen, "columns": self.columns}

    def for_selection(self) -> Config:
        """The same run, to choose something by: validation facts alone, and no test fact as filter."""
        judged = {"split": ("valid",), "filter_splits": self.evaluation.selection_filter}
        return self.model_copy(update={"evaluation": self.evaluation.model_copy(update=judged)})

    def to_yaml(self) -> str:
        """The resolved settings, every default included; reading it back gives the same config."""
        return to_yaml(self.model_dump(mode="json"))

    def fingerprint(
        self, stream_hash: str, base_hash: str | None = None, classes_hash: str | None = None
    ) -> str:
        """sha256 of all that determines results: settings, and what stream, given base and classes hold."""
        apart: Any = {**dict.fromkeys((*PLACES, "preset"), True), "refine": {"classes"}}
        return _digest(
            {
                **self.model_dump(mode="json", exclude=apart),
                "method": former_name(self.method),  # so that runs begun before keep their hash
                "stream_hash": stream_hash,
                "base_hash": base_hash,
                **_if_any(classes_hash),
            }
        )

    def base_fingerprint(self, prefix_hash: str, versions: Mapping[str, str]) -> str:
        """What determines the base model: runs that agree on it share one."""
        shared = self.model_dump(mode="json", include={"backbone", "host", "seed", "dim", "dtype", "base"})
        shared["filter_splits"] = self.evaluation.selection_filter  # stopping is judged by them
        return _digest({**shared, "prefix_hash": prefix_hash, "versions": dict(versions)})

    def replay_fingerprint(
        self,
        prefix_hash: str,
        before_sha256: Iterable[str],
        versions: Mapping[str, str],
        classes_hash: str | None = None,
    ) -> str:
        """What determines an update of the host alone, against which the methods of a pair are balanced.

        `before_sha256` is of the models it starts from: the base, and the one of the update before.
        """
        shared = self.model_dump(
            mode="json",
            include={"backbone", "host", "seed", "dtype", "refine", "base", "cap"},
            exclude={"refine": {"classes"}},
        )
        shared |= {"prefix_hash": prefix_hash, "before": list(before_sha256), "versions": dict(versions)}
        return _digest({**shared, **_if_any(classes_hash)})


def _if_any(classes_hash: str | None) -> dict[str, str]:
    """Runs without classes keep the hash they had before there were any."""
    return {} if classes_hash is None else {"classes_hash": classes_hash}


def _unless_decided(values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What a preset fills in: not that an update stops by itself where it is said how long it is trained.

    So `refine.passes=20` makes 20 passes, and runs made before updates could stop are read as they were.
    """
    decided = LENGTH & own.keys() and "validate_steps" not in own
    return {key: value for key, value in values.items() if not (decided and key in STOPPING)}


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
