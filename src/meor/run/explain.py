"""A failed validation, as one sentence with the remedy: a typo names the nearest option."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from meor.errors import ConfigError

Location = tuple[int | str, ...]


def explain(
    error: ValidationError,
    model: type[BaseModel],
    *,
    path: Path | None = None,
    lines: Mapping[str, int] | None = None,
    within: str = "",
) -> ConfigError:
    """The first problem with its remedy; further ones are counted. `within` names the group of settings."""
    problems = [
        _at_its_setting(each, model) for each in error.errors(include_url=False, include_context=True)
    ]
    first = problems[0]
    alike = [each for each in problems if each["loc"] == first["loc"]]  # what else the setting may be
    problem, remedy = _sentence(first, model, within)
    if others := [_wanted(each) for each in alike[1:]]:
        remedy = ", or ".join((remedy, *others))
    if len(problems) > len(alike):
        problem += f" (and {len(problems) - len(alike)} more)"
    lines = lines or {}
    line = lines.get(_dotted(first["loc"]))
    from_file = path if line is not None or not lines else None
    return ConfigError(problem, remedy=remedy, path=from_file, line=line)


def _at_its_setting(problem: ErrorDetails, model: type[BaseModel]) -> ErrorDetails:
    """Where a setting may be of several kinds, its place ends with the kind that was tried: left out."""
    where = problem["loc"]
    for count in range(1, len(where)):
        if _is_setting(where[:count], model):
            rest = (part for part in where[count:] if isinstance(part, int))
            return {**problem, "loc": (*where[:count], *rest)}
    return problem


def _is_setting(where: Location, model: type[BaseModel]) -> bool:
    inside = _model_at(where[:-1], model)
    field = inside.model_fields.get(str(where[-1])) if inside is not None else None
    return field is not None and _inner_model(field.annotation) is None


def _wanted(problem: ErrorDetails) -> str:
    return problem["msg"].removeprefix("Input should be ")


def _sentence(problem: ErrorDetails, model: type[BaseModel], within: str) -> tuple[str, str]:
    where, kind = problem["loc"], problem["type"]
    name = within + _dotted(where)
    if kind == "extra_forbidden":
        return f"there is no setting {name}", _nearest_setting(where, model)
    given = problem.get("input")
    if isinstance(given, dict) and isinstance(given.get("name"), str):  # a host with its settings
        given = given["name"]
    value = _short(given)
    if kind == "literal_error":
        expected = str(problem.get("ctx", {}).get("expected", ""))
        options = [option.strip("' ") for option in expected.replace(" or ", ", ").split(",")]
        return f"{name} cannot be {value}", _nearest(str(given), options)
    if kind == "value_error":
        reason = str(problem.get("ctx", {}).get("error", problem["msg"]))
        options = reason.removeprefix("is not one of ").split(", ")
        if reason.startswith("is not one of "):
            return f"{name} cannot be {value}", _nearest(str(given), options)
        return f"{name}: {reason}" if name else reason, "Correct it"
    if kind == "missing":
        return f"{name} is missing", "Give it a value"
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        return f"{name} is a group of settings, not {value}", f"Set e.g. {name}.{_members(where, model)}"
    return f"{name} cannot be {value}", problem["msg"].replace("Input should", "It should", 1)


def _nearest(word: str, options: list[str]) -> str:
    close = difflib.get_close_matches(word.lower(), options, n=1, cutoff=0.5)
    listed = ", ".join(options)
    return f"The nearest option is {close[0]}; there are {listed}" if close else f"Choose one of {listed}"


def _nearest_setting(where: Location, model: type[BaseModel]) -> str:
    """The nearest name among the neighbours of the wrong one, then among all settings."""
    inside = _model_at(where[:-1], model)
    word = str(where[-1])
    prefix = "".join(f"{part}." for part in where[:-1])
    neighbours = list(inside.model_fields) if inside is not None else []
    close = difflib.get_close_matches(word, neighbours, n=1, cutoff=0.6)
    if close:
        return f"The nearest setting is {prefix}{close[0]}"
    everywhere = {dotted.rsplit(".", 1)[-1]: dotted for dotted in _all_settings(model, "")}
    close = difflib.get_close_matches(word, everywhere, n=1, cutoff=0.6)
    if close:
        return f"The nearest setting is {everywhere[close[0]]}"
    return f"The settings here are {', '.join(neighbours)}"


def _members(where: Location, model: type[BaseModel]) -> str:
    inside = _model_at(where, model)
    return next(iter(inside.model_fields), "") if inside is not None else ""


def _all_settings(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = _inner_model(field.annotation)
        if inner is None:
            yield f"{prefix}{name}"
        else:
            yield from _all_settings(inner, f"{prefix}{name}.")


def _model_at(where: Location, model: type[BaseModel]) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for part in where:
        field = current.model_fields.get(str(part)) if current is not None else None
        current = _inner_model(field.annotation) if field is not None else None
    return current


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        for choice in typing.get_args(annotation):
            inner = _inner_model(choice)
            if inner is not None:
                return inner
    return None


def _dotted(where: Location) -> str:
    return ".".join(str(part) for part in where)


def _short(value: Any) -> str:
    text = (
        repr(value) if isinstance(value, str | int | float | bool) or value is None else type(value).__name__
    )
    return text if len(text) <= 40 else text[:37] + "..."
