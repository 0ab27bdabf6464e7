"""The hosts of a study: each with settings of its own, and with the backbones and the control that fit it.

A host is named by a text, because rows, folders and tables need one: `lkge variant=released` is the host lkge
with that setting. A study file may also write `{name: lkge, variant: released}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meor.errors import ConfigError
from meor.run.config import Config
from meor.storage.yaml_file import read_value
from meor.study.keys import several

DEFAULT = "default"
"""In a study's methods: whatever `default_method` says for each of its groups."""


def default_method(backbone: str, host: str) -> str:
    """What a run without a method uses under a backbone and a host."""
    return Config.resolve({"backbone": backbone, "host": host}).method


def host_text(value: Any) -> Any:
    """A host of a study file as the text that names it."""
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return " ".join([value["name"], *(f"{key}={value[key]}" for key in value if key != "name")])
    return " ".join(value.split()) if isinstance(value, str) else value


def host_name(text: str) -> str:
    return text.partition(" ")[0]


def host_settings(text: str) -> dict[str, Any]:
    """The same as settings of a run."""
    name, *settings = text.split(" ")
    found: dict[str, Any] = {"name": name}
    for setting in settings:
        key, equals, raw = setting.partition("=")
        if not (key and equals and raw):
            raise ConfigError(
                f"the host `{text}` has a setting that is not key=value: {setting}",
                remedy="Write e.g. `lkge variant=released`, or {name: lkge, variant: released}",
            )
        found[key] = read_value(raw, f"`{text}`")
    return found


def backbones_of(host: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Those that are wanted and that the host trains; where there is none of them, the one it brings."""
    from meor.hosts import HOSTS  # it brings torch, which whoever only names a study is quick without

    trained = HOSTS[host_name(host)].backbones if host_name(host) in HOSTS else ()
    chosen = tuple(name for name in wanted if not trained or name in trained)
    return chosen or trained[:1] or (Config.model_fields["backbone"].default,)


def for_hosts(hosts: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a study file says of these hosts: of those that were left out nothing need be said."""
    pairs, backbones = given.get("controlled_pairs") or {}, several(given.get("backbone", []))
    trained = {name for host in hosts for name in backbones_of(host, backbones)}
    return {
        "controlled_pairs": {host: pairs[host] for host in hosts if host in pairs},
        "backbone": [name for name in backbones if name in trained],
    }
