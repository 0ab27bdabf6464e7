"""Every layout is read as it says, and every fault is refused with its place and a remedy."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meor.errors import ConfigError, StreamError
from meor.stream import source
from meor.stream.files import read_facts, read_stream, write_stream
from meor.stream.snapshot import Stream, build_stream
from meor.typing import SPLITS, Split

BASE = {
    "0/train.txt": "ann\tknows\tbob lee\nbob lee\tlikes\tcat\n",
    "0/valid.txt": "ann\tlikes\tcat\n",
    "0/test.txt": "cat\tknows\tann\n",
    "1/train.txt": "dan\tknows\tann\n",
    "1/test.txt": "ann\tknows\tdan\n",
}


def folder(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def labelled(stream: Stream) -> list[dict[str, list[tuple[str, str, str]]]]:
    entity, relation = stream.entities.labels, stream.relations.labels
    return [
        {
            split.value: [(entity[h], relation[r], entity[t]) for h, r, t in snapshot.facts([split]).tolist()]
            for split in SPLITS
        }
        for snapshot in stream.snapshots
    ]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return folder(tmp_path / "growing", dict(BASE))


def refused(path: Path, *words: str, line: int | None = None, **options: object) -> StreamError:
    with pytest.raises(StreamError) as caught:
        read_stream(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    for word in words:
        assert word in message
    if line is not None:
        assert caught.value.line == line
        assert f"line {line}" in message
    return caught.value


class TestFolder:
    def test_ids_follow_snapshots_then_splits_then_head_before_tail(self, base: Path) -> None:
        stream = read_stream(base)
        assert stream.name == "growing"
        assert list(stream.entities) == ["ann", "bob lee", "cat", "dan"]
        assert list(stream.relations) == ["knows", "likes"]
        assert (stream.entity_counts, stream.relation_counts) == ((3, 4), (2, 2))
        assert stream.snapshots[0].train.tolist() == [[0, 0, 1], [1, 1, 2]]
        assert stream.snapshots[1].valid.shape == (0, 3)

    def test_a_name_may_be_given(self, base: Path) -> None:
        assert read_stream(base, name="mine").name == "mine"
        assert read_stream(str(base)).name == "growing"

    @pytest.mark.parametrize("change", ["bom", "crlf", "no last newline", "blank lines at the end"])
    def test_text_of_all_kinds_reads_the_same(self, base: Path, tmp_path: Path, change: str) -> None:
        changed = {
            "bom": lambda s: "\ufeff" + s,
            "crlf": lambda s: s.replace("\n", "\r\n"),
            "no last newline": lambda s: s.rstrip("\n"),
            "blank lines at the end": lambda s: s + "\n\r\n",
        }[change]
        other = folder(tmp_path / "other", {name: changed(content) for name, content in BASE.items()})
        assert read_stream(other).content_hash() == read_stream(base).content_hash()

    @pytest.mark.parametrize("ending", [".tsv", ".txt.gz", ".tsv.gz"])
    def test_endings_and_gzip_read_the_same(self, base: Path, tmp_path: Path, ending: str) -> None:
        packed = {
            name.replace(".txt", ending): gzip.compress(content.encode()) if "gz" in ending else content
            for name, content in BASE.items()
        }
        other = folder(tmp_path / "other", packed)  # type: ignore[arg-type]
        assert read_stream(other).content_hash() == read_stream(base).content_hash()

    @pytest.mark.parametrize("ending", [".nt", ".ttl", ".nt.gz", ".ttl.gz"])
    def test_rdf_may_stand_in_the_folders(self, tmp_path: Path, ending: str) -> None:
        statement = b"<urn:a> <urn:r> <urn:b> .\n<urn:b> <urn:r> <urn:a> .\n"
        data = gzip.compress(statement) if "gz" in ending else statement
        stream = read_stream(folder(tmp_path / "s", {f"0/train{ending}": data}))
        assert labelled(stream)[0]["train"] == [("urn:a", "urn:r", "urn:b"), ("urn:b", "urn:r", "urn:a")]

    def test_other_files_and_folders_are_ignored(self, base: Path) -> None:
        folder(base, {"README.md": "hello", "notes/train.txt": "x", "0/entities.txt": "1\tann"})
        assert len(read_stream(base).snapshots) == 2

    def test_updates_without_newcomers_and_facts_between_old_entities_load(self, base: Path) -> None:
        folder(base, {"2/train.txt": "cat\tlikes\tdan\n"})
        stream = read_stream(base)
        assert list(stream.newcomers(2)) == []
        assert stream.entity_counts == (3, 4, 4)

    @pytest.mark.parametrize(
        ("name", "content", "line", "words"),
        [
            ("0/train.txt", "a\tb\tc\na\tb\n", 2, ("2 columns", "tab between")),
            ("0/train.txt", "a\tb\tc\na\tb\tc\td\n", 2, ("4 columns",)),
            ("0/train.txt", "a b c\n", 1, ("1 column where",)),
            ("0/train.txt", "a\tb\tc\n\na\tb\td\n", 2, ("empty line",)),
            ("0/train.txt", "a\tb\tc\na\t \td\n", 2, ("relation is empty",)),
            ("0/train.txt", "\tb\tc\n", 1, ("head is empty",)),
            ("0/train.txt", "a\tb\t\n", 1, ("tail is empty",)),
            ("0/train.txt", b"a\tb\tc\na\tb\t\xff\n", 2, ("byte 5 is not UTF-8",)),
            ("0/train.txt", "a\tb\tc\n".encode("utf-16"), 1, ("UTF-16",)),
            ("0/train.txt", gzip.compress(b"a\tb\tc\n", mtime=0), 1, (".gz",)),
            ("0/train.txt", "a\tb\tc\0\n", 1, ("NUL",)),
            ("0/train.txt", "a\tb\tc\ra\tb\td\n", 1, ("carriage return",)),
            ("0/train.txt", "a\tb\tc\n\ufeffa\tb\td\n", 2, ("byte order mark",)),
            ("0/train.txt", "a\tb\tc\n" + "x" * 10_000_000 + "\tb\tc\n", 2, ("longer than",)),
            ("1/valid.txt", "ann\tknows\tcat\neve\tknows\tann\n", 2, ("entity 'eve'", "valid", "snapshot 1")),
            ("1/test.txt", "ann\thates\tcat\n", 1, ("relation 'hates'", "test")),
            ("0/train.txt", "a\tb\tc\na\tb\td\na\tb\tc\n", 3, ("train.txt, line 1", "drop")),
        ],
    )
    def test_a_faulty_line_is_named(
        self, base: Path, name: str, content: str | bytes, line: int, words: tuple[str, ...]
    ) -> None:
        folder(base, {name: content})
        if name.startswith("0"):
            for file in ("0/valid.txt", "0/test.txt", "1/train.txt", "1/test.txt"):
                (base / file).write_text("")
            (base / "1/train.txt").write_text("q\tb\tz\n")
        error = refused(base, *words, line=line)
        assert error.path == base / name

    def test_a_gap_between_snapshots_is_refused(self, base: Path) -> None:
        folder(base, {"3/train.txt": "x\tknows\ty\n"})
        refused(base, "snapshot 2 is missing", "0, 1, 3")

    def test_a_stream_that_does_not_begin_at_0_is_refused(self, tmp_path: Path) -> None:
        refused(folder(tmp_path, {"1/train.txt": "a\tb\tc\n"}), "snapshot 0 is missing")

    @pytest.mark.parametrize("number", ["-1", "01", "+1", "-0"])
    def test_a_snapshot_number_has_one_spelling(self, base: Path, number: str) -> None:
        folder(base, {f"{number}/train.txt": "x\tknows\ty\n"})
        refused(base, repr(number), "0, 1, 2")

    def test_an_empty_folder_is_no_stream(self, tmp_path: Path) -> None:
        refused(tmp_path, "holds no snapshot folder")

    def test_a_snapshot_needs_train_facts(self, base: Path) -> None:
        (base / "1/train.txt").write_text("\n")
        refused(base, "snapshot 1 has no train fact")
        (base / "1/train.txt").unlink()
        refused(base, "no train.txt")

    def test_two_files_for_one_split_are_refused(self, base: Path) -> None:
        folder(base, {"0/train.tsv": "a\tb\tc\n"})
        refused(base, "both train.tsv and train.txt")

    def test_a_file_in_place_of_a_snapshot_folder_is_refused(self, base: Path) -> None:
        folder(base, {"2": "x"})
        refused(base, "is a file where a snapshot folder")

    def test_a_folder_in_place_of_a_file_is_refused(self, base: Path) -> None:
        (base / "1/valid.txt").mkdir()
        refused(base, "valid.txt", "is a folder")

    def test_a_pipe_is_refused_and_not_waited_for(self, base: Path) -> None:
        os.mkfifo(base / "1/valid.txt")
        refused(base, "neither a file nor a folder")

    def test_a_link_to_nowhere_is_refused(self, base: Path) -> None:
        (base / "1/valid.txt").symlink_to(base / "nowhere")
        refused(base, "no such file")


class TestDuplicates:
    @pytest.fixture
    def doubled(self, base: Path) -> Path:
        return folder(
            base,
            {
                "0/test.txt": "cat\tknows\tann\nann\tknows\tbob lee\n",
                "1/train.txt": "dan\tknows\tann\nann\tlikes\tcat\ndan\tknows\tann\n",
            },
        )

    def test_they_are_counted_and_the_first_is_named(self, doubled: Path) -> None:
        error = refused(doubled, "3 such facts", "0/train.txt, line 1", "'ann', 'knows', 'bob lee'", line=2)
        assert error.path == doubled / "0/test.txt"

    def test_drop_keeps_the_first_and_reports_the_count(self, doubled: Path, base: Path) -> None:
        told: list[str] = []
        stream = read_stream(doubled, duplicates="drop", report=told.append)
        assert labelled(stream)[0]["test"] == [("cat", "knows", "ann")]
        assert labelled(stream)[1]["train"] == [("dan", "knows", "ann")]
        assert len(told) == 1
        assert "dropped 3 duplicate facts" in told[0]

    def test_drop_does_not_change_a_stream_without_duplicates(self, base: Path) -> None:
        told: list[str] = []
        dropped = read_stream(base, duplicates="drop", report=told.append)
        assert dropped.content_hash() == read_stream(base).content_hash()
        assert not told

    def test_a_snapshot_that_drop_empties_is_refused(self, base: Path) -> None:
        folder(base, {"2/train.txt": BASE["0/train.txt"]})
        refused(base, "snapshot 2 has no train fact", duplicates="drop", report=lambda _: None)

    def test_without_a_report_the_log_tells(self, doubled: Path, caplog: pytest.LogCaptureFixture) -> None:
        read_stream(doubled, duplicates="drop")
        assert "dropped 3 duplicate facts" in caplog.text

    def test_another_choice_is_refused(self, base: Path) -> None:
        with pytest.raises(ConfigError, match="error, drop"):
            read_stream(base, duplicates="keep")  # type: ignore[arg-type]


TABLE = [
    ("head", "relation", "tail", "snapshot", "split"),
    ("ann", "knows", "bob lee", "0", "train"),
    ("dan", "knows", "ann", "1", "train"),
    ("bob lee", "likes", "cat", "0", "train"),
    ("ann", "likes", "cat", "0", "valid"),
    ("cat", "knows", "ann", "0", "test"),
    ("ann", "knows", "dan", "1", "test"),
]


def joined(rows: list[tuple[str, ...]], by: str = "\t") -> str:
    return "".join(by.join(row) + "\n" for row in rows)


def parquet(path: Path, columns: dict[str, object]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


class TestTable:
    @pytest.mark.parametrize("ending", [".tsv", ".txt", ".csv", ".tsv.gz", ".csv.gz", ".parquet"])
    def test_a_snapshot_column_gives_the_folder_s_stream(
        self, base: Path, tmp_path: Path, ending: str
    ) -> None:
        path = tmp_path / f"growing{ending}"
        if ending == ".parquet":
            columns = {name: list(cells) for name, *cells in zip(*TABLE, strict=True)}
            parquet(path, columns | {"snapshot": pa.array([int(cell) for cell in columns["snapshot"]])})
        else:
            content = joined(TABLE, "," if "csv" in ending else "\t").encode()
            path.write_bytes(gzip.compress(content) if "gz" in ending else content)
        stream = read_stream(path)
        assert stream.name == "growing"
        assert stream.content_hash() == read_stream(base).content_hash()

    def test_columns_are_found_by_name_in_any_order_and_case(self, base: Path, tmp_path: Path) -> None:
        rows = [(row[4], "x", *row[3::-1]) for row in TABLE]
        rows[0] = ("Split", "weight", "SNAPSHOT", "Tail", "Relation", "Head")
        path = tmp_path / "t.tsv"
        path.write_text(joined(rows))
        assert read_stream(path).content_hash() == read_stream(base).content_hash()

    def test_csv_quotes_hold_commas(self, tmp_path: Path) -> None:
        path = tmp_path / "t.csv"
        path.write_text('head,relation,tail,snapshot\n"Lee, Bob",says,"""hi""",0\n')
        assert list(read_stream(path).entities) == ["Lee, Bob", '"hi"']

    def test_tsv_quotes_are_letters(self, tmp_path: Path) -> None:
        path = tmp_path / "t.tsv"
        path.write_text('head\trelation\ttail\tsnapshot\n"a\tr\tb"\t0\n')
        assert list(read_stream(path).entities) == ['"a', 'b"']

    @pytest.mark.parametrize(
        "dates",
        [
            ["2020-01-02", "1999-12-31", "2020-01-02"],
            ["2020-02", "2020-01", "2020-02"],
            ["10", "9", "10"],
            ["2020-01-01T10:00:00Z", "2020-01-01T10:30:00+01:00", "2020-01-01T10:00:00Z"],
            ["2020-01-01 10:00", "2020-01-01 09:59", "2020-01-01 10:00"],
        ],
    )
    def test_each_date_is_a_snapshot_in_order_of_time(self, tmp_path: Path, dates: list[str]) -> None:
        path = tmp_path / "t.tsv"
        facts = [("a", "r", "b"), ("c", "r", "d"), ("b", "r", "c")]
        rows = [("head", "relation", "tail", "date")] + [(*f, d) for f, d in zip(facts, dates, strict=True)]
        path.write_text(joined(rows))
        found = [snapshot["train"] for snapshot in labelled(read_stream(path))]
        assert found == [[facts[1]], [facts[0], facts[2]]]

    @pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("ns"), pa.timestamp("s", "UTC")])
    def test_parquet_dates_sort_by_time(self, tmp_path: Path, kind: pa.DataType) -> None:
        from datetime import UTC, datetime

        days = [datetime(2020, 1, day, tzinfo=UTC) for day in (2, 1)]
        dates = pa.array([d if pa.types.is_timestamp(kind) else d.date() for d in days], kind)
        path = parquet(
            tmp_path / "t.parquet", {"head": [1, 3], "relation": ["r", "r"], "tail": [2, 1], "date": dates}
        )
        assert list(read_stream(path).entities) == ["3", "1", "2"]

    def test_dictionary_encoded_parquet_reads(self, tmp_path: Path) -> None:
        names = pa.array(["a", "b"]).dictionary_encode()
        path = parquet(
            tmp_path / "t.parquet", {"head": names, "relation": names, "tail": names, "snapshot": [0, 1]}
        )
        assert list(read_stream(path).entities) == ["a", "b"]

    @pytest.mark.parametrize(
        ("rows", "line", "words"),
        [
            ([("head", "relation", "tail"), ("a", "r", "b")], None, ("says when", "meor data grow")),
            ([("head", "relation", "tail", "snapshot")], None, ("holds no fact",)),
            ([("head", "relation", "tail", "snapshot"), ("a", "r", "b")], 2, ("3 columns where 4",)),
            ([("head", "relation", "tail", "snapshot"), ("a", "", "b", "0")], 2, ("relation is empty",)),
            (
                [("head", "relation", "tail", "snapshot"), ("a", "r", "b", "-1")],
                2,
                ("'-1' is not a snapshot",),
            ),
            ([("head", "relation", "tail", "snapshot"), ("a", "r", "b", "1" * 30)], 2, ("not a snapshot",)),
            ([("head", "relation", "tail", "snapshot"), ("a", "r", "b", "²")], 2, ("not a snapshot",)),
            (
                [("head", "relation", "tail", "snapshot"), ("a", "r", "b", "1")],
                None,
                ("snapshot 0 is missing",),
            ),
            ([("head", "relation", "tail", "date"), ("a", "r", "b", "soon")], 2, ("not a date", "ISO 8601")),
            ([("head", "relation", "tail", "date"), ("a", "r", "b", "2020-02-30")], 2, ("not a date",)),
            (
                [("head", "relation", "tail", "date"), ("a", "r", "b", "2020"), ("a", "r", "c", "2020-01")],
                3,
                ("one form",),
            ),
            (
                [("head", "relation", "tail", "snapshot", "split"), ("a", "r", "b", "0", "dev")],
                2,
                ("not a split",),
            ),
            ([("head", "relation", "tail", "head", "snapshot")], None, ("two columns are called head",)),
            (
                [("head", "relation", "tail", "snapshot", "date"), ("a", "r", "b", "0", "1")],
                None,
                ("both a snapshot and a date",),
            ),
            (
                [
                    ("head", "relation", "tail", "snapshot", "split"),
                    ("a", "r", "b", "0", "train"),
                    ("a", "r", "a", "1", "test"),
                ],
                None,
                ("snapshot 1 has no train fact",),
            ),
        ],
    )
    @pytest.mark.parametrize("ending", [".tsv", ".csv"])
    def test_a_faulty_row_is_named(
        self,
        tmp_path: Path,
        ending: str,
        rows: list[tuple[str, ...]],
        line: int | None,
        words: tuple[str, ...],
    ) -> None:
        path = tmp_path / f"t{ending}"
        path.write_text(joined(rows, "," if ending == ".csv" else "\t"))
        refused(path, *words, line=line)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ('head,relation,tail,snapshot\n"a,r,b,0\n', ("not valid CSV",)),
            ('head,relation,tail,snapshot\n"a"x,r,b,0\n', ("not valid CSV",)),
            ('head,relation,tail,snapshot\n"a\nb",r,b,0\n', ("line end inside",)),
            ("", ("empty",)),
        ],
    )
    def test_faulty_csv_is_refused(self, tmp_path: Path, content: str, words: tuple[str, ...]) -> None:
        path = tmp_path / "t.csv"
        path.write_text(content)
        refused(path, *words)

    def test_blank_lines_end_a_table_but_do_not_part_it(self, tmp_path: Path) -> None:
        path = tmp_path / "t.tsv"
        path.write_text(joined(TABLE) + "\n\n")
        assert len(read_stream(path).snapshots) == 2
        path.write_text(joined(TABLE[:3]) + "\n" + joined(TABLE[3:]))
        refused(path, "empty line", line=4)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"head": pa.array([None, "b"])}, ("row 1", "head is empty")),
            ({"head": pa.array(["a\tb", "b"])}, ("row 1", "tab")),
            ({"tail": pa.array([b"a", b"b"])}, ("column tail holds binary",)),
            ({"tail": pa.array([1.5, 2.5])}, ("column tail holds double",)),
            ({"snapshot": pa.array([0.0, 1.0])}, ("column snapshot holds double",)),
            ({"snapshot": pa.array([0, -1])}, ("row 2", "'-1'")),
            ({"snapshot": pa.array([0, None])}, ("row 2", "not a snapshot")),
            ({"snapshot": pa.array([0, 2**63 - 1])}, ("row 2", "not a snapshot")),
        ],
    )
    def test_a_faulty_parquet_cell_is_named(
        self, tmp_path: Path, change: dict[str, object], words: tuple[str, ...]
    ) -> None:
        columns = {"head": ["a", "b"], "relation": ["r", "r"], "tail": ["x", "y"], "snapshot": [0, 1]}
        refused(parquet(tmp_path / "t.parquet", columns | change), *words)

    def test_two_parquet_columns_of_one_name_are_refused(self, tmp_path: Path) -> None:
        names = ["head", "Head", "relation", "tail", "snapshot"]
        table = pa.Table.from_arrays([pa.array(["a"])] * 4 + [pa.array([0])], names=names)
        pq.write_table(table, tmp_path / "t.parquet")
        refused(tmp_path / "t.parquet", "two columns are called head")

    def test_a_broken_parquet_file_is_refused(self, tmp_path: Path) -> None:
        columns = {"head": ["a"], "relation": ["r"], "tail": ["b"], "snapshot": [0]}
        path = parquet(tmp_path / "t.parquet", columns)
        whole = path.read_bytes()
        for content in (b"", b"PAR1", whole[: len(whole) // 2], b"junk" * 100):
            path.write_bytes(content)
            refused(path, "not a readable Parquet file")

    def test_a_parquet_file_that_would_expand_too_far_is_refused_unread(self, tmp_path: Path) -> None:
        same = pa.array(["x" * 100]).take(pa.array([0] * 500_000))
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"head": same, "relation": same, "tail": same}), path, compression="zstd")
        refused(path, "rows in")

    def test_an_unknown_format_is_refused(self, tmp_path: Path) -> None:
        for name in ("t.xlsx", "t", "t.parquet.gz"):
            (tmp_path / name).write_text("a\tb\tc\n")
            refused(tmp_path / name, "unknown format", ".parquet")


class TestRdf:
    NT = (
        "# a comment\n\n<http://x/ann> <http://x/knows> <http://x/bob> .\n"
        '<http://x/ann> <http://x/age> "41" .\n_:b1 <http://x/knows> <http://x/bob> .\n'
        "<http://x/bob> <http://x/knows> <http://x/cat> .\n"
    )

    def test_statements_between_named_entities_become_one_snapshot(self, tmp_path: Path) -> None:
        path = tmp_path / "g.nt"
        path.write_bytes(b"\xef\xbb\xbf" + self.NT.replace("\n", "\r\n").encode())
        told: list[str] = []
        stream = read_stream(path, report=told.append)
        assert list(stream.entities) == ["http://x/ann", "http://x/bob", "http://x/cat"]
        assert len(stream.snapshots) == 1
        assert len(told) == 1
        assert "skipped 2 statements about literals or blank nodes" in told[0]

    def test_turtle_reads_as_n_triples(self, tmp_path: Path) -> None:
        nt, ttl = tmp_path / "g.nt", tmp_path / "g.ttl.gz"
        nt.write_text(self.NT)
        turtle = "@prefix : <http://x/> .\n:ann :knows :bob ; :age 41 .\n[] :knows :bob .\n:bob :knows :cat ."
        ttl.write_bytes(gzip.compress(turtle.encode()))
        assert read_stream(ttl).content_hash() == read_stream(nt).content_hash()

    def test_literals_can_be_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "g.nt"
        path.write_text(self.NT)
        refused(path, "literal or blank node", line=4, literals="error")

    def test_a_syntax_error_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "g.nt"
        path.write_text(self.NT + "<http://x/ann> <http://x/knows>\n")
        refused(path, "not valid N-Triples", line=7)
        path = tmp_path / "g.ttl"
        path.write_text(":a :b :c .")
        refused(path, "not valid Turtle", line=1)

    def test_a_duplicate_statement_is_named_by_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "g.nt"
        path.write_text(self.NT + "# again\n<http://x/ann> <http://x/knows> <http://x/bob> .\n")
        refused(path, "g.nt, line 3", line=8)

    def test_a_duplicate_turtle_statement_is_named_by_its_number(self, tmp_path: Path) -> None:
        path = tmp_path / "g.ttl"
        path.write_text("<urn:a> <urn:r> <urn:b>, <urn:c> .\n<urn:a> <urn:r> <urn:b> .")
        refused(path, "statement 3", "g.ttl, statement 1")

    def test_a_file_of_literals_alone_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "g.nt"
        path.write_text('<urn:a> <urn:r> "b" .\n')
        refused(path, "no train fact", report=lambda _: None)

    def test_prefixes_cannot_blow_up_the_names(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(source, "EXPANSION_FLOOR", 1000)
        path = tmp_path / "g.ttl"
        uses = "".join(f":a{n} :r :b{n} .\n" for n in range(2000))
        path.write_text(f"@prefix : <http://{'x' * 20_000}/> .\n{uses}")
        refused(path, "names expand")

    def test_without_pyoxigraph_the_extra_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "g.nt"
        path.write_text(self.NT)
        monkeypatch.setitem(sys.modules, "pyoxigraph", None)
        refused(path, "meor[rdf]")


class TestFiles:
    def test_what_is_not_there_is_refused(self, tmp_path: Path) -> None:
        for name in ("none", "none.tsv", "none.parquet", "none.nt", "x" * 300, "a\0b"):
            refused(tmp_path / name)

    def test_no_permission_is_said(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # Root may read everything, so the refusal of the system is played.
        real = Path.open

        def deny(self: Path, *rest: object, **named: object) -> object:
            if self.name == "valid.txt":
                raise PermissionError(13, "Permission denied")
            return real(self, *rest, **named)  # type: ignore[call-overload]

        monkeypatch.setattr(Path, "open", deny)
        error = refused(base, "no permission")
        assert error.path == base / "0/valid.txt"

    @pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
    def test_no_permission_is_said_by_the_system_too(self, base: Path) -> None:
        (base / "0/valid.txt").chmod(0)
        refused(base, "no permission")
        (base / "1").chmod(0)
        refused(base)
        (base / "1").chmod(0o700)

    def test_damaged_gzip_is_refused(self, tmp_path: Path) -> None:
        whole = gzip.compress(b"".join(b"%d\tr\t%d\n" % (n, n + 1) for n in range(5000)))
        path = tmp_path / "s/0/train.txt.gz"
        folder(tmp_path / "s", {"0/train.txt.gz": whole})
        assert len(read_stream(tmp_path / "s").entities) == 5001
        for damaged in (whole[:-9], whole[: len(whole) // 2], whole[:15], b"not gzip", whole + b"tail"):
            path.write_bytes(damaged)
            refused(tmp_path / "s", "train.txt.gz")
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        path.write_bytes(flipped)
        refused(tmp_path / "s", "train.txt.gz")

    def test_a_gzip_bomb_of_one_line_is_refused_after_one_mebibyte(self, tmp_path: Path) -> None:
        folder(tmp_path, {"0/train.txt.gz": gzip.compress(b"x" * (20 << 20))})
        refused(tmp_path, "longer than", line=1)

    def test_a_gzip_bomb_of_many_lines_is_refused(self, tmp_path: Path) -> None:
        folder(tmp_path, {"0/train.txt.gz": gzip.compress(b"a\tb\tc\n" * (1 << 20))})
        refused(tmp_path, "expands from")


class TestFacts:
    def test_a_tab_file_needs_no_header(self, tmp_path: Path) -> None:
        path = tmp_path / "g.txt"
        path.write_text("a\tr\tb\nb\tr\tc\n")
        table = read_facts(path)
        assert table.facts == [("a", "r", "b"), ("b", "r", "c")]
        assert table.numbers == [1, 2]

    def test_a_header_is_recognised(self, tmp_path: Path) -> None:
        path = tmp_path / "g.tsv"
        path.write_text("tail\trelation\thead\nb\tr\ta\n")
        assert read_facts(path).facts == [("a", "r", "b")]

    def test_the_fourth_column_is_the_date_when_dates_are_asked_for(self, tmp_path: Path) -> None:
        path = tmp_path / "g.tsv"
        path.write_text("a\tr\tb\t2014-01-02\nb\tr\tc\t2014-01-01\n")
        table = read_facts(path, dated=True)
        assert table.date[0] - table.date[1] == 24 * 3600 * 1_000_000
        assert read_facts(path).date == table.date

    def test_a_missing_date_column_is_said(self, tmp_path: Path) -> None:
        path = tmp_path / "g.csv"
        path.write_text("head,relation,tail\na,r,b\n")
        with pytest.raises(StreamError, match="no column holds dates"):
            read_facts(path, dated=True)

    def test_an_empty_file_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "g.tsv"
        path.write_text("")
        with pytest.raises(StreamError, match="empty"):
            read_facts(path)

    def test_rdf_facts_read(self, tmp_path: Path) -> None:
        path = tmp_path / "g.nt"
        path.write_text("<urn:a> <urn:r> <urn:b> .\n")
        assert read_facts(path).facts == [("urn:a", "urn:r", "urn:b")]
        with pytest.raises(StreamError, match="date"):
            read_facts(path, dated=True)


class TestWrite:
    def test_any_label_reads_back(self, tmp_path: Path) -> None:
        names = [" a ", "ü\u2028x", "x\x85", "#", '"', "𝔘", "a,b", "head"]
        facts = [(name, f"r {name}", names[0]) for name in names]
        stream = build_stream(
            "s", [{Split.TRAIN: facts[:5], Split.TEST: facts[:0]}, {Split.TRAIN: facts[5:]}]
        )
        write_stream(stream, tmp_path / "s")
        assert read_stream(tmp_path / "s").content_hash() == stream.content_hash()

    @pytest.mark.parametrize("label", ["", " ", "a\tb", "a\nb", "a\rb", "\0", "\ufeffa", "\ud800"])
    def test_a_label_that_no_line_can_carry_is_refused(self, tmp_path: Path, label: str) -> None:
        stream = build_stream("s", [{Split.TRAIN: [("a", "r", label)]}])
        with pytest.raises(StreamError, match="Rename"):
            write_stream(stream, tmp_path / "s")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("call", ["fsync", "replace", "mkdir"])
    def test_a_failing_disk_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
    ) -> None:
        stream = build_stream("s", [{Split.TRAIN: [("a", "r", "b")]}])
        real = getattr(os, call)
        calls = 0

        def full(*rest: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            if call != "mkdir" or calls == 4:  # the parent, the staging folder, the stream, then a snapshot
                raise OSError(28, "No space left on device")
            return real(*rest, **named)

        monkeypatch.setattr(os, call, full)
        with pytest.raises(StreamError, match="No space left"):
            write_stream(stream, tmp_path / "s")
        assert not list(tmp_path.iterdir())

    def test_an_existing_target_is_refused(self, tmp_path: Path) -> None:
        stream = build_stream("s", [{Split.TRAIN: [("a", "r", "b")]}])
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        for target in (tmp_path, tmp_path / "link"):
            with pytest.raises(StreamError, match="already exists"):
                write_stream(stream, target)
        with pytest.raises(StreamError):
            write_stream(stream, tmp_path / "a\0b")
