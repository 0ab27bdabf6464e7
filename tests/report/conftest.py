"""A real little run on the embedded world, and a study whose rows are invented but whose runs are files."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.study.study_rows import write_rows

from meor.methods.penalty import penalty_records
from meor.report.page import Page
from meor.run.config import Config
from meor.run.records_file import comparison_of, records_bytes
from meor.run.session import start
from meor.run.trainer import Resources
from meor.run.view import RunView
from meor.study.plan import Study
from meor.study.results import Results
from meor.study.rows import Row

SMALL = {
    "dim": 12,
    "base": {"epochs": 20, "learning_rate": 0.02, "validate_every": 10},
    "refine": {"passes": 15, "learning_rate": 0.03, "batch": 512, "replay_size": 256},
}
METHODS = {
    "none": 0.0,
    "calibration": 0.002,
    "mmr": 0.004,
    "uor": 0.005,
    "shuffled": 0.007,
    "uncentered": 0.009,
    "meor": 0.008,
}
MULTIPLES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The host alone: no penalty, no records."""
    root = tmp_path_factory.mktemp("runs")
    start(Config(**SMALL), root / "none", resources=Resources(cache=root / "cache"))
    return root / "none"


@pytest.fixture(scope="session")
def penalized_folder(run_folder: Path) -> Path:
    """The same run as if it had had a penalty: its records are what MEOR sees at its weights."""
    folder = run_folder.with_name("meor")
    shutil.copytree(run_folder, folder)
    content = yaml.safe_load((folder / "config.yaml").read_text())
    content["method"] = "meor"
    (folder / "config.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    relist(folder, "config.yaml")
    view = RunView.open(folder)
    stream = view.stream()
    for update in view.updates[1:]:
        found = penalty_records(comparison_of(view.config, stream, update), view.model(update))
        (folder / f"update-{update}" / "records.parquet").write_bytes(records_bytes(found))
        relist(folder, f"update-{update}/records.parquet")
    return folder


@pytest.fixture(scope="session")
def study_folder(tmp_path_factory: pytest.TempPathFactory, run_folder: Path, penalized_folder: Path) -> Path:
    """Eight pairs of seven methods, two rules and a grid; two of its runs have folders."""
    folder = tmp_path_factory.mktemp("study") / "primary"
    names = {"none": run_folder, "meor": penalized_folder}
    for name, source in names.items():
        shutil.copytree(source, folder / "runs" / "world" / "pair-0" / name)
    write_rows(folder / "runs.parquet", invented_rows())
    put(folder, "study.yaml", invented_plan().to_yaml())
    put(folder, "failures.json", json.dumps({"world/pair-7/uor": "the disk was full."}))
    return folder


def put(folder: Path, name: str, text: str) -> None:
    """A file of a study, listed as the study would."""
    Results(folder).replace({name: text.encode()})


def invented_plan(**changes: object) -> Study:
    """The plan of the invented rows: a curve of multiples per penalty."""
    penalties = [method for method in METHODS if method not in ("none", "calibration")]
    given = {
        "study": "primary",
        "stream": "ENTITY",
        "methods": list(METHODS),
        "coefficient_rule": ["balance", "validated"],
        "curves": {method: {"method": method, "values": MULTIPLES[1:]} for method in penalties},
    }
    return Study.resolve({**given, **changes})


def invented_rows(stream: str = "ENTITY") -> list[Row]:
    rng = np.random.default_rng(7)
    rows = []
    for pair in range(8):
        shared = rng.normal(0, 0.004, 3)
        for method, gain in METHODS.items():
            if method in ("none", "calibration"):
                rows.append(_row(stream, pair, method, "none", 0.0, gain, shared, rng))
                continue
            rows += [_row(stream, pair, method, "balance", m, gain, shared, rng) for m in MULTIPLES]
            rows.append(_row(stream, pair, method, "validated", 30.0, 2 * gain, shared, rng))
    return rows


def _row(stream, pair, method, rule, multiple, gain, shared, rng) -> Row:
    strength = 1 + np.log10(max(multiple, 1.0))
    old = 0.245 + shared[0] + 0.2 * gain * strength + rng.normal(0, 0.0006)
    lost = 0.052 + shared[1] - gain * strength + rng.normal(0, 0.0008)
    newcomers = 0.165 + shared[2] + gain - 0.0035 * (strength - 1) ** 2 + rng.normal(0, 0.001)
    row = Row(
        study="primary",
        stream=stream,
        backbone="complex",
        host="replay",
        preset="practical",
        coefficient_rule=rule,
        pair=pair,
        method=method,
        H_cur=old - lost,
        H_old=old,
        D_MCI=old - (old - lost),
        A_TN=newcomers,
        A_QN=None if method == "calibration" else 0.15 + shared[0],
        coefficient=0.0035 * multiple,
        active_share=None if rule == "none" else 0.3,
        pair_hash=hashlib.sha256(str(pair).encode()).hexdigest(),
        multiple=multiple or None,
        reference_hash=None,
        run=f"runs/world/pair-{pair}/{method}" + ("" if multiple in (0.0, 1.0) else f"-x{multiple:g}"),
        curve=method if rule == "balance" and multiple > 1.0 else None,
        at=multiple if rule == "balance" and multiple > 1.0 else None,
    )
    return replace(row, D_MCI=row.H_old - row.H_cur)


def told(page: Page) -> str:
    """The lead of a page, as one text."""
    return "\n".join(f"{said.question}: {said.answer}" for said in page.lead)


def relist(folder: Path, name: str) -> None:
    """Put a file that a test wrote into the run's manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
