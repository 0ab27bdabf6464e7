"""A tiny stream in a folder of its own, and a verb whose behaviour a test decides."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer
from tests.tiny_run import tiny_stream

from meor import cli
from meor.stream.files import write_stream


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny stream as a folder; the working folder and the cache are the test's own."""
    monkeypatch.setenv("MEOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_stream(tiny_stream(), tmp_path / "ring")
    return tmp_path / "ring"


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A verb `probe` whose behaviour a test sets with ["does"]."""
    said: dict[str, object] = {}
    module = ModuleType("probe_verb")
    module.app = cli.new_verb()  # type: ignore[attr-defined]

    @module.app.command()
    def probe(count: int = typer.Option(1)) -> None:
        """Probe [n, width]."""
        does = said["does"]
        assert callable(does)
        does()

    monkeypatch.setitem(sys.modules, "probe_verb", module)
    monkeypatch.setitem(cli.VERBS, "probe", ("probe_verb", "Probe something."))
    return said
