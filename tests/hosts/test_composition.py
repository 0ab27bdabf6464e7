"""Hosts that move old rows take every method, and the reference moves with their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.hosts.contract import run
from tests.tiny_run import tiny_stream

from meor.errors import ConfigError
from meor.methods import METHODS
from meor.methods.registry import needs_coefficient

SHORT = ("refine.passes=1", "base.epochs=1", "host.validation_sample=3")


@pytest.mark.parametrize("method", [name for name in METHODS if not METHODS[name].capped])
def test_a_host_that_moves_old_rows_takes_every_method(method: str, tmp_path: Path) -> None:
    stream = tiny_stream()
    given = ("coefficient=5.0",) if needs_coefficient(method) else ()
    view = run("lkge", tmp_path / "run", stream, f"method={method}", *SHORT, *given)
    found = view.endpoints()["test"]
    assert found["H_cur"]["value"] is not None
    assert view.complete


def test_norms_cannot_be_capped_where_rows_are_unit_rows(tmp_path: Path) -> None:
    capped = next(name for name in METHODS if METHODS[name].capped)
    with pytest.raises(ConfigError, match="a longer row does not score higher"):
        run("lkge", tmp_path / "run", tiny_stream(), f"method={capped}", *SHORT)


@pytest.mark.parametrize("name", ["lift", "shrink"])
def test_nothing_is_asked_of_facts_where_a_host_has_a_loss_of_its_own(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"lkge has one of its own\. Leave {name} out"):
        run("lkge", tmp_path / "run", tiny_stream(), "method=probe", "coefficient=1", f"{name}=1", *SHORT)


def test_the_reference_has_a_gradient_unless_it_is_detached(tmp_path: Path) -> None:
    """The paper detaches the scale only (decision 30); both ways train, and to other rows."""
    stream, rows = tiny_stream(), {}
    for detached in ("false", "true"):
        sets = ("method=meor", "coefficient=50.0", f"penalty.detach_reference={detached}", *SHORT)
        rows[detached] = run("fine-tune", tmp_path / detached, stream, *sets).model(1).entity
    alone = run("fine-tune", tmp_path / "none", stream, *SHORT).model(1).entity
    assert not torch.equal(rows["false"], rows["true"])
    assert not torch.equal(rows["false"], alone)
    assert not torch.equal(rows["true"], alone)
