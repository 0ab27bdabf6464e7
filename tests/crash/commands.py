"""Commands that are killed and given again, each with what shows that it works and what must come of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.study.tiny_study import hashes
from tests.tiny_run import SETTINGS, results

from meor.run.layout import is_run

Command = Callable[[Path], list[str]]

_SHARED = ("--checkpoint-seconds", "0", "--quiet")
# Newcomers that move far press on old answers: without that no penalty acts and nothing is chosen.
PRESSED = ("refine.learning_rate=0.3", "refine.replay_size=64")
_SETS = tuple(part for text in (*SETTINGS, *PRESSED) for part in ("--set", text))


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of work in a folder of its own; `made` is what a finished one is compared by."""

    name: str
    command: Command
    made: Callable[[Path], dict[str, str]]
    sign: Callable[[Path], object]  # changes as soon as the work writes
    may_be_partly_there: bool  # else what stands under a final name is whole, at any moment


def call(arguments: list[str], told: Path) -> None:
    """The command, in a process that has our modules loaded; module-level, so that it can be spawned."""
    from meor.cli import app

    log = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    app(arguments, prog_name="meor")


def kinds(ring: Path, finished_run: Path, finished_study: Path) -> dict[str, Kind]:
    """Every kind by name. Runs and studies read the stream `ring`, audits and reports what is finished."""
    found = [
        _run("none", ring),
        _run("meor", ring, "--method", "meor"),
        _run("calibration", ring, "--method", "calibration"),
        _run("validated", ring, "--method", "meor", "--seed", "1", "--set", "coefficient_rule=validated"),
        Kind("study", lambda at: study_command(at, ring), lambda at: hashes(at / "study"), _log_sizes, True),
        Kind(
            "audit",
            lambda at: ["audit", str(finished_run), "--out", str(at / "audit"), "--force"],
            _files,
            _names,
            False,
        ),
        Kind("report", lambda at: _report(finished_study, at), _files, _names, False),
    ]
    return {kind.name: kind for kind in found}


def run_command(at: Path, ring: Path, *more: str) -> list[str]:
    shared = [*_SHARED, "--threads", "1", "--cache", str(at / "cache")]
    if is_run(at / "run"):
        return ["resume", str(at / "run"), *shared]
    return ["run", "--stream", str(ring), "--out", str(at / "run"), *_SETS, *more, *shared]


def study_command(at: Path, ring: Path) -> list[str]:
    methods = [
        "--method",
        "none",
        "--method",
        "meor",
        "--rule",
        "balance",
        "--pairs",
        "2",
        "--workers",
        "1",
    ]
    place = ["--out", str(at / "study"), "--cache", str(at / "cache")]
    return ["study", "primary", "--stream", str(ring), *methods, *place, *_SETS, *_SHARED]


def _run(name: str, ring: Path, *more: str) -> Kind:
    return Kind(
        name,
        lambda at: run_command(at, ring, *more),
        lambda at: results(at / "run"),
        _log_sizes,
        True,
    )


def _report(study: Path, at: Path) -> list[str]:
    return ["report", str(study), "--out", str(at / "report.html"), "--figures", str(at / "figures")]


def _files(at: Path) -> dict[str, str]:
    """sha256 of everything that stands under a final name; what a killed process was writing has another."""
    return {
        str(path.relative_to(at)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(at.rglob("*"))
        if path.is_file() and path.suffix != ".tmp" and not path.relative_to(at).parts[0].startswith(".")
    }


def _log_sizes(at: Path) -> object:
    return [(str(path), path.stat().st_size) for path in sorted(at.rglob("log.jsonl"))]


def _names(at: Path) -> object:
    return sorted(str(path) for path in at.rglob("*"))
