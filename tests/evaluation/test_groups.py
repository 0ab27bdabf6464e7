from __future__ import annotations

import json

import numpy as np
import pytest
from tests import oracle

from meor.errors import InputError
from meor.evaluation import groups as grouping
from meor.evaluation.displacement import tally
from meor.evaluation.endpoints import endpoints
from meor.evaluation.groups import by_group, read_groups
from meor.evaluation.rank import Rules, Ties, rank_update
from meor.stream.snapshot import build_stream
from meor.typing import Split


@pytest.fixture
def stream():
    return build_stream("s", [{Split.TRAIN: [("a b", "r", "c"), ("d", "r", "é")]}])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "G.tsv"


def test_an_entity_that_is_not_listed_belongs_to_none(stream, path):
    path.write_bytes("\ufeffa b\tx y\r\né\tz\r\nc\tx y".encode())
    found = read_groups(path, stream)
    assert found.names == ("(none)", "x y", "z")
    assert found.of.tolist() == [1, 1, 0, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a b x\n", "line 1: 1 columns"),
        (b"a b\tx\ty\n", "line 1: 3 columns"),
        (b"a b\t\n", "line 1: the group is empty"),
        (b"\tx\n", "line 1: the label is empty"),
        (b"a b\tx\n\n", "line 2: 1 columns"),
        (b"a b\tx\nnobody\tx\n", "line 2: the stream s has no entity 'nobody'"),
        (b"a b\tx\nc\tx\na b\ty\n", "line 3: the entity 'a b' was already listed on line 1"),
        (b"a b\t(none)\n", "(none) is the name"),
        (b"a b\t\xff\n", "not UTF-8"),
        (b"a b\tx\0\n", "NUL"),
        (b"", "lists no entity"),
        (b"a b\t" + b"x" * (1 << 20) + b"\n", "more than 1 MiB"),
    ],
)
def test_a_faulty_group_file_is_explained(stream, path, content, message):
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_groups(path, stream)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_directory_or_nothing_is_explained(stream, tmp_path):
    with pytest.raises(InputError, match="is a directory"):
        read_groups(tmp_path, stream)
    with pytest.raises(InputError, match="is not a file"):
        read_groups(tmp_path / "none.tsv", stream)


def test_every_endpoint_and_the_displacement_are_those_of_the_groups_queries():
    rng = np.random.default_rng(0)
    stream = oracle.small_stream(rng, base=10, admitted=6, facts=60)
    model = oracle.dyadic_model("complex", len(stream.entities), len(stream.relations), rng)
    ranks = [each for update in stream.updates for each in rank_update(stream, model, update)]
    groups = grouping.Groups(("(none)", "x"), np.arange(len(stream.entities)) % 2)
    cells = [(each.occurrences.update, each.occurrences.side) for each in ranks]
    reports = by_group(ranks, groups)
    assert [report.name for report in reports] == ["(none)", "x"]
    for number, report in enumerate(reports):
        mine = [each.select(each.occurrences.answer % 2 == number) for each in ranks]
        assert report.endpoints == endpoints(mine, cells=cells)
        assert report.displacement == tally(mine)
        assert report.entities == np.count_nonzero(groups.of == number)
        assert set(report.small) == {name for name, found in report.endpoints.items() if found.cells}
        json.dumps(report.to_json(), allow_nan=False)
    assert all(not report.small for report in by_group(ranks, groups, threshold=0))


def test_displacement_of_groups_is_told_by_id_ties():
    rng = np.random.default_rng(1)
    stream = oracle.small_stream(rng, base=10, admitted=6, facts=60)
    model = oracle.dyadic_model("distmult", len(stream.entities), len(stream.relations), rng)
    by_id = rank_update(stream, model, 2)
    halves = rank_update(stream, model, 2, rules=Rules(Ties.REALISTIC))
    groups = grouping.Groups(("(none)",), np.zeros(len(stream.entities), dtype=np.int64))
    (report,) = by_group(halves, groups, by_id=by_id)
    assert report.displacement == tally(by_id)


def test_groups_without_a_query_are_left_out():
    rng = np.random.default_rng(1)
    stream = oracle.small_stream(rng)
    model = oracle.dyadic_model("distmult", len(stream.entities), len(stream.relations), rng)
    ranks = rank_update(stream, model, 1)
    for number, name in enumerate(("(none)", "x", "y")):
        groups = grouping.Groups(("(none)", "x", "y"), np.full(len(stream.entities), number))
        assert [report.name for report in by_group(ranks, groups)] == [name]


def test_a_line_may_have_one_mebibyte_and_not_a_byte_more(tmp_path):
    label = "x" * (2**20 - 3)
    stream = build_stream("s", [{Split.TRAIN: [(label, "r", "c")]}])
    (tmp_path / "G.tsv").write_bytes(f"{label}\tg\n".encode())
    assert read_groups(tmp_path / "G.tsv", stream).names == ("(none)", "g")
    (tmp_path / "G.tsv").write_bytes(f"{label}\tgg\n".encode())
    with pytest.raises(InputError, match="1 MiB"):
        read_groups(tmp_path / "G.tsv", stream)


def test_a_cell_of_exactly_the_threshold_is_not_small():
    rng = np.random.default_rng(1)
    stream = oracle.small_stream(rng)
    model = oracle.dyadic_model("distmult", len(stream.entities), len(stream.relations), rng)
    ranks = rank_update(stream, model, 1)
    groups = grouping.Groups(("(none)",), np.zeros(len(stream.entities), np.int64))
    (whole,) = by_group(ranks, groups, threshold=0)
    sizes = [cell.size for value in whole.endpoints.values() for cell in value.cells]
    (at,) = by_group(ranks, groups, threshold=min(sizes))
    (above,) = by_group(ranks, groups, threshold=min(sizes) + 1)
    assert (whole.small, at.small) == ((), ())
    assert above.small
