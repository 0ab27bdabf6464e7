"""E1: every code block of the documents is executed, on a small stream with small settings.

A block, or a command of one, that cannot be is named in an HTML comment above it that says why:
`<!-- not executed: reason -->`, or `<!-- not executed, meor data fetch: reason -->` for one command. A block
below `<!-- needs pykeen -->` is executed where that is installed.
"""

from __future__ import annotations

import re
import shlex
import shutil
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
import yaml
from markdown_it import MarkdownIt
from tests.tiny_run import SETTINGS, tiny_stream

from meor.cli import app
from meor.stream.files import write_stream
from meor.stream.registry import open_stream
from meor.stream.snapshot import Stream
from meor.study.plan import Study

ROOT = Path(__file__).parents[2]
FILES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]
ELSEWHERE = {
    "docs/penalty.md": "tests/methods/test_penalty_docs.py",
    "docs/extend.md": "tests/backbone/test_own_backbone.py",
}
NEEDS = re.compile(r"<!-- needs (\w+) -->")
ABOVE = ("<!-- not executed", "<!-- needs ")
NOT_EXECUTED = re.compile(r"<!-- not executed(?:, (?P<command>[^:]+))?: (?P<reason>.+) -->")
SMALL = [part for text in SETTINGS for part in ("--set", text)]
ADDED = {
    "run": [*SMALL, "--quiet"],
    "study": [*SMALL, "--pairs", "2", "--workers", "1", "--quiet"],
}
METHODS = ["--method", "none", "--method", "meor"]
VERDICTS = (0, 3, 4)  # admitted, refused, flagged: a small model decides otherwise than a trained one
STANDS_FOR = {
    "FACTS": "undated.tsv",
    **dict.fromkeys(("ENTITY", "FBInc-S", "FBInc-L", "WN-CKGE"), "my/folder"),
}


@dataclass(frozen=True, slots=True)
class Block:
    kind: str
    text: str
    spared: tuple[tuple[str | None, str], ...]  # (command or None for the block, reason)
    needs: tuple[str, ...] = ()  # packages that are extras

    @property
    def commands(self) -> list[list[str]]:
        """What is typed, without remarks: those stand behind `#` or several spaces."""
        typed = [re.split(r"\s+#|\s{3,}", line)[0] for line in self.text.splitlines()]
        return [shlex.split(line) for line in typed if line.strip()]

    @property
    def is_spared(self) -> bool:
        missing = any(find_spec(name) is None for name in self.needs)
        return missing or any(command is None for command, _ in self.spared)

    @property
    def is_shell(self) -> bool:
        return not self.kind and self.text.startswith(("meor ", "make "))

    @property
    def is_listing(self) -> bool:
        """What a folder holds."""
        return not self.kind and self.text.splitlines()[0].endswith("/")


def blocks(name: str) -> Iterator[Block]:
    """Whatever a reader sees as code, indented too; directives of the book are none."""
    text = (ROOT / name).read_text()
    lines = text.splitlines()
    for token in MarkdownIt().parse(text):
        if token.type in ("fence", "code_block") and not token.info.startswith("{") and token.map:
            above = [*takewhile(lambda line: line.startswith(ABOVE), lines[token.map[0] - 1 :: -1])]
            spared = (NOT_EXECUTED.fullmatch(line) for line in above)
            yield Block(
                token.info,
                token.content,
                tuple((one["command"], one["reason"]) for one in spared if one),
                tuple(name for line in above for name in NEEDS.findall(line)),
            )


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything the documents name: facts, streams, embeddings, a run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    stream = tiny_stream()
    facts = [fact for snapshot in stream.snapshots for fact in snapshot.facts()]
    dated = [f"{_line(stream, fact)}\t{2000 + at // 8}\n" for at, fact in enumerate(facts)]
    (tmp_path / "facts.tsv").write_text("".join(dated))
    (tmp_path / "undated.tsv").write_text("".join(line.rpartition("\t")[0] + "\n" for line in dated))
    write_stream(stream, tmp_path / "my/folder")
    classes = (f"{label}\t{'odd' if at % 2 else 'even'}\n" for at, label in enumerate(stream.entities.labels))
    (tmp_path / "classes.tsv").write_text("".join(classes))
    (tmp_path / "S").symlink_to("my/folder")
    with_faults(tmp_path)
    shutil.copytree(ROOT / "tests/evaluation/pykeen/transe", tmp_path / "SAVED")  # of the same stream
    call("data grow facts.tsv my-stream --snapshots 5 --by date")
    embeddings(open_stream("my-stream"), tmp_path)
    shutil.rmtree(tmp_path / "my-stream")
    call("run --stream my/folder --out RUN --quiet", *SMALL)
    return tmp_path


def with_faults(folder: Path) -> None:
    """A file with names of its own, and a stream with duplicates and an entity that valid names first."""
    lines = (folder / "facts.tsv").read_text().replace("\t", ",")
    (folder / "own-names.csv").write_text(f"from,kind of link,to,seen on\n{lines}")
    shutil.copytree(folder / "my/folder", folder / "faulty")
    with (
        (folder / "faulty/1/train.txt").open("a") as train,
        (folder / "faulty/1/valid.txt").open("a") as valid,
    ):
        train.write((folder / "faulty/0/test.txt").read_text())
        valid.write("late\tr0\te0\n")


def _line(stream: Stream, fact: np.ndarray) -> str:
    labels, relations = stream.entities.labels, stream.relations.labels
    return f"{labels[fact[0]]}\t{relations[fact[1]]}\t{labels[fact[2]]}"


def embeddings(stream: Stream, folder: Path) -> None:
    draw = np.random.default_rng(0)
    kinds = {"entity": stream.entities.labels, "relation": stream.relations.labels}
    for file, labels in zip(("E.npy", "R.npy"), kinds.values(), strict=True):
        np.save(folder / file, draw.normal(size=(len(labels), 8)))
    lines = [
        f"{kind}\t{row}\t{label}\n" for kind, labels in kinds.items() for row, label in enumerate(labels)
    ]
    (folder / "V.tsv").write_text("".join(lines))


def call(command: str, *more: str) -> None:
    words = [*shlex.split(command), *more]
    allowed = VERDICTS if words[0] == "admit" else (None, 0)
    assert app(words, prog_name="meor", standalone_mode=False) in allowed, shlex.join(words)


def execute_shell(block: Block) -> None:
    for words in block.commands:
        command = " ".join(words)
        if not any(spared is not None and command.startswith(spared) for spared, _ in block.spared):
            assert words[0] == "meor", command
            call("", *in_small(words[1:]))


def in_small(words: list[str]) -> list[str]:
    """The same command on a small stream, with small settings; of `a|b` the first."""
    words = [STANDS_FOR.get(word, word.split("|")[0]) for word in words]
    if words[0] == "study" and "--stream" not in words and not words[1].endswith(".yaml"):
        words += ["--stream", "my/folder"]
    if words[0] == "run" and "--out" in words:
        words += ["--force"]
    if words[0] == "study" and "--method" not in words:
        words += METHODS
    return [*words, *ADDED.get(words[0], [])]


def execute_python(block: Block, names: dict[str, object]) -> None:
    exec(compile(block.text, "<block>", "exec"), names)


@pytest.mark.parametrize("name", [name for name in FILES if name not in ELSEWHERE])
def test_every_block_runs_as_it_stands(name: str, desk: Path) -> None:
    names: dict[str, object] = {}
    if name == "docs/audit.md":  # its Python block speaks of files of the world's embeddings
        (desk / "world").mkdir()
        embeddings(open_stream("world"), desk / "world")
        files = {"entity": "E.npy", "relation": "R.npy", "vocabulary": "V.tsv"}
        names |= {each: desk / "world" / file for each, file in files.items()}
    found = list(blocks(name))
    for block in found:
        if block.kind == "yaml":
            Study.resolve(yaml.safe_load(block.text))
            (desk / "mine.yaml").write_text(block.text)
    for block in found:
        if block.is_spared or block.is_listing or block.kind == "yaml":
            continue
        if block.kind == "python":
            execute_python(block, names)
        else:
            assert block.is_shell, f"{name}: neither a command nor Python nor a listing:\n{block.text}"
            execute_shell(block)


@pytest.mark.parametrize("name", FILES)
def test_what_is_not_executed_is_said_with_a_reason(name: str) -> None:
    text = (ROOT / name).read_text()
    assert text.count("<!-- not executed") == sum(len(block.spared) for block in blocks(name))
    assert all(len(reason.split()) > 2 for block in blocks(name) for _, reason in block.spared)
    if name in ELSEWHERE:
        assert Path(name).name in (ROOT / ELSEWHERE[name]).read_text()
        assert {block.kind for block in blocks(name)} == {"python"}
