"""A Parquet file that would unpack to more than the budget is refused before it fills the memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import meor
from meor.errors import MemoryBudgetError
from meor.storage.parquet import byte_budget, read_table

MIB = 2**20
PEAK = """
import resource, sys
from meor.cli import main
sys.argv = ["meor", *sys.argv[1:]]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    main()
finally:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def _same(rows: int, text: str) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))


def _bomb(path: Path, rows: int, text: str) -> None:
    """Kilobytes that unpack to `rows` times the text."""
    pq.write_table(pa.table({"label": _same(rows, text)}), path, store_schema=False, compression="zstd")
    assert path.stat().st_size < 2**16


def test_many_rows_are_refused_by_their_number_alone(tmp_path):
    _bomb(tmp_path / "many.parquet", 2_000_000, "a")
    with byte_budget(64 * MIB), pytest.raises(MemoryBudgetError, match=r"2,000,000 rows .* --memory"):
        read_table(tmp_path / "many.parquet")


def test_wide_text_that_is_stored_once_is_refused_before_it_is_repeated(tmp_path):
    """10 GB in two kilobytes: pyarrow alone would allocate them."""
    _bomb(tmp_path / "wide.parquet", 10_000, "x" * MIB)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(MemoryBudgetError, match="--memory"):
        read_table(tmp_path / "wide.parquet")
    assert pa.default_memory_pool().max_memory() - before < 64 * MIB


def test_text_coded_by_differences_is_refused_before_it_is_repeated(tmp_path):
    table = pa.table({"label": pa.array(["x" * 100_000] * 3000)})
    path = tmp_path / "differences.parquet"
    pq.write_table(table, path, use_dictionary=False, column_encoding={"label": "DELTA_BYTE_ARRAY"})
    del table
    assert path.stat().st_size < 2**18
    before = pa.default_memory_pool().bytes_allocated()
    with byte_budget(32 * MIB), pytest.raises(MemoryBudgetError, match="--memory"):
        read_table(path)
    assert pa.default_memory_pool().bytes_allocated() == before
    with byte_budget(512 * MIB):
        assert len(read_table(path)) == 3000


def test_pages_that_decompress_to_more_are_refused(tmp_path):
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"label": ["x" * (8 * MIB)]}), path, compression="zstd")
    assert path.stat().st_size < MIB
    with byte_budget(4 * MIB), pytest.raises(MemoryBudgetError):
        read_table(path)


@pytest.mark.parametrize("coded", ["dictionary", "plain", "differences"])
def test_what_fits_is_read_as_pyarrow_reads_it(tmp_path, coded):
    table = pa.table(
        {
            "id": pa.array(range(70_000), pa.int64()),
            "label": pa.array([None if n % 7 == 0 else f"l{n % 1000}" for n in range(70_000)]),
            "share": pa.array([n / 7 for n in range(70_000)]),
            "active": pa.array([n % 3 == 0 for n in range(70_000)]),
        }
    )
    options = {"use_dictionary": coded == "dictionary"}
    if coded == "differences":
        options["column_encoding"] = {"label": "DELTA_BYTE_ARRAY"}
    pq.write_table(table, tmp_path / "some.parquet", row_group_size=20_000, **options)
    assert read_table(tmp_path / "some.parquet").equals(table)
    chosen = read_table(tmp_path / "some.parquet", ["label", "id"])
    assert chosen.equals(table.select(["label", "id"]))


@pytest.mark.parametrize("columns", [["absent"], ["nested"]])
def test_a_column_that_is_not_as_expected_is_an_arrow_error(tmp_path, columns):
    pq.write_table(pa.table({"id": [1], "nested": [[1, 2]]}), tmp_path / "some.parquet")
    with pytest.raises(pa.ArrowInvalid, match=columns[0]):
        read_table(tmp_path / "some.parquet", columns)


def _stream_bomb(path: Path, rows: int) -> None:
    columns = {name: _same(rows, name) for name in ("head", "relation", "tail")}
    table = pa.table({**columns, "snapshot": pa.array(np.zeros(rows, np.int8))})
    # padded, because a file of so many rows to a byte is refused for that alone
    pq.write_table(table, path, compression="none", use_dictionary=["head", "relation", "tail"])


def test_a_stream_of_20_million_equal_rows_is_refused_at_once_and_the_option_named(tmp_path):
    path = tmp_path / "bomb.parquet"
    _stream_bomb(path, 20_000_000)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, "data", "check", str(path)], capture_output=True, text=True, check=False
    )
    assert "20,000,000 rows" in done.stderr
    assert "--memory" in done.stderr
    assert "Traceback" not in done.stderr
    assert int(done.stdout.split()[-1]) < 256


def test_the_option_of_a_command_is_the_budget_of_its_readers(tmp_path):
    from typer.testing import CliRunner

    from meor.cli import app

    path = tmp_path / "some.parquet"
    rows = 3000
    number = [str(n) for n in range(rows)]
    pq.write_table(
        pa.table({"head": number, "relation": ["r"] * rows, "tail": number[::-1], "snapshot": [0] * rows}),
        path,
    )
    refused = CliRunner().invoke(app, ["data", "check", str(path), "--memory", "100KiB"])
    assert refused.exit_code == 2
    allowed = CliRunner().invoke(app, ["data", "check", str(path), "--memory", "16MiB"])
    assert allowed.exit_code == 0, allowed.output


def test_every_reader_goes_through_here():
    source = Path(meor.__file__).parent
    direct = ("pq.ParquetFile(", "pq.read_table(", "read_parquet(", "iter_batches(")
    using = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*.py")
        if any(call in file.read_text(encoding="utf-8") for call in direct)
    }
    assert using == {"storage/parquet.py"}
