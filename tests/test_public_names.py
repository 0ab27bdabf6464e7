"""`import meor` is cheap, and every name it promises is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import meor


def test_every_public_name_can_be_had() -> None:
    for name in meor.__all__:
        assert getattr(meor, name) is not None


def test_there_are_few_of_them() -> None:
    assert len(meor.__all__) <= 25


def test_an_unknown_name_is_explained() -> None:
    with pytest.raises(AttributeError, match="public name"):
        meor.no_such_name  # noqa: B018


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'numba', 'pyarrow'}"
    code = f"import sys, meor; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
