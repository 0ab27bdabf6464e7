"""The parts of a run that are chosen by name: backbone, host and method. A new one needs no line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationError

from meor.errors import ConfigError
from meor.methods import DEFAULT, METHODS, NONE, UNCAPPED, current_name
from meor.run.explain import explain

if TYPE_CHECKING:
    from meor.hosts import HostSettings


def known_backbone(value: Any) -> Any:
    from meor.backbone import BACKBONES  # a fourth backbone is one line there and none here

    if isinstance(value, str) and value not in BACKBONES:
        raise ValueError(f"is not one of {', '.join(BACKBONES)}")
    return value


def default_method(given: Mapping[str, Any]) -> str:
    """The method of a run that names none; other hosts, and the paper's preset, run alone."""
    host = given.get("host", "replay")
    name = host.get("name") if isinstance(host, Mapping) else getattr(host, "name", host)
    if given.get("preset") == "paper" or name != "replay":
        return NONE
    if given.get("backbone") is None:
        return DEFAULT
    from meor.backbone import BACKBONES, Geometry

    backbone = BACKBONES.get(str(given["backbone"]))
    return DEFAULT if backbone is None or backbone.geometry is Geometry.DOT else UNCAPPED


def own_settings(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a method with a coefficient of its own brings, less what is given.

    A run says it, because another version may bring others. Runs and stores made before there was a `shrink`
    say a lift alone, and go on by that.
    """
    method = given["method"]
    chosen = METHODS.get(current_name(method)) if isinstance(method, str) else None
    if chosen is None or chosen.coefficient is None:
        return {}
    own = {"coefficient": chosen.coefficient, "lift": chosen.lift, "shrink": chosen.shrink}
    if given.get("lift") is not None:
        own.pop("shrink")
    return {setting: value for setting, value in own.items() if given.get(setting) is None}


def known_method(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if current_name(value) not in METHODS:
        raise ValueError(f"is not one of {', '.join(METHODS)}")
    return current_name(value)


def _host(value: Any) -> Any:
    """A bare name, or a group with the name and the host's own settings, which the host's class describes."""
    from meor.hosts import HOSTS, HostSettings

    if isinstance(value, HostSettings):
        return value
    given = {"name": value} if isinstance(value, str) else value
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise ValueError("is neither the name of a host nor a group of settings with a `name`")
    if given["name"] not in HOSTS:
        raise ValueError(f"is not one of {', '.join(HOSTS)}")
    described = HOSTS[given["name"]].Settings
    try:
        return described.model_validate(given)
    except ValidationError as error:
        raise explain(error, described, within="host.") from None


def host_defaults(value: Any) -> Mapping[str, Any]:
    """What the chosen host brings; nothing where none is named, or wrongly, which is said elsewhere."""
    if value is None:
        return {}
    from meor.hosts import HOSTS

    try:
        settings = _host(value)
    except (ValueError, ConfigError):
        return {}
    return HOSTS[settings.name].defaults(settings)


def _plain_host(value: Any) -> Any:
    """A host without settings of its own is written as its name."""
    found = value.model_dump(mode="json")
    return found["name"] if len(found) == 1 else found


Method = Annotated[str, BeforeValidator(known_method)]
if TYPE_CHECKING:
    HostChoice = HostSettings
else:  # hosts bring torch, which settings are quick without
    HostChoice = Annotated[Any, BeforeValidator(_host), PlainSerializer(_plain_host)]
