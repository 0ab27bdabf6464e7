"""Store commands as they are typed: exit codes, one-line messages, labels that cannot steer a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.tiny_run import SETTINGS, tiny_stream
from typer.testing import CliRunner, Result

from meor.cli import app
from meor.stream.files import write_stream

HOSTILE = "<script>alert(1)</script>\x1b[31mred\u202e"


def meor(*words: str | Path, given: str | None = None) -> Result:
    found = CliRunner().invoke(app, [str(word) for word in words], input=given)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert "Traceback" not in found.output
    return found


def lines_of(update: int, rename: dict[str, str] | None = None) -> str:
    stream, lines = tiny_stream(), []
    for head, relation, tail in stream.snapshots[update].train.tolist():
        labels = [stream.entities.label(head), stream.relations.label(relation), stream.entities.label(tail)]
        lines.append("\t".join((rename or {}).get(label, label) for label in labels) + "\n")
    return "".join(lines)


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of the ring's base, and its first update as a file whose newcomer e24 has a hostile name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.tsv").write_text(lines_of(0))
    (tmp_path / "week.tsv").write_text(lines_of(1, {"e24": HOSTILE}))
    sets = [part for text in (*SETTINGS, "refine.learning_rate=0.3") for part in ("--set", text)]
    made = meor("store", "create", "live", "--from", "base.tsv", *sets, "--quiet")
    assert made.exit_code == 0, made.output
    return tmp_path / "live"


def test_a_week_in_the_life_of_a_store(live: Path, tmp_path: Path) -> None:
    assert meor("admit", live, "week.tsv").exit_code == 2  # r3 is a new relation
    refused = meor("admit", live, "week.tsv", "--new-relations", "--budget", "0", "--sample", "500")
    assert refused.exit_code == 3, refused.output
    assert "Refused" in refused.output
    assert "\x1b[31m" not in refused.output
    dry = meor("admit", live, "week.tsv", "--new-relations", "--budget", "1", "--dry-run", "--json")
    assert dry.exit_code == 0
    assert json.loads(dry.stdout)["dry_run"]
    done = meor(
        "admit", live, "week.tsv", "--new-relations", "--budget", "1", "--out", "v.json", "--page", "v.html"
    )
    assert "<script>alert" not in (tmp_path / "v.html").read_text()
    assert "Admission: admitted" in (tmp_path / "v.html").read_text()
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "v.json").read_text())["verdict"] == "admitted"
    told = json.loads(meor("history", live, "--json").stdout)
    assert [entry["event"] for entry in told["entries"]] == ["created", "refused", "admitted"]
    assert "admitted" in meor("history", live).stdout
    changed = json.loads(meor("diff", live, "1", "2", "--json").stdout)
    assert changed["worse"] > 0
    assert "are worse" in meor("diff", live, "1", "2").stdout
    forced = meor("admit", live, "week.tsv", "--force")
    assert (forced.exit_code, "reason" in forced.output) == (2, True)
    back = meor("rollback", live, "--reason", "it was too early")
    assert (back.exit_code, "0001-" in back.stdout) == (0, True)
    assert meor("store", "check", live).exit_code == 0
    assert meor("rollback", live, "0003-ffff").exit_code == 2
    assert meor("rollback", live).exit_code == 2  # there is nothing before the first


def test_answers_in_every_form(live: Path, tmp_path: Path) -> None:
    meor("admit", live, "week.tsv", "--new-relations", "--budget", "1", "--quiet")
    shown = meor("predict", live, "e0", "r0", "?", "--k", "40")
    assert shown.exit_code == 0
    assert "\\x1b[31m" in shown.stdout
    assert "\x1b[31m" not in shown.stdout
    assert "\u202e" not in shown.stdout
    (tmp_path / "queries.tsv").write_text(f"e0\tr0\t?\n?\tr1\te4\n{HOSTILE}\tr0\t?\n")
    many = [
        json.loads(line) for line in meor("predict", live, "--queries", "queries.tsv").stdout.splitlines()
    ]
    alone = json.loads(meor("predict", live, "e0", "r0", "?", "--json").stdout)
    assert many[0] == alone
    assert many[1]["head"] == "?"
    assert many[2]["head"] == HOSTILE
    old = json.loads(meor("predict", live, "e0", "r0", "?", "--json", "--version", "1").stdout)
    within = json.loads(meor("predict", live, "e0", "r0", "?", "--json", "--universe", "old").stdout)
    assert [each["label"] for each in old["answers"]] == [each["label"] for each in within["answers"]]
    explained = meor("explain", live, "e0", "r0", "?")
    assert explained.exit_code == 0
    assert "\x1b[31m" not in explained.stdout
    assert json.loads(meor("explain", live, "?", "r1", "e4", "--json").stdout)["rank_current"] >= 1


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("predict", "live", "e0", "r0", "e1"), "exactly one end"),
        (("predict", "live"), "no query was given"),
        (("predict", "live", "nobody", "r0", "?"), "no entity 'nobody'"),
        (("predict", "nowhere", "e0", "r0", "?"), "is not a store"),
        (("predict", "live", "e0", "r0", "?", "--universe", "new"), "old or current"),
        (("predict", "live", "--queries", "missing.tsv"), "cannot be read"),
        (("predict", "live", "--queries", "base.tsv"), "line 1"),
        (("admit", "live", "missing.tsv"), "no such file"),
        (("admit", "live", "week.tsv", "--budget", "7"), "budget"),
        (("admit", "nowhere", "week.tsv"), "is not a store"),
        (("admit", "live", "base.tsv"), "known already"),
        (("diff", "live", "1", "9"), "names no version"),
        (("explain", "nowhere", "e0", "r0", "?"), "is not a run folder"),
        (("store", "create", "live", "--from", "base.tsv"), "exists"),
        (("store", "create", "new", "--from", "missing.tsv"), "no such file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(live: Path, words: tuple[str, ...], match: str) -> None:
    found = meor(*words)
    assert found.exit_code == 2
    assert match in found.output
    assert len(found.output.strip().splitlines()) == 1


def test_a_store_of_embeddings_made_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stream = tiny_stream()
    write_stream(stream, tmp_path / "ring")
    draw = np.random.default_rng(0)
    rows = {"entity": stream.entities.labels, "relation": stream.relations.labels}
    for kind, labels in rows.items():
        np.save(tmp_path / f"{kind}.npy", draw.normal(size=(len(labels), 8)))
    named = [f"{kind}\t{row}\t{label}\n" for kind, labels in rows.items() for row, label in enumerate(labels)]
    (tmp_path / "names.tsv").write_text("".join(named))
    words = ["--from", "entity.npy", "--relation", "relation.npy", "--vocabulary", "names.tsv"]
    made = meor(
        "store", "create", "live", *words, "--stream", "ring", "--backbone", "complex", "--budget", ".5"
    )
    assert made.exit_code == 0, made.output
    assert "40 entities" in made.stdout
    (tmp_path / "more.tsv").write_text("e0\tr0\tnew\nnew\tr1\te3\n")
    assert meor("admit", "live", "more.tsv", "--quiet").exit_code in (0, 4)
    assert "new" in meor("predict", "live", "e0", "r0", "?", "--k", "50").stdout
    wrong = meor("store", "create", "other", *words[:4], "--stream", "ring", "--backbone", "complx")
    assert (wrong.exit_code, "complex" in wrong.output) == (2, True)
