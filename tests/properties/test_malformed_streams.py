"""Malformed input of every format gives a MeorError or a sound stream: no other error, nothing half written.

Inputs are numbered: input i of a format is the same everywhere, so a failure names what to run again.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meor.errors import MeorError
from meor.random import generator
from meor.stream.files import read_stream
from meor.stream.growth import grow_file
from meor.stream.snapshot import Stream
from meor.typing import SPLITS

T = TypeVar("T")
Draw = np.random.Generator
FORMATS = ("folder", "folder.gz", "tsv", "tsv.gz", "csv", "csv.gz", "parquet", "nt", "nt.gz", "ttl", "ttl.gz")
IN_CI, IN_ALL = 1_000, 10_000

FACTS = [
    fact
    for s in range(3)
    for fact in (
        *((f"e {n}", f"r{n % 2}", f"e {n + 1}", s, "train") for n in range(6 * s, 6 * s + 6)),
        (f"e {6 * s}", "r1", f"e {6 * s + 2}", s, "valid"),
        (f"e {6 * s + 3}", "r0", f"e {6 * s}", s, "test"),
    )
]
HOSTILE_CELLS = (
    *("", " ", "-1", "01", "1e5", "nan", "0.0", "99999999999999999999", "9" * 5000, "²", "٣", "0x1", "null"),
    *(
        "2020-13-01",
        "0000-01-01",
        "2020-01-01T25:00",
        "train",
        "dev",
        '"',
        '"a',
        "a\tb",
        "\0",
        "\ufeff",
        "x" * 70_000,
    ),
)
HOSTILE_BYTES = (
    *(
        b"\0",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\r",
        b"\n\n",
        b"\t",
        b"\xef\xbb\xbf",
        b'"',
        b",",
        b"\x1a",
        b"\\",
    ),
    *(
        b"<",
        b">",
        b".",
        b"_:b ",
        b'"x"@en ',
        b"<<( ",
        b"[",
        b"(" * 3000,
        b"@prefix a: <b> .",
        b"\\u0000",
        b"#",
    ),
)


def choose(draw: Draw, options: Sequence[T]) -> T:
    return options[int(draw.integers(len(options)))]


# --- sound input, which the mutations start from


def rows(separator: str, when: str) -> bytes:
    header = separator.join(("head", "relation", "tail", when, "split"))
    lines = [separator.join(map(str, fact)) for fact in FACTS]
    return "\n".join([header, *lines, ""]).encode()


def statements() -> bytes:
    names = [[f"<http://x/{part.replace(' ', '_')}>" for part in fact[:3]] for fact in FACTS]
    return "".join(" ".join(name) + " .\n" for name in names).encode()


TURTLE = b"@prefix : <http://x/> .\n:a :r :b, :c ; :s [ :t 4 ] .\n:b :r (:a :c) .\n" + statements()


@cache
def parquet(kind: str) -> bytes:
    columns: dict[str, object] = dict(
        zip(
            ("head", "relation", "tail", "snapshot", "split"),
            map(list, zip(*FACTS, strict=True)),
            strict=True,
        )
    )
    ints = pa.array([fact[3] for fact in FACTS])
    changes: dict[str, dict[str, object]] = {
        "sound": {},
        "packed": {},
        "null": {"tail": [None, *[fact[2] for fact in FACTS[1:]]]},
        "float": {"snapshot": ints.cast(pa.float64())},
        "binary": {"head": [b"\xff"] * len(FACTS)},
        "nested": {"head": [["a"]] * len(FACTS)},
        "large": {"snapshot": [2**63 - 1] * len(FACTS)},
        "negative": {"snapshot": [-1] * len(FACTS)},
        "long": {"relation": ["x" * 2_000_000] * len(FACTS)},
        "tab": {"relation": ["a\tb"] * len(FACTS)},
    }
    buffer = io.BytesIO()
    compression = "none" if kind == "sound" else "zstd"
    pq.write_table(pa.table(columns | changes[kind]), buffer, compression=compression)
    return buffer.getvalue()


@cache
def bomb(content: bytes) -> bytes:
    return gzip.compress(content * ((8 << 20) // len(content)))


# --- mutations of one file


def truncate(data: bytes, draw: Draw) -> bytes:
    return data[: int(draw.integers(len(data) + 1))]


def flip(data: bytes, draw: Draw) -> bytes:
    changed = bytearray(data)
    for _ in range(int(draw.integers(1, 9)) if data else 0):
        changed[int(draw.integers(len(data)))] ^= 1 << int(draw.integers(8))
    return bytes(changed)


def insert(data: bytes, draw: Draw) -> bytes:
    at = int(draw.integers(len(data) + 1))
    return data[:at] + choose(draw, HOSTILE_BYTES) + data[at:]


def cut_out(data: bytes, draw: Draw) -> bytes:
    start, stop = sorted(draw.integers(len(data) + 1, size=2).tolist())
    return data[:start] + data[stop:]


def repeat(data: bytes, draw: Draw) -> bytes:
    start, stop = sorted(draw.integers(len(data) + 1, size=2).tolist())
    return data[:stop] + data[start:]


def replace_all(data: bytes, draw: Draw) -> bytes:
    junk = draw.bytes(int(draw.integers(1, 200)))
    text = data.decode("latin-1")
    options = (b"", b"\n", b"PAR1PAR1", junk, text.encode("utf-16"), text.replace("e", "é").encode("latin-1"))
    return choose(draw, (*options, gzip.compress(data), data.replace(b"\n", b"\r")))


def long_line(data: bytes, draw: Draw) -> bytes:
    return data + b"x" * 10_000_000 if draw.random() < 0.1 else data + b"x" * 1_100_000


def in_a_line(data: bytes, draw: Draw) -> bytes:
    """Change a line as a table: a cell, a column more or less, or the same line twice."""
    lines = data.split(b"\n")
    at = int(draw.integers(len(lines)))
    separator = b"\t" if b"\t" in data else b"," if b"," in data else b" "
    cells = lines[at].split(separator)
    cell = int(draw.integers(len(cells)))
    action = int(draw.integers(4))
    if action == 0:
        cells[cell] = choose(draw, HOSTILE_CELLS).encode()
    elif action == 1:
        cells.insert(cell, b"more")
    elif action == 2:
        del cells[cell]
    else:
        lines.insert(int(draw.integers(len(lines) + 1)), lines[at])
        return b"\n".join(lines)
    lines[at] = separator.join(cells)
    return b"\n".join(lines)


def flip_pages(data: bytes, draw: Draw) -> bytes:
    """Damage what a Parquet footer points at, and leave the footer."""
    half = len(data) // 2
    return flip(data[:half], draw) + data[half:]


Mutation = Callable[[bytes, Draw], bytes]
ON_BYTES: tuple[Mutation, ...] = (truncate, flip, insert, cut_out, repeat, replace_all)
ON_TEXT: tuple[Mutation, ...] = (*ON_BYTES, in_a_line, in_a_line, in_a_line, insert, long_line)


def mutate(data: bytes, draw: Draw, mutations: tuple[Mutation, ...]) -> bytes:
    for _ in range(int(draw.integers(1, 4))):
        data = choose(draw, mutations)(data, draw)
    return data


def pack(data: bytes, draw: Draw) -> bytes:
    action = int(draw.integers(6))
    if action == 0:
        return choose(draw, (bomb(b"\n"), bomb(b"x"), bomb(b"a\tb\tc\n"), bomb(b"#\n"), bomb(b'"\n')))
    packed = gzip.compress(data, mtime=0)
    return mutate(packed, draw, ON_BYTES) if action < 3 else packed


# --- one malformed input of a format


def sound_folder(root: Path) -> Path:
    for snapshot in range(3):
        inside = root / str(snapshot)
        inside.mkdir(parents=True)
        for split in SPLITS:
            chosen = [fact[:3] for fact in FACTS if fact[3:] == (snapshot, split.value)]
            data = "".join("\t".join(fact) + "\n" for fact in chosen).encode()
            (inside / f"{split}.txt").write_bytes(data)
    return root


def write_folder(root: Path, draw: Draw, packed: bool) -> Path:
    sound_folder(root)
    victim = root / str(draw.integers(3)) / f"{choose(draw, SPLITS)}.txt"
    if draw.random() < 0.15:
        break_layout(root, victim, draw)
    elif packed:
        data = pack(mutate(victim.read_bytes(), draw, ON_TEXT), draw)
        victim.unlink()
        victim.with_name(f"{victim.name}.gz").write_bytes(data)
    else:
        victim.write_bytes(mutate(victim.read_bytes(), draw, ON_TEXT))
    return root


def break_layout(root: Path, victim: Path, draw: Draw) -> None:
    snapshot = victim.parent
    new_name = choose(draw, ("-1", "01", "+2", "7", "9" * 200, "x"))
    actions: tuple[Callable[[], object], ...] = (
        lambda: shutil.rmtree(root / choose(draw, ("0", "1"))),
        lambda: snapshot.rename(root / new_name),
        (root / "0/train.txt").unlink,
        lambda: (victim.unlink(), victim.mkdir()),
        lambda: (victim.unlink(), os.mkfifo(victim)),
        lambda: (victim.unlink(), victim.symlink_to(victim)),
        lambda: (shutil.rmtree(snapshot), snapshot.write_text("x")),
        lambda: shutil.copy(victim, victim.with_suffix(".tsv")),
        lambda: shutil.copytree(snapshot, root / "3"),
        lambda: (root / "1/train.txt").write_text(""),
    )
    choose(draw, actions)()


def write_input(form: str, draw: Draw, root: Path) -> Path:
    if form.startswith("folder"):
        return write_folder(root / "stream", draw, form.endswith(".gz"))
    path = root / f"stream.{form}"
    if form == "parquet":
        kind = choose(
            draw,
            ("sound", "packed") * 10
            + ("null", "float", "binary", "nested", "large", "negative", "long", "tab"),
        )
        data = parquet(kind)
        mutations = choose(draw, (ON_BYTES, (flip_pages,)))
        path.write_bytes(mutate(data, draw, mutations) if kind in ("sound", "packed") else data)
        return path
    when = choose(draw, ("snapshot", "date"))
    sources = {"tsv": rows("\t", when), "csv": rows(",", when), "nt": statements(), "ttl": TURTLE}
    data = mutate(sources[form.removesuffix(".gz")], draw, ON_TEXT)
    path.write_bytes(pack(data, draw) if form.endswith(".gz") else data)
    return path


# --- what must hold


def assert_sound(stream: Stream) -> None:
    seen = 0
    for index, snapshot in enumerate(stream.snapshots):
        assert len(snapshot.train)
        ends = snapshot.train[:, [0, 2]]
        assert max(seen, int(ends.max()) + 1) == stream.entity_counts[index]
        seen = stream.entity_counts[index]
        assert (snapshot.facts()[:, [0, 2]] < seen).all()
        assert (snapshot.facts()[:, 1] < stream.relation_counts[index]).all()
    everything = stream.prefix(len(stream.snapshots) - 1)
    assert len(np.unique(everything, axis=0)) == len(everything)


def try_input(form: str, number: int, root: Path) -> bool:
    """Whether input `number` of a format was refused."""
    draw = generator("test", "malformed", form, number)
    root.mkdir()
    path = write_input(form, draw, root)
    before = sorted(root.rglob("*"))
    rules = {"duplicates": choose(draw, ("error", "drop")), "unseen": choose(draw, ("error", "drop", "move"))}
    try:
        assert_sound(read_stream(path, report=lambda _: None, **rules))  # type: ignore[arg-type]
        refusal = None
    except MeorError as error:
        refusal = str(error)
    assert refusal is None or str(root) in refusal
    if number % 4 == 0:
        try_to_grow(path, root / "grown", choose(draw, ("random", "degree", "date")))
    assert sorted(root.rglob("*")) == before
    shutil.rmtree(root)
    return refusal is not None


def try_to_grow(path: Path, out: Path, by: str) -> None:
    try:
        stream = grow_file(path, out, 2, by, report=lambda _: None)  # type: ignore[arg-type]
    except MeorError:
        return
    assert read_stream(out).content_hash() == stream.content_hash()
    shutil.rmtree(out)


def refuse(form: str, wanted: int, root: Path) -> None:
    """Go on until `wanted` inputs were refused; the few that stay sound do not count."""
    refused = number = 0
    while refused < wanted:
        try:
            refused += try_input(form, number, root / "input")
        except Exception as error:
            raise AssertionError(f"input {number} of {form}: {error!r}") from error
        number += 1
        assert number < 4 * wanted + 100, f"only {refused} of {number} inputs of {form} were refused"


def test_what_the_mutations_start_from_is_sound(tmp_path: Path) -> None:
    sources = {"tsv": rows("\t", "snapshot"), "csv": rows(",", "date"), "parquet": parquet("sound")}
    for form, data in (sources | {"nt": statements(), "ttl": TURTLE}).items():
        (tmp_path / f"sound.{form}").write_bytes(data)
        assert_sound(read_stream(tmp_path / f"sound.{form}", report=lambda _: None))
    table = read_stream(tmp_path / "sound.tsv")
    assert read_stream(sound_folder(tmp_path / "sound")).content_hash() == table.content_hash()
    assert len(table.snapshots) == 3


@pytest.mark.parametrize("form", FORMATS)
def test_malformed_inputs_are_refused_whole(form: str, tmp_path: Path) -> None:
    refuse(form, -(-IN_CI // len(FORMATS)), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMATS)
def test_ten_thousand_malformed_inputs_are_refused_whole(form: str, tmp_path: Path) -> None:
    refuse(form, -(-IN_ALL // len(FORMATS)), tmp_path)
