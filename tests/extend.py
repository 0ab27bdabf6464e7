"""The files that docs/extend.md shows, made to work as it says."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from meor.cli import app

EXTEND = Path(__file__).parents[1] / "docs" / "extend.md"


def document(kind: str, *, lines: int) -> dict[str, object]:
    """Execute the file of a section and what registers it; it may have so many lines."""
    section = EXTEND.read_text().split(f"## A {kind} of your own\n")[1].split("\n## ")[0]
    file, registration = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)
    assert len(file.splitlines()) <= lines
    assert len([line for line in registration.splitlines() if line and "import" not in line]) == 1
    names: dict[str, object] = {}
    exec(file, names)
    exec(registration, names)
    return names


def invoke(*arguments: object) -> str:
    """What a command prints; it must succeed."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout
