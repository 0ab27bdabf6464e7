"""The guard: the probe with a coefficient that nobody has to decide."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.tiny_run import made_once, tiny_stream

from meor.methods.registry import METHODS
from meor.run.control import CONTROL
from meor.run.view import RunView
from meor.stream.snapshot import Stream

PRESSED = ("refine.learning_rate=0.3", "refine.passes=4", "refine.replay_size=60")
OWN = METHODS["guard"].coefficient


@pytest.fixture(scope="module")
def stream() -> Stream:
    return tiny_stream()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, stream: Stream) -> Callable[..., RunView]:
    return made_once(tmp_path_factory.mktemp("guard"), stream, *PRESSED)


def rows(view: RunView) -> torch.Tensor:
    return view.model(2).entity


@pytest.mark.parametrize("name", ["guard", "cap+guard"])
def test_it_is_the_probe_with_its_own_coefficient(made: Callable[..., RunView], name: str) -> None:
    probe = name.replace("guard", "probe")
    guarded, probed = made(f"method={name}"), made(f"method={probe}", f"coefficient={OWN}")
    assert torch.equal(rows(guarded), rows(probed))
    assert not torch.equal(rows(guarded), rows(made(f"method={METHODS[probe].start}")))
    told = guarded.endpoints()[CONTROL]
    assert (told["rule"], told["coefficient"], told["controlled"]) == ("own", OWN, True)
    assert guarded.config.coefficient is None


def test_a_coefficient_of_the_settings_wins(made: Callable[..., RunView]) -> None:
    harder = made("method=guard", "coefficient=0.5")
    assert harder.endpoints()[CONTROL]["rule"] == "given"
    assert not torch.equal(rows(harder), rows(made("method=guard")))
    assert torch.equal(rows(made("method=guard", "coefficient=0.0")), rows(made("method=none")))


def test_nothing_is_recorded_of_occurrences_that_it_did_not_look_at(made: Callable[..., RunView]) -> None:
    assert not made("method=guard").has("update-1/records.parquet")
    assert made("method=mmr", "coefficient=0.1").has("update-1/records.parquet")


def test_before_it_acts_it_asks_nothing(made: Callable[..., RunView]) -> None:
    late = made("method=guard", "coefficient=0.5", "coefficient_from=2")
    assert torch.equal(late.model(1).entity, made("method=none").model(1).entity)
    assert not torch.equal(rows(late), rows(made("method=none")))
