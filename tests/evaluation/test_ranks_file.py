from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import oracle

from meor.errors import RunError
from meor.evaluation.rank import Rules, Ties, rank_update
from meor.evaluation.ranks_file import COLUMNS, ranks_bytes, read_ranks
from meor.typing import Split


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    stream = oracle.small_stream(rng, admitted=5, facts=25)
    return stream, oracle.dyadic_model("complex", len(stream.entities), len(stream.relations), rng)


def _equal(one, other):
    for a, b in zip(one, other, strict=True):
        assert (a.occurrences.update, a.occurrences.side) == (b.occurrences.update, b.occurrences.side)
        for name in ("fact", "snapshot", "role"):
            assert (getattr(a.occurrences, name) == getattr(b.occurrences, name)).all()
        assert (a.old == b.old).all()
        assert (a.cur == b.cur).all()


@pytest.mark.parametrize("ties", list(Ties))
def test_what_is_written_is_read_back(tmp_path, case, ties):
    stream, model = case
    by_split = {
        split: rank_update(stream, model, 2, split=split, rules=Rules(ties))
        for split in (Split.TEST, Split.VALID)
    }
    (tmp_path / "ranks.parquet").write_bytes(ranks_bytes(by_split))
    found = read_ranks(tmp_path / "ranks.parquet")
    assert list(found) == list(by_split)
    for split, ranks in by_split.items():
        _equal(found[split], ranks)


def test_the_columns_are_the_contracts_and_a_newcomer_has_a_null_old_rank(tmp_path, case):
    stream, model = case
    ranks = rank_update(stream, model, 2)
    (tmp_path / "ranks.parquet").write_bytes(ranks_bytes({Split.TEST: ranks}))
    table = pq.read_table(tmp_path / "ranks.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert table["rank_old"].null_count == sum(int((each.old == 0).sum()) for each in ranks)
    assert table["rank_old"].null_count > 0
    assert set(table["role"].to_pylist()) <= {"historical", "target_newcomer", "query_newcomer", "settled"}
    assert set(table["side"].to_pylist()) == {"head", "tail"}
    assert set(table["split"].to_pylist()) == {"test"}
    assert {str(table.schema.field(name).type) for name in COLUMNS} == {"int64", "string"}


def test_equal_ranks_are_equal_bytes_and_nothing_is_left_beside_them(tmp_path, case):
    stream, model = case
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ranks.parquet").write_bytes(
            ranks_bytes({Split.TEST: rank_update(stream, model, 2)})
        )
    assert (tmp_path / "a/ranks.parquet").read_bytes() == (tmp_path / "b/ranks.parquet").read_bytes()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["ranks.parquet"]
    assert pq.read_metadata(tmp_path / "a/ranks.parquet").metadata is None


def test_no_rank_at_all_is_an_empty_table(tmp_path):
    (tmp_path / "ranks.parquet").write_bytes(ranks_bytes({Split.TEST: ()}))
    assert tuple(pq.read_table(tmp_path / "ranks.parquet").column_names) == COLUMNS
    assert read_ranks(tmp_path / "ranks.parquet") == {}


def test_a_file_that_is_not_ranks_is_refused(tmp_path, case):
    path = tmp_path / "ranks.parquet"
    with pytest.raises(RunError, match="cannot be read"):
        read_ranks(path)
    path.write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(RunError, match="cannot be read"):
        read_ranks(path)
    pq.write_table(pa.table({"update": [1]}), path)
    with pytest.raises(RunError, match="columns"):
        read_ranks(path)
    stream, model = case
    (path).write_bytes(ranks_bytes({Split.TEST: rank_update(stream, model, 2)}))
    whole = pq.read_table(path)
    for column, value in (
        ("role", pa.array(["boss"] * len(whole))),
        ("side", pa.array(["left"] * len(whole))),
        ("split", pa.array(["rest"] * len(whole))),
        ("head", pa.array(["x"] * len(whole))),
        ("rank_cur", pa.nulls(len(whole), pa.int64())),
    ):
        at = COLUMNS.index(column)
        pq.write_table(whole.set_column(at, column, value), path)
        with pytest.raises(RunError, match="no rank"):
            read_ranks(path)
    data = path.read_bytes()
    for cut in range(0, len(data), max(1, len(data) // 16)):
        path.write_bytes(data[:cut])
        with pytest.raises(RunError):
            read_ranks(path)
