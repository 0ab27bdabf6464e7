"""`import meor` is cheap, and every name it promises is there."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import meor


def test_every_public_name_can_be_had() -> None:
    for name in meor.__all__:
        assert getattr(meor, name) is not None


def test_each_of_them_is_shown_in_a_document() -> None:
    root = Path(__file__).parents[1]
    text = "\n".join(path.read_text() for path in [root / "README.md", *(root / "docs").glob("*.md")])
    blocks = re.findall(r"^ *```python\n(.*?)^ *```$", text, re.M | re.S)
    shown = set(re.findall(r"\w+", " ".join([*blocks, *re.findall(r"`([^`\n]+)`", text)])))
    assert not [name for name in meor.__all__ if name not in shown | {"__version__"}]


def test_each_of_them_says_what_it_is() -> None:
    for name in meor.__all__:
        value = getattr(meor, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            said = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
            assert said, name
            assert not said.startswith(f"{name}("), name  # what a dataclass says by itself


def test_what_a_type_checker_reads_is_what_there_is() -> None:
    tree = ast.parse(Path(meor.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    read = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert read == meor._HOME


def test_no_document_imports_from_inside() -> None:
    root = Path(__file__).parents[1]
    for path in (root / "README.md", *(root / "docs").glob("*.md")):
        assert not re.search(r"^(from|import) meor\.", path.read_text(), re.MULTILINE), path.name


def test_an_unknown_name_is_explained() -> None:
    with pytest.raises(AttributeError, match="public name"):
        meor.no_such_name  # noqa: B018


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'numba', 'pyarrow'}"
    code = f"import sys, meor; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_without_pykeen_everything_is_imported_and_its_names_say_what_to_install() -> None:
    code = """
import sys
sys.modules["pykeen"] = None
import meor
from meor import *
for name in meor.pykeen.__all__:
    try:
        getattr(meor.pykeen, name)
    except meor.MeorError as error:
        assert "meor[pykeen]" in str(error)
    else:
        raise AssertionError(name)
try:
    meor.to_pykeen("nowhere")
except meor.MeorError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "meor[pykeen]"' in found.stdout
