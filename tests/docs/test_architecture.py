"""docs/architecture.md: its walks exist, and no module imports one that comes later in its walk."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "meor"
DOCUMENT = (ROOT / "docs" / "architecture.md").read_text()
WALKS = {
    part.splitlines()[0]: re.findall(r"^\d+\. `([a-z_.]+)`", part, re.M)
    for part in DOCUMENT.split("\n### ")[1:]
}


def path_of(module: str) -> Path:
    return SOURCE / f"{module.replace('.', '/')}.py"


def imported(module: str) -> set[str]:
    """Modules of the package that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path_of(module).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("meor"):
            name = str(node.module).removeprefix("meor").removeprefix(".")
            found |= {name, *(f"{name}.{each.name}" for each in node.names)}
    return found


@pytest.mark.parametrize("walk", ["meor run", "meor audit", "meor study", "meor admit", "meor report"])
def test_data_walks_forward(walk: str) -> None:
    modules = WALKS[walk]
    assert len(modules) >= 15
    for at, module in enumerate(modules):
        assert path_of(module).is_file(), module
        assert not imported(module) & set(modules[at + 1 :]), module


def test_every_room_has_its_line() -> None:
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert rooms == set(re.findall(r"^\| `([a-z]+)` \|", DOCUMENT, re.M))
