from __future__ import annotations

import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.study.study_rows import row, study_rows, write_rows

from meor.errors import StudyError
from meor.study.results import Results
from meor.study.rows import read_rows, rows_file

PROMISED = [
    *("study", "stream", "backbone", "host", "preset", "coefficient_rule", "pair", "method"),
    *("H_cur", "H_old", "D_MCI", "A_TN", "A_QN", "coefficient", "active_share", "pair_hash"),
]


def test_rows_come_back_to_the_bit(tmp_path: Path) -> None:
    rows = [*study_rows(2), row("meor", 9, A_QN=None, active_share=None)]
    write_rows(tmp_path / "runs.parquet", rows)
    assert read_rows(tmp_path / "runs.parquet") == rows
    write_rows(tmp_path / "again.parquet", rows)
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "runs.parquet").read_bytes()
    assert not list(tmp_path.glob("*.tmp"))


def test_rows_that_name_the_host_alone_replay_are_read_as_none(tmp_path: Path) -> None:
    write_rows(tmp_path / "runs.parquet", [row("replay"), row("meor")])
    assert [each.method for each in read_rows(tmp_path / "runs.parquet")] == ["none", "meor"]


def test_the_columns_are_those_promised(tmp_path: Path) -> None:
    write_rows(tmp_path / "runs.parquet", [])
    assert pq.read_schema(tmp_path / "runs.parquet").names[: len(PROMISED)] == PROMISED
    assert read_rows(tmp_path / "runs.parquet") == []


def test_a_row_whose_parts_do_not_add_up_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="H_old - H_cur"):
        write_rows(tmp_path / "runs.parquet", [row(D_MCI=0.06)])
    with pytest.raises(StudyError, match="H_cur is nan"):
        write_rows(tmp_path / "runs.parquet", [row(H_cur=float("nan"))])
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_none_of_ours_is_explained(tmp_path: Path) -> None:
    (tmp_path / "runs.parquet").write_bytes(b"not parquet")
    with pytest.raises(StudyError, match=r"has no study-manifest\.json"):
        read_rows(tmp_path / "runs.parquet")
    Results(tmp_path).replace({"runs.parquet": b"not parquet"})
    with pytest.raises(StudyError, match="cannot be read"):
        read_rows(tmp_path / "runs.parquet")
    with pytest.raises(StudyError, match="cannot be read"):
        read_rows(tmp_path / "absent.parquet")
    less = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(rows_file([row()]))).drop_columns(["method"]), less)
    Results(tmp_path).replace({"less.parquet": less.getvalue()})
    with pytest.raises(StudyError, match="no column method"):
        read_rows(tmp_path / "less.parquet")
