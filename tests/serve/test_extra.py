"""Without the extra, `meor serve` says what to install, and these tests say that they were skipped."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.serve.conftest import MISSING
from typer.testing import CliRunner

from meor.cli import app


@pytest.mark.skipif(bool(MISSING), reason=f'missing: {", ".join(MISSING)}; pip install "meor[serve]" httpx')
def test_the_server_is_tested() -> None:
    assert not MISSING


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    found = CliRunner().invoke(app, ["serve", str(tmp_path)])
    assert found.exit_code == 2
    assert "uvicorn is not installed" in found.output
    assert 'pip install "meor[serve]"' in found.output


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    from meor.cli.serve import _token
    from meor.errors import ConfigError

    (tmp_path / "token").write_text("short\n")
    with pytest.raises(ConfigError, match="at least 16"):
        _token(tmp_path / "token")
    with pytest.raises(ConfigError, match="cannot be read"):
        _token(tmp_path / "none")
    (tmp_path / "token").write_text("long enough to be one\n")
    assert _token(tmp_path / "token") == "long enough to be one"
