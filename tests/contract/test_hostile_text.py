"""Every command with hostile labels, names and paths: nothing it prints or writes carries them on."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from markdown_it import MarkdownIt
from tests.hostile import LETTERS, SIZE, component, deep, label, unseen, write_stream_file
from tests.stream.published import ENTRY, members, zip_of
from tests.tiny_run import SETTINGS
from typer.testing import CliRunner

from meor import cli
from meor.escape import LONGEST, shell_words
from meor.run.view import RunView
from meor.stream import registry
from meor.stream.registry import open_stream

LONG = LETTERS * (LONGEST + 1)
SHORTENED = {"audit", "inspect", "study", "predict", "explain", "diff", "history"}
Words = tuple[object, ...]


class Places:
    """Where the walk reads and writes: one folder below a hostile path, and hostile names in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inputs, self.outputs = root / "in", root / "out"
        self.inputs.mkdir()
        self.stream = write_stream_file(self.inputs / f"{component(size=200)}.parquet")
        self.run, self.audit, self.study = (self.outputs / name for name in ("run", "audit", "study"))
        self.data = self.outputs / component("data", 230)
        self.foreign = self._foreign()
        self.plan = self.inputs / f"{component('s', 200)}.yaml"
        plan = {"study": "tiny", "stream": str(self.stream), "methods": ["none", "meor"], "pairs": 2}
        tables = ["absolute", "effects", "transfer", "boundary"]
        self.plan.write_text(yaml.safe_dump({**plan, "sets": list(SETTINGS), "tables": tables}))
        self.archive = self.inputs / f"{component('z', 200)}.zip"
        self.archive.write_bytes(zip_of(members()))
        self.facts = self.inputs / f"{component('f', 200)}.tsv"
        lines = [f"{label(f'e{i}')}\tr{label('')}\t{label(f'e{i * 7 % 30}')}\n" for i in (*range(30), 3)]
        self.facts.write_text("".join(lines), encoding="utf-8")
        self.dated = self.inputs / f"{component('d', 200)}.tsv"
        self.dated.write_text("".join(f"{line[:-1]}\t2020\n" for line in lines), encoding="utf-8")
        self.store = self.outputs / "store"
        self.batch = self.inputs / f"{component('b', 200)}.tsv"
        lines = [f"{label(f'n{i % 4}')}\t{label('r0')}\t{label(f'e{i}')}\n" for i in range(12)]
        self.batch.write_text("".join(lines), encoding="utf-8")
        self.queries = self.inputs / f"{component('q', 200)}.tsv"
        self.queries.write_text(f"{label('e0')}\t{label('r0')}\t?\n", encoding="utf-8")

    def _foreign(self) -> Words:
        stream = open_stream(self.stream)
        rng = np.random.default_rng(0)
        words: list[object] = ["--stream", self.stream, "--backbone", "distmult"]
        lines, groups = [], []
        for kind, labels in (("entity", stream.entities), ("relation", stream.relations)):
            path = self.inputs / f"{component(kind, 200)}.npy"
            np.save(path, rng.normal(size=(len(labels), 4)))
            words += [f"--{kind}", path]
            lines += [f"{kind}\t{row}\t{name}\n" for row, name in enumerate(labels)]
        groups = [f"{name}\t{label(f'g{row % 3}')}\n" for row, name in enumerate(stream.entities)]
        for option, content in (("--vocabulary", lines), ("--groups", groups)):
            path = self.inputs / f"{component(option, 200)}.tsv"
            path.write_text("".join(content), encoding="utf-8")
            words += [option, path]
        return tuple(words)


def cases(at: Places) -> dict[str, list[tuple[int, Words]]]:
    """Every command with the calls that are made of it, in order, and the exit code of each."""
    absent = at.inputs / component("absent")
    sets = [word for text in SETTINGS for word in ("--set", text)]
    cache = ("--cache", at.outputs / "cache")
    made = ("--stream", at.stream, "--method", "meor", *sets, *cache)
    undecodable = at.outputs / os.fsdecode(b"grown\xff")
    return {
        "run": [
            (0, ("run", *made, "--out", at.run)),
            (0, ("run", *made, "--out", at.outputs / "run2", "--json")),
            (2, ("run", *made, "--out", at.run)),
            (2, ("run", "--stream", absent)),
            (2, ("run", "--set", f"{component()}=1")),
            (2, ("run", "--threads", component())),
        ],
        "resume": [(0, ("resume", at.run)), (2, ("resume", absent)), (2, ("resume", at.run, component()))],
        "audit": [
            (0, ("audit", at.run, "--out", at.audit, "--protocols")),
            (0, ("audit", at.run, "--json")),
            (0, ("audit", *at.foreign, "--out", at.outputs / "foreign")),
            (2, ("audit", absent)),
            (2, ("audit", at.run, "--split", component())),
        ],
        "inspect": [
            (0, ("inspect", at.run, "--records", "12")),
            (0, ("inspect", at.run, "--records", "12", "--json")),
            (2, ("inspect", absent)),
        ],
        "dial": [
            (0, ("dial", at.run, "--scales", ".5,1,2")),
            (0, ("dial", at.run, "--keep", "2", "--out", at.outputs / component("dialled"))),
            (2, ("dial", absent)),
            (2, ("dial", at.run, "--scales", component())),
        ],
        "demo": [(2, ("demo", "--out", at.facts)), (2, ("demo", "--pairs", component()))],
        "study": [
            (0, ("study", at.plan, "--out", at.study, "--executor", "serial", "--holm", *cache)),
            (2, ("study", absent)),
            (2, ("study", at.plan, "--out", at.outputs / "bad", "--executor", "serial", "--stream", absent)),
        ],
        "report": [
            (0, ("report", at.run, "--figures", at.outputs / "figures")),
            (0, ("report", at.study)),
            (0, ("report", at.run, "--out", at.outputs / component("page", 240))),
            (2, ("report", absent)),
            (2, ("report", at.run, "--out", at.inputs)),
        ],
        **store_cases(at, absent),
        "data fetch": [
            (0, ("data", "fetch", "Small", "--from", at.archive, "--data-dir", at.data)),
            (2, ("data", "fetch", component())),
            (2, ("data", "fetch", "Small", "--from", absent.with_name("a.zip"), "--data-dir", at.data / "x")),
        ],
        "data list": [(0, ("data", "list", "--data-dir", at.data))],
        "data info": [
            (0, ("data", "info", at.stream)),
            (0, ("data", "info", at.stream, "--json")),
            (2, ("data", "info", absent)),
        ],
        "data check": [
            (0, ("data", "check", at.stream)),
            (0, ("data", "check", "Small", "--data-dir", at.data)),
            (2, ("data", "check", absent)),
            (2, ("data", "check", at.dated)),
            (2, ("data", "check", at.stream, "--columns", component())),
            (2, ("data", "check", at.stream, "--columns", f"h={component()}")),
        ],
        "data clean": [
            (0, ("data", "clean", at.stream, at.outputs / component("sound"))),
            (0, ("data", "clean", at.dated, at.outputs / component("clean"))),
            (2, ("data", "clean", absent, at.outputs / "cleaned")),
        ],
        "data grow": [
            (0, ("data", "grow", at.facts, at.outputs / component("grown"), "--snapshots", "2")),
            (0, ("data", "grow", at.facts, undecodable, "--snapshots", "2")),
            (2, ("data", "grow", at.facts, at.outputs, "--snapshots", "2")),
        ],
    }  # fmt: skip


def store_cases(at: Places, absent: Path) -> dict[str, list[tuple[int, Words]]]:
    query = label("e0"), label("r0"), "?"
    return {
        "store create": [
            (0, ("store", "create", at.store, "--from", at.run)),
            (2, ("store", "create", at.outputs / "store2", "--from", absent)),
        ],
        "admit": [
            (3, ("admit", at.store, at.batch, "--floor", "1")),
            (0, ("admit", at.store, at.batch, "--budget", "1", "--page", at.outputs / "page.html")),
            (0, ("admit", at.store, at.facts, "--budget", "1", "--dry-run", "--json", "--new-relations")),
            (2, ("admit", at.store, absent)),
        ],
        "predict": [
            (0, ("predict", at.store, *query, "--k", "50")),
            (0, ("predict", at.store, "--queries", at.queries, "--k", "50")),
            (2, ("predict", at.store, label("nobody"), label("r0"), "?")),
            (2, ("predict", absent)),
        ],
        "explain": [
            (0, ("explain", at.store, *query)),
            (0, ("explain", at.run, *query, "--json")),
            (2, ("explain", at.store, *query, "--answer", label("nobody"))),
        ],
        "diff": [(0, ("diff", at.store, "1", "2")), (2, ("diff", at.store, "1", component()))],
        "history": [
            (0, ("history", at.store)),
            (0, ("history", at.store, "--json")),
            (2, ("history", absent)),
        ],
        "rollback": [
            (0, ("rollback", at.store, "--reason", label("why"))),
            (2, ("rollback", at.store, component())),
        ],
        "store check": [(0, ("store", "check", at.store)), (2, ("store", "check", absent))],
        "serve": [(2, ("serve", absent))],
    }  # fmt: skip


def every_command() -> Iterator[str]:
    for verb in cli.VERBS:
        below = getattr(cli.load(verb), "commands", None)
        yield from [verb] if below is None else (f"{verb} {name}" for name in below)


class Walk(SimpleNamespace):
    at: Places
    said: dict[tuple[str, int], tuple[Words, str, str]]  # by command and number: words, stdout, stderr
    wrong: list[tuple[object, ...]]  # calls that ended with another exit code

    def texts(self, *endings: str) -> dict[str, str]:
        """The files of these endings that were written, by name."""
        found = [path for path in self.at.outputs.rglob("*") if path.suffix in endings and path.is_file()]
        assert found, endings
        return {str(path.relative_to(self.at.outputs)): path.read_text(encoding="utf-8") for path in found}


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entries", lambda: (ENTRY,))
        patch.delenv("MEOR_DATA", raising=False)
        patch.setenv("COLUMNS", "400")  # labels stand on one line, where a test can find them
        at = Places(deep(tmp_path_factory.mktemp("hostile")))
        said, wrong = {}, []
        for name, calls in cases(at).items():
            for number, (code, words) in enumerate(calls):
                patch.setattr(sys, "argv", ["meor", *map(str, words)])
                done = CliRunner().invoke(cli.app, sys.argv[1:])
                said[name, number] = (words, done.stdout, done.stderr)
                if done.exit_code != code:
                    wrong.append((name, number, done.exit_code, done.stderr, done.exception))
        yield Walk(at=at, said=said, wrong=wrong)


def test_every_command_is_walked_and_none_fails_for_a_name(walk: Walk) -> None:
    assert set(every_command()) == {name for name, _ in walk.said}
    assert walk.wrong == []


def test_no_command_prints_a_character_that_steers_the_terminal_or_is_not_seen(walk: Walk) -> None:
    for call, (_, out, err) in walk.said.items():
        assert not unseen(out), call
        assert not unseen(err), call
        assert out + err, call


def test_a_label_is_no_markup_of_rich_and_is_shortened_on_the_terminal(walk: Walk) -> None:
    for name in ("audit", "inspect"):
        assert r"[red]<img src=x onerror=alert(1)>\x1b[31m" in walk.said[name, 0][1], name
    for call, (words, out, _) in walk.said.items():
        if not {"--json", "--queries"} & set(words) and call[0] in SHORTENED:
            shown = [line for line in out.splitlines() if "meor report" not in line]
            assert LONG not in "\n".join(shown), call
    for call in (("data info", 0), ("data check", 0), ("study", 0)):
        assert "[red]<img src=x" in walk.said[call][1], call


def test_an_error_is_one_line_that_names_the_path_with_its_escapes(walk: Walk) -> None:
    for call, (words, _, err) in walk.said.items():
        if "absent" in str(words[-1]):
            assert err.splitlines()[-1].startswith("meor: "), call
            assert r"\x1b[31m" in err.splitlines()[-1], call


def test_no_file_has_a_name_of_ours_or_a_text_with_a_character_that_is_not_seen(walk: Walk) -> None:
    binary = {".parquet", ".safetensors", ".npy", ".lock"}
    ours = [path for name in ("run", "audit", "study", "foreign", "figures", "cache") for path in
            (walk.at.outputs / name).rglob("*")]  # fmt: skip
    assert len(ours) > 50
    for path in ours:
        assert not unseen(str(path.relative_to(walk.at.outputs))), path.name
        if path.is_file() and path.suffix not in binary and path.name != ".lock":
            assert not unseen(path.read_text(encoding="utf-8")), path.name


def test_markdown_of_a_study_holds_no_html_no_link_and_no_emphasis_of_a_name(walk: Walk) -> None:
    allowed = {"text", "strong_open", "strong_close", "softbreak", "text_special"}
    for name, text in walk.texts(".md").items():
        tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
        inline = [each for token in tokens for each in token.children or []]
        assert {each.type for each in inline} <= allowed, name
        assert sum(each.type == "strong_open" for each in inline) == 1, name
        assert not [token for token in tokens if token.type == "html_block"], name
        assert len({line.count(" | ") for line in text.splitlines() if line.startswith("|")}) == 1, name
        assert not re.search(r"<|https?://", text), name


def test_csv_of_a_study_holds_no_formula_and_no_tag(walk: Walk) -> None:
    for name, text in walk.texts(".csv").items():
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        risky = [cell for cell in cells if cell.startswith(("=", "+", "-", "@")) and not is_number(cell)]
        assert not risky, name
        assert "<" not in text, name
    assert any("img src=x" in text for text in walk.texts(".csv").values())


class Structure(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.words += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


HTML_TAGS = re.compile(
    "a|body|button|caption|circle|code|dd|details|div|dl|dt|figcaption|figure|footer|h[123]|head|header|html|i|li|"
    "line|link|main|meta|nav|ol|p|path|rect|script|section|small|span|strong|style|sub|summary|svg|table|tbody|"
    "td|text|th|thead|title|tr|tspan|ul"
)
SVG_TAGS = re.compile("svg|title|desc|style|rect|text|tspan|line|path|circle|g")
ATTRIBUTES = re.compile(
    "aria-hidden|aria-label|aria-labelledby|charset|class|content|c[xy]|d|data-sort|dy|fill|font-family|height|"
    "href|http-equiv|id|lang|name|r|rel|role|rx|scope|tabindex|text-anchor|title|transform|type|view[bB]ox|width|"
    "[xy][12]?"
)


def strange(names: Iterable[str], known: re.Pattern[str]) -> set[str]:
    return {name for name in names if known.fullmatch(name) is None}


def test_no_element_and_no_attribute_of_a_page_comes_from_a_label(walk: Walk) -> None:
    pages = [*(at / "report.html" for at in (walk.at.run, walk.at.study)), walk.at.outputs / "page.html"]
    for path in pages:
        page = Structure()
        page.feed(path.read_text(encoding="utf-8"))
        assert not strange(page.tags, HTML_TAGS)
        assert not strange(page.attributes, ATTRIBUTES)
        assert [page.tags.count(tag) for tag in ("script", "title", "style")] == [1, 1, 1]
        words = "".join(page.words)
        assert words.count("[red]<img src=x onerror=alert(1)>") > 3
        assert unseen(words) <= {"\u200b"}  # ours, after a lowered letter
        assert LETTERS * 300 not in words


def test_a_figure_is_well_formed_and_no_element_of_it_comes_from_a_label(walk: Walk) -> None:
    texts = walk.texts(".svg")
    for name, text in texts.items():
        root = ElementTree.fromstring(text)
        elements = list(root.iter())
        assert not strange((element.tag.rpartition("}")[2] for element in elements), SVG_TAGS), name
        assert not strange((key for element in elements for key in element.attrib), ATTRIBUTES), name
        assert unseen("".join(root.itertext())) <= {"\u200b"}, name
        assert LONG not in text, name
    assert "&lt;img src=x" in next(text for name, text in texts.items() if "comparison" in name)


def test_json_yaml_and_the_command_keep_every_character_in_their_own_encoding(walk: Walk) -> None:
    for text in (*walk.texts(".json").values(), *walk.texts(".jsonl").values()):
        assert text.isascii()
    for line in walk.texts(".jsonl")["run/log.jsonl"].splitlines():
        json.loads(line)
    assert yaml.safe_load((walk.at.run / "config.yaml").read_text())["stream"] == str(walk.at.stream)
    assert yaml.safe_load((walk.at.study / "study.yaml").read_text())["stream"] == [str(walk.at.stream)]
    assert shell_words((walk.at.study / "command.txt").read_text()) == [
        "meor",
        *map(str, walk.said["study", 0][0]),
    ]
    found = json.loads(walk.said["inspect", 1][1])
    labels = set(open_stream(walk.at.stream).entities)
    assert {len(name) for record in found for name in record["newcomers"]} == {SIZE}
    assert {name for record in found for name in record["newcomers"]} <= labels
    assert set(RunView.open(walk.at.run).labels("entity")) == labels
    assert json.loads(walk.said["data info", 1][1])["name"] == walk.at.stream.stem


def test_a_grown_stream_keeps_its_labels(walk: Walk) -> None:
    grown = open_stream(walk.at.outputs / component("grown"))
    assert set(grown.entities) == {label(f"e{i}") for i in range(30)}


def is_number(text: str) -> bool:
    try:
        return float(text) is not None
    except ValueError:
        return text == "--"
