"""The tiny stream in a folder of its own, and a run of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tiny_run import SETTINGS, tiny_stream

import meor
from meor.calls.run import Run
from meor.stream.files import write_stream


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny stream as a folder; the working folder and the cache are the test's own."""
    monkeypatch.setenv("MEOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_stream(tiny_stream(), tmp_path / "ring")
    return tmp_path / "ring"


@pytest.fixture
def made(ring: Path) -> Run:
    return meor.run(ring, method="meor", settings=SETTINGS, out="made", quiet=True)
