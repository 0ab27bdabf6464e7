"""The paper's four streams, where they are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from meor.cli import app
from meor.stream.registry import Entry, entries, find_folder, verify

DATA = os.environ.get("MEOR_DATA")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA, reason="MEOR_DATA names no folder with the paper's streams"),
]

# Table 1: cumulative entities, cumulative relations, facts introduced
TABLE_1 = {
    "ENTITY": [
        (2909, 233, 46388),
        (5817, 236, 72111),
        (8725, 236, 73785),
        (11633, 237, 70506),
        (14541, 237, 47326),
    ],
    "FBInc-S": [(2909, 233, 46388), (2919, 233, 235), (2930, 233, 152), (2940, 233, 180), (2950, 233, 239)],
    "FBInc-L": [
        (2909, 233, 46388),
        (3010, 233, 3110),
        (3110, 234, 2736),
        (3211, 234, 2908),
        (3312, 234, 3105),
    ],
    "WN-CKGE": [
        (24567, 11, 55801),
        (28660, 11, 9300),
        (32754, 11, 9300),
        (36848, 11, 9300),
        (40943, 11, 9302),
    ],
}


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_every_file_has_its_registered_hash_and_size(entry: Entry) -> None:
    folder = find_folder(entry)
    assert folder is not None
    verify(entry, folder)
    assert [(folder / file.path).stat().st_size for file in entry.files] == [
        file.size for file in entry.files
    ]


def test_all_sixty_cells_of_table_1_agree() -> None:
    agreeing = 0
    for name, expected in TABLE_1.items():
        result = CliRunner().invoke(app, ["data", "info", name.lower(), "--json"])
        said = json.loads(result.stdout)
        assert said["name"] == name
        found = [(row["entities"], row["relations"], row["facts"]) for row in said["snapshots"]]
        assert found == expected
        agreeing += sum(map(len, found))
    assert agreeing == 60


def test_data_dir_points_to_the_same_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEOR_DATA")
    result = CliRunner().invoke(app, ["data", "check", "fbinc-s", "--data-dir", str(Path(str(DATA)))])
    assert result.exit_code == 0
    assert "all 15 files" in result.stdout
