from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from meor import __version__, cli
from meor.errors import InputError

HEAVY = ("numpy", "torch", "pyarrow", "numba", "scipy", "pydantic", "pooch", "requests", "matplotlib")


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_help_lists_every_verb_and_imports_none_of_them() -> None:
    code = (
        "import sys\n"
        "from meor.cli import main\n"
        "sys.argv = ['meor', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('MODULES', *sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    shown, _, modules = said.partition("MODULES")
    for name, (module, help_line) in cli.VERBS.items():
        assert name in shown
        assert help_line in shown
        assert module not in modules.split()
    loaded = {module.partition(".")[0] for module in modules.split()}
    assert not loaded & set(HEAVY)


def test_every_verb_has_a_module_with_an_app() -> None:
    for name, (module, _) in cli.VERBS.items():
        assert isinstance(importlib.import_module(module).app, typer.Typer), name
        assert cli.load(name).name == name


def test_version() -> None:
    assert call("--version") == (0, f"meor {__version__}\n", "")


def test_an_explained_error_is_one_line_on_stderr_and_exit_code_2(verb: dict[str, object]) -> None:
    def fail() -> None:
        raise InputError("a label\nwith\x1b[31m colour", remedy="Rename it", path="facts.tsv", line=3)

    verb["does"] = fail
    code, out, err = call("probe")
    assert (code, out) == (2, "")
    assert err == "meor: facts.tsv, line 3: a label\\nwith\\x1b[31m colour. Rename it.\n"


def test_an_interrupt_says_so_and_exits_with_130(verb: dict[str, object]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    verb["does"] = interrupt
    assert call("probe") == (130, "", "meor: interrupted\n")


def test_a_place_that_cannot_be_written_is_explained(verb: dict[str, object]) -> None:
    def refuse() -> None:
        raise PermissionError(13, "Permission denied", "out/run")

    verb["does"] = refuse
    code, _, err = call("probe")
    assert code == 2
    assert err.startswith("meor: out/run: Permission denied.")


def test_a_defect_keeps_its_traceback(verb: dict[str, object]) -> None:
    def defect() -> None:
        raise ZeroDivisionError

    verb["does"] = defect
    result = CliRunner().invoke(cli.app, ["probe"])
    assert result.exit_code == 1
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["dta"], "data"), (["probe", "--cuont", "3"], "--count"), (["--vesion"], "--version")],
)
def test_an_unknown_command_or_option_names_the_nearest(
    verb: dict[str, object], typed: list[str], meant: str
) -> None:
    code, _, err = call(*typed)
    assert code == 2
    assert meant in err
    assert "Traceback" not in err


def test_a_verbs_help_shows_brackets_as_written(verb: dict[str, object]) -> None:
    code, out, _ = call("probe", "--help")
    assert code == 0
    assert "Probe [n, width]." in out


def test_the_package_can_be_called_as_the_command() -> None:
    words = [sys.executable, "-m", "meor", "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.startswith("meor ")
