"""The wheel holds the package and nothing else, and works where only it and what it needs are installed."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import meor

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "meor"
MADE = {".pyc", ".nbi", ".nbc"}  # by Python and numba, when the package is used
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: a build leaves its own folders in the source."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(PACKAGE, source / "src/meor")
    (source / "src/meor/stream/notes.orig").write_text("stray")
    built = source / "built"
    words = [*PIP, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", built, source]
    subprocess.run(words, check=True, capture_output=True, text=True)
    (found,) = built.iterdir()
    return found


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel; its dependencies come from the one that runs the tests."""
    place = tmp_path_factory.mktemp("clean") / "env"
    venv.create(place, with_pip=False)
    python = place / "bin/python"
    packages = next(place.glob("lib/python*/site-packages"))
    # A .pth file adds a folder, but not the .pth files in it: the editable install of this project stays out.
    (packages / "dependencies.pth").write_text("".join(f"{each}\n" for each in site.getsitepackages()))
    words = [*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel]
    subprocess.run(words, check=True, capture_output=True, text=True)
    return place


def call(clean: Path, *words: str) -> str:
    hidden = {"PYTHONPATH", "PYTHONHOME", "MEOR_DATA"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    command = [clean / "bin" / words[0], *words[1:]]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=clean, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_holds_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    wanted = {
        f"meor/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in MADE
    }
    about = f"meor-{meor.__version__}.dist-info"
    names = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE")
    assert set(zipfile.ZipFile(wheel).namelist()) == wanted | {f"{about}/{name}" for name in names}


def test_it_works_without_the_source(clean: Path) -> None:
    place = call(clean, "python", "-c", "import meor; print(meor.__file__)")
    assert Path(place.strip()).is_relative_to(clean)
    assert call(clean, "meor", "--version") == f"meor {meor.__version__}\n"
    assert call(clean, "python", "-m", "meor", "--version") == f"meor {meor.__version__}\n"
    assert "FBInc-S" in call(clean, "meor", "data", "list")
    assert '"name": "world"' in call(clean, "meor", "data", "info", "world", "--json")
    assert "Table" in call(clean, "meor", "study", "--help")
    code = "import meor; print(*[name for name in meor.__all__ if getattr(meor, name) is None])"
    assert call(clean, "python", "-c", code).strip() == ""
