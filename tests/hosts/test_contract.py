"""Every registered host holds the contract; one that is not registered cannot be chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hosts.contract import holds_its_contract

from meor.errors import ConfigError
from meor.hosts import HOSTS, HostSettings, Replay
from meor.run.config import Config


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_a_host_holds_its_contract(host: str, tmp_path: Path) -> None:
    holds_its_contract(host, tmp_path)


class Anchored(HostSettings):
    strength: float = 0.5


class Anchor(Replay):
    name = "anchor"
    Settings = Anchored


def test_a_host_has_settings_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOSTS, "anchor", Anchor)
    assert Config(host="anchor").host == Anchored(name="anchor", strength=0.5)
    assert Config.gather(flags={"host": "anchor"}, sets=["host.strength=2"]).host.strength == 2
    dumped = Config(host={"name": "anchor", "strength": 3}).model_dump(mode="json")["host"]
    assert dumped == {"name": "anchor", "strength": 3}
    assert Config(host="replay").model_dump(mode="json")["host"] == "replay"
    assert Config.resolve({"host": dumped}) == Config(host={"name": "anchor", "strength": 3})


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("reply", "nearest option is replay"),
        ({"name": "anchor", "strenght": 1}, r"no setting host\.strenght.*nearest setting is strength"),
        ({"name": "anchor", "strength": "much"}, r"host\.strength cannot be 'much'"),
        ({"strength": 1}, "group of settings with a `name`"),
        (3, "neither the name of a host"),
    ],
)
def test_a_wrong_host_is_one_sentence(host: object, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOSTS, "anchor", Anchor)
    with pytest.raises(ConfigError, match=said):
        Config.resolve({"host": host})
