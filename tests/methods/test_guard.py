"""The guard: the probe with a coefficient that nobody has to decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.tiny_run import made_once, tiny_config, tiny_stream

from meor.errors import ConfigError
from meor.methods.probe import weight
from meor.methods.registry import METHODS, at_size
from meor.run.config import Config
from meor.run.control import CONTROL
from meor.run.view import RunView
from meor.stream.snapshot import Stream

PRESSED = ("refine.learning_rate=0.3", "refine.passes=4", "refine.replay_size=60")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return tiny_stream()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, stream: Stream) -> Callable[..., RunView]:
    return made_once(tmp_path_factory.mktemp("guard"), stream, *PRESSED)


def rows(view: RunView) -> torch.Tensor:
    return view.model(2).entity


@pytest.mark.parametrize("name", ["guard", "cap+guard"])
def test_it_is_the_probe_with_numbers_of_its_own(
    made: Callable[..., RunView], stream: Stream, name: str
) -> None:
    probe = name.replace("guard", "probe")
    own = METHODS[name]
    guarded = made(f"method={name}")
    share = weight(stream.growth(1))
    asked = f"lift={at_size(own.lift, share)}", f"shrink={at_size(own.shrink, share)}"
    probed = made(f"method={probe}", f"coefficient={own.coefficient}", *asked)
    assert torch.equal(guarded.model(1).entity, probed.model(1).entity)
    assert not torch.equal(rows(guarded), rows(made(f"method={METHODS[probe].start}")))
    told = guarded.endpoints()[CONTROL]
    assert (told["rule"], told["coefficient"], told["controlled"]) == ("own", own.coefficient, True)


def test_a_coefficient_of_the_settings_wins(made: Callable[..., RunView]) -> None:
    harder = made("method=guard", "coefficient=0.5")
    assert harder.endpoints()[CONTROL]["rule"] == "given"
    assert not torch.equal(rows(harder), rows(made("method=guard")))
    assert torch.equal(rows(made("method=guard", "coefficient=0.0")), rows(made("method=none")))


def test_under_a_cap_it_is_stronger_and_facts_are_asked_for_more(made: Callable[..., RunView]) -> None:
    free, held = METHODS["guard"], METHODS["cap+guard"]
    assert free.coefficient is not None
    assert held.coefficient is not None
    assert held.coefficient > free.coefficient
    said = made("method=probe", "coefficient=1").config.model_dump(mode="json")
    for name in ("lift", "shrink"):
        own = getattr(held, name)
        assert getattr(free, name) == 0.0
        assert isinstance(own, tuple)
        assert min(own) > 0.0
        assert name not in said, "none is said"
        without = made("method=cap+guard", f"{name}=0")
        assert not torch.equal(rows(without), rows(made("method=cap+guard")))


@pytest.mark.parametrize("name", ["lift", "shrink"])
def test_facts_are_asked_for_more_beside_a_penalty_only(made: Callable[..., RunView], name: str) -> None:
    assert torch.equal(rows(made("method=none", f"{name}=1")), rows(made("method=none")))
    off = made("method=cap+guard", "coefficient=0.0")
    assert torch.equal(rows(off), rows(made("method=cap")))


def test_rows_are_not_shrunk_where_a_longer_one_does_not_score_higher(made: Callable[..., RunView]) -> None:
    with pytest.raises(ConfigError, match="or leave shrink out"):
        made("backbone=transe", "method=probe", "coefficient=1", "shrink=1")


def test_nothing_is_recorded_of_occurrences_that_it_did_not_look_at(made: Callable[..., RunView]) -> None:
    assert not made("method=guard").has("update-1/records.parquet")
    assert made("method=mmr", "coefficient=0.1").has("update-1/records.parquet")


def test_before_it_acts_it_asks_nothing(made: Callable[..., RunView]) -> None:
    late = made("method=guard", "coefficient=0.5", "coefficient_from=2")
    assert torch.equal(late.model(1).entity, made("method=none").model(1).entity)
    assert not torch.equal(rows(late), rows(made("method=none")))


@pytest.mark.parametrize("name", ["guard", "cap+guard"])
def test_a_run_says_by_which_numbers_it_was_made_whatever_a_later_version_brings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tiny_config(f"method={name}")
    path = tmp_path / "config.yaml"
    path.write_text(begun.to_yaml())
    monkeypatch.setitem(METHODS, name, replace(METHODS[name], coefficient=7.0, lift=(3.0, 4.0), shrink=5.0))
    assert Config.load(path) == begun
    today = tiny_config(f"method={name}")
    assert (today.coefficient, today.lift, today.shrink) == (7.0, (3.0, 4.0), 5.0)
    assert today.fingerprint("stream") != begun.fingerprint("stream")


def test_a_run_from_before_there_was_a_shrink_goes_on_without_one() -> None:
    said = tiny_config("method=cap+guard").model_dump(mode="json")
    del said["shrink"]
    earlier = Config.resolve(said)
    assert earlier.shrink is None
    assert earlier.model_dump(mode="json") == said, "so it keeps its hash"
