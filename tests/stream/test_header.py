"""Columns are found by names that files use, or as --columns says; `grow` and streams read alike."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meor.errors import ConfigError, StreamError
from meor.stream.files import read_facts, read_stream
from meor.stream.growth import grow_file
from meor.stream.header import named_columns

ROWS = [("ann", "knows", "bob", "2020"), ("bob", "knows", "cat", "2021"), ("cat", "likes", "ann", "2021")]
FACTS = [row[:3] for row in ROWS]
NAMES = [
    ("head", "relation", "tail"),
    ("subject", "predicate", "object"),
    ("source", "relation", "target"),
    ("source", "predicate", "target"),
    ("source", "type", "target"),
    ("h", "r", "t"),
]


def table(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]] = ROWS, by: str = "\t") -> Path:
    path.write_text("".join(by.join(row) + "\n" for row in [header, *rows]))
    return path


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("date", ["date", "timestamp", "time"])
@pytest.mark.parametrize("change", [str.lower, str.upper, str.title])
def test_common_names_are_known_in_any_case(
    tmp_path: Path, names: tuple[str, ...], date: str, change
) -> None:
    found = read_facts(table(tmp_path / "f.tsv", tuple(map(change, (*names, date)))), dated=True)
    assert found.facts == FACTS
    assert found.date == [2020, 2021, 2021]
    assert len(read_stream(tmp_path / "f.tsv").snapshots) == 2


@pytest.mark.parametrize("names", NAMES)
def test_parquet_columns_have_the_same_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    columns = dict(zip((*names, "Timestamp"), zip(*ROWS, strict=True), strict=True))
    pq.write_table(
        pa.table({name: pa.array(cells) for name, cells in columns.items()}), tmp_path / "f.parquet"
    )
    assert read_facts(tmp_path / "f.parquet", dated=True).facts == FACTS


def test_head_relation_and_tail_win_over_a_column_that_says_where_a_fact_is_from(tmp_path: Path) -> None:
    rows = [("a paper", *row[:3], "a venue") for row in ROWS]
    path = table(tmp_path / "f.tsv", ("source", "head", "relation", "tail", "target"), rows)
    assert read_facts(path).facts == FACTS


def test_date_wins_over_timestamp_and_timestamp_over_time(tmp_path: Path) -> None:
    for names, wanted in ((("time", "timestamp", "date"), 3), (("time", "x", "timestamp"), 3)):
        path = table(tmp_path / "f.tsv", ("h", "r", "t", *names), [("a", "r", "b", "1", "2", "3")])
        assert read_facts(path, dated=True).date == [wanted]


def test_columns_are_named_where_a_file_has_names_of_its_own(tmp_path: Path) -> None:
    path = table(tmp_path / "f.csv", ("From", "Link Type", "To", "Seen"), by=",")
    columns = "h=from,r=Link Type,t=To,date=seen"
    assert read_facts(path, columns=columns, dated=True).facts == FACTS
    assert len(read_stream(path, columns=columns).snapshots) == 2
    assert read_facts(path, columns="head=From, relation=Link Type, tail=To").date == []


def test_a_part_may_be_named_and_the_rest_found(tmp_path: Path) -> None:
    path = table(tmp_path / "f.tsv", ("head", "relation", "tail", "seen in"))
    assert read_facts(path, columns="date=seen in", dated=True).date == [2020, 2021, 2021]


def test_columns_that_differ_in_case_alone_can_be_told_apart(tmp_path: Path) -> None:
    path = table(tmp_path / "f.tsv", ("head", "relation", "tail", "Head"))
    with pytest.raises(StreamError, match="two columns are called head"):
        read_facts(path)
    assert read_facts(path, columns="h=head").facts == FACTS
    assert read_facts(path, columns="h=Head").facts[0] == ("2020", "knows", "bob")


def test_of_a_snapshot_and_a_date_the_named_one_counts(tmp_path: Path) -> None:
    rows = [(*row, str(3 - at)) for at, row in enumerate(ROWS, 1)]
    path = table(tmp_path / "f.tsv", ("head", "relation", "tail", "date", "snapshot"), rows)
    with pytest.raises(StreamError, match="--columns snapshot=COL, or date=COL"):
        read_stream(path)
    assert len(read_stream(path, columns="date=date").snapshots) == 2
    assert len(read_stream(path, columns="snapshot=snapshot").snapshots) == 3


@pytest.mark.parametrize("by", [",", ";", "\t"])
def test_a_csv_may_be_parted_by_semicolons_or_tabs(tmp_path: Path, by: str) -> None:
    path = table(tmp_path / "f.csv", ("subject", "predicate", "object", "date"), by=by)
    assert read_facts(path).facts == FACTS


def test_semicolons_stay_letters_where_commas_part_the_header(tmp_path: Path) -> None:
    path = table(tmp_path / "f.csv", ("head", "relation", "tail"), [("a;b", "r", "c")], by=",")
    assert read_facts(path).facts == [("a;b", "r", "c")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("f.csv", "from,rel,to\na,r,b\n", ("no column is called head", "--columns h=COL,r=COL,t=COL")),
        ("f.csv", "subject,predicate,thing\na,r,b\n", ("no column is called object",)),
        ("f.csv", "from;rel;to\na;r;b\n", ("found 'from', 'rel', 'to'",)),
        ("f.csv", "", ("empty",)),
        ("f.tsv", "a,r,b\n", ("1 column", ".csv")),
        ("f.tsv", "a r b\n", ("1 column", "tab between")),
        ("f.tsv", "a\tr\tb\tx\ty\n", ("5 columns", "first line")),
        ("f.tsv", "from\trel\tto\twhen\na\tr\tb\t2020\n", ("'when' is not a date", "add a header")),
        ("f.tsv", "a\tr\tb\t2020\nb\tr\tc\n", ("line 2", "3 columns where 4")),
    ],
)
def test_a_file_whose_columns_are_not_known_says_what_to_do(
    tmp_path: Path, name: str, content: str, words: tuple[str, ...]
) -> None:
    path = tmp_path / name
    path.write_text(content)
    for read in (read_facts, read_stream):
        with pytest.raises(StreamError) as refused:
            read(path)
        assert all(word in str(refused.value) for word in words), str(refused.value)


@pytest.mark.parametrize("text", ["h", "h=", "=a", "x=a", "h=a,head=b", "", "h=a,,t=b"])
def test_what_is_no_list_of_columns_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ConfigError, match="h=COL,r=COL,t=COL"):
        named_columns(text)


def test_columns_belong_to_a_single_file_of_columns(tmp_path: Path) -> None:
    (tmp_path / "f.nt").write_text("<urn:a> <urn:r> <urn:b> .\n")
    for path in (tmp_path, tmp_path / "f.nt"):
        with pytest.raises(ConfigError, match="Leave it out"):
            read_stream(path, columns="h=a,r=b,t=c")


@pytest.mark.parametrize("header", [(), ("head", "relation", "tail", "date"), ("S", "P", "O", "T")])
@pytest.mark.parametrize("form", ["plain", "bom", "crlf"])
def test_grow_and_a_stream_read_the_same_file_alike(
    tmp_path: Path, header: tuple[str, ...], form: str
) -> None:
    rows = [(f"e{n}", f"r{n % 2}", f"e{(3 * n + 1) % 7}", str(2000 + n // 8)) for n in range(24)]
    text = "".join("\t".join(row) + "\n" for row in ([header] if header else []) + rows)
    text = {"plain": text, "bom": "\ufeff" + text, "crlf": text.replace("\n", "\r\n")}[form]
    path = tmp_path / "f.tsv"
    path.write_bytes(text.encode())
    columns = "h=S,r=P,t=O,date=T" if header[:1] == ("S",) else None
    grown = grow_file(path, tmp_path / "grown", 3, "date", columns=columns, report=lambda _: None)
    stream = read_stream(path, columns=columns, duplicates="drop", report=lambda _: None)
    assert [sum(map(len, each.snapshots)) for each in (grown, stream)] == [len({row[:3] for row in rows})] * 2
    assert set(grown.entities) == set(stream.entities)
    assert len(stream.snapshots) == 3


def test_a_first_line_that_may_be_a_header_is_pointed_out(tmp_path: Path) -> None:
    told: list[str] = []
    read_facts(table(tmp_path / "f.tsv", ("from", "rel of", "to"), FACTS), report=told.append)
    assert len(told) == 1
    assert "line 1 shares no name" in told[0]
    assert "--columns 'h=from,r=rel of,t=to'" in told[0]
    read_facts(table(tmp_path / "f.tsv", FACTS[0], FACTS[1:]), report=told.append)
    assert len(told) == 1


def test_a_file_of_a_snapshot_folder_may_have_a_header(tmp_path: Path) -> None:
    (tmp_path / "s/0").mkdir(parents=True)
    table(
        tmp_path / "s/0/train.txt",
        ("tail", "relation", "head", "weight"),
        [("b", "r", "a", "1"), ("c", "r", "a", "2")],
    )
    assert list(read_stream(tmp_path / "s").entities) == ["a", "b", "c"]
