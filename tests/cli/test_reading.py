"""How a stream is read is a setting of a run: whatever opens its stream again reads it alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tiny_run import SETTINGS, results
from typer.testing import CliRunner

from meor.cli import app

SMALL = [part for text in SETTINGS for part in ("--set", text)]
RULES = ["--duplicates", "drop", "--unseen", "move"]


def call(*words: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, words)
    return found.exit_code, found.stdout, found.stderr


def done(*words: str) -> str:
    code, out, err = call(*words)
    assert code == 0, err
    return out


@pytest.fixture
def faulty(ring: Path) -> Path:
    """The ring with its first ten facts once more, and an entity that valid names first."""
    train = (ring / "0/train.txt").read_text().splitlines(keepends=True)
    with (ring / "1/train.txt").open("a") as file:
        file.writelines(train[:10])
    with (ring / "1/valid.txt").open("a") as file:
        file.write("late\tr0\te1\n")
    return ring


@pytest.mark.parametrize(
    "words",
    [("data", "check"), ("data", "info"), ("run", "--quiet", *SMALL, "--stream"), ("audit", "--stream")],
)
def test_every_command_refuses_with_the_command_that_helps(faulty: Path, words: tuple[str, ...]) -> None:
    code, _, err = call(*words, str(faulty))
    assert code == 2
    assert f"`meor data clean {faulty} OUT --duplicates drop --unseen move`" in err
    assert len(err.strip().splitlines()) == 1
    assert not Path("runs").exists()


def test_a_run_by_rules_is_the_run_of_the_clean_copy(faulty: Path) -> None:
    done("data", "clean", str(faulty), "clean")
    done("run", "--stream", "ring", *RULES, "--out", "ruled", "--quiet", *SMALL)
    done("run", "--stream", "clean", "--out", "plain", "--quiet", *SMALL)
    assert results(Path("ruled")) == results(Path("plain"))
    ruled, plain = (json.loads(Path(run, "manifest.json").read_text()) for run in ("ruled", "plain"))
    assert ruled["config_hash"] == plain["config_hash"]


READERS: dict[str, Callable[[], list[str]]] = {
    "audit": lambda: ["audit", "RUN"],
    "inspect": lambda: ["inspect", "RUN"],
    "dial": lambda: ["dial", "RUN"],
    "report": lambda: ["report", "RUN"],
    "store": lambda: ["store", "create", "live", "--from", "RUN"],
    "explain": lambda: ["explain", "RUN", "e1", "r0", "?", "--answer", "e2"],
}


@pytest.fixture
def ruled_run(faulty: Path) -> Path:
    done("run", "--stream", "ring", *RULES, "--out", "RUN", "--quiet", *SMALL)
    return Path("RUN")


@pytest.mark.parametrize("reader", READERS)
def test_whatever_reads_a_run_opens_its_stream_by_its_rules(ruled_run: Path, reader: str) -> None:
    done(*READERS[reader]())
    if reader == "report":
        page = (ruled_run / "report.html").read_text()
        assert "--duplicates drop --unseen move" in page
        assert "cannot be read" not in page


def test_an_interrupted_run_goes_on_by_its_rules(ruled_run: Path) -> None:
    whole = results(ruled_run)
    manifest = json.loads((ruled_run / "manifest.json").read_text())
    for name in [name for name in manifest["sha256"] if name.startswith(("update-2/", "endpoints"))]:
        del manifest["sha256"][name]
        (ruled_run / name).unlink()
    (ruled_run / "manifest.json").write_text(json.dumps({**manifest, "complete": False}))
    done("resume", str(ruled_run), "--quiet")
    assert results(ruled_run) == whole


def test_a_study_reads_every_stream_by_its_rules(faulty: Path) -> None:
    words = ["--method", "none", "--method", "meor", "--pairs", "2", "--workers", "1", "--quiet"]
    done("study", "primary", "--stream", "ring", *RULES, "--rule", "balance", "--out", "OUT", *words, *SMALL)
    done("report", "OUT")
    assert not Path("OUT/failures.json").exists()


def test_an_audit_of_a_run_takes_no_rules_beside_those_of_the_run(ruled_run: Path) -> None:
    code, _, err = call("audit", "RUN", "--unseen", "drop")
    assert code == 2
    assert "says how its stream is read" in err


def test_settings_that_no_run_asks_for_are_not_written(ring: Path) -> None:
    done("run", "--stream", "ring", "--out", "RUN", "--quiet", *SMALL)
    text = Path("RUN/config.yaml").read_text()
    assert "unseen" not in text
    assert "columns" not in text


@pytest.mark.parametrize("option", [("--duplicates", "keep"), ("--unseen", "keep"), ("--columns", "a,b")])
def test_a_wrong_rule_is_refused_before_anything_is_written(ring: Path, option: tuple[str, str]) -> None:
    for words in (
        ("run",),
        ("study", "primary"),
        ("data", "check", "ring"),
        ("data", "clean", "ring", "OUT"),
    ):
        given = () if words[0] == "data" else ("--stream", "ring")
        code, _, err = call(*words, *given, *option)
        assert code == 2, words
        assert option[0] in err
    assert not {path.name for path in Path().iterdir()} & {"runs", "results", "OUT"}


def dated(path: Path) -> Path:
    rows = [f"e{n % 20};r{n % 3};e{(7 * n + 3) % 23};{2000 + n // 30}" for n in range(120)]
    path.write_bytes(("\ufeffSource;Type;Target;Timestamp\r\n" + "\r\n".join(rows) + "\r\n").encode())
    return path


def test_a_run_of_one_file_is_refused_with_the_command_that_cuts_it(ring: Path) -> None:
    dated(Path("facts.csv"))
    Path("bare.tsv").write_text("a\tr\tb\nb\tr\tc\n")
    for name, why in (("facts.csv", "measure nothing"), ("bare.tsv", "says when")):
        code, _, err = call("run", "--stream", name, "--duplicates", "drop", "--quiet", *SMALL)
        assert code == 2
        assert why in err
        assert f"meor data grow {Path(name).absolute()} OUT" in err


def test_duplicates_of_a_file_with_nothing_held_out_point_to_the_command_that_cuts_it(ring: Path) -> None:
    Path("twice.tsv").write_text("a\tr\tb\t2020\nb\tr\tc\t2021\na\tr\tb\t2021\n")
    code, _, err = call("data", "check", "twice.tsv")
    assert code == 2
    assert "`meor data grow twice.tsv OUT --by date` cuts it into a stream" in err


def test_that_command_reads_the_file_in_the_same_way(ring: Path) -> None:
    dated(Path("facts.csv"))
    assert "--by date cuts by them" in call("data", "grow", "facts.csv", "RANDOM")[2]
    done("data", "grow", "facts.csv", "OUT", "--by", "date", "--snapshots", "3")
    assert "3 snapshots" in done("data", "check", "OUT")
    done("run", "--stream", "OUT", "--out", "RUN", "--quiet", *SMALL)


def test_a_file_that_says_all_of_it_is_run_as_it_is(ring: Path) -> None:
    splits = ("train", "valid", "test")
    rows = [
        f"{line}\t{snapshot}\t{split}\n"
        for snapshot in range(3)
        for split in splits
        for line in (ring / f"{snapshot}/{split}.txt").read_text().splitlines()
    ]
    Path("one.tsv").write_text("from\tis\tto\tpart\tsplit\n" + "".join(rows))
    named = ["--columns", "h=from,r=is,t=to,snapshot=part"]
    done("run", "--stream", "one.tsv", *named, "--out", "one", "--quiet", *SMALL)
    done("run", "--stream", "ring", "--out", "many", "--quiet", *SMALL)
    assert results(Path("one")) == results(Path("many"))
    done("audit", "one")


def test_an_update_with_nothing_to_train_is_not_said_to_be_trained(ring: Path) -> None:
    for split, line in (("train", "e1\tr0\te9\n"), ("valid", "e2\tr0\te9\n"), ("test", "e3\tr0\te9\n")):
        (ring / "3").mkdir(exist_ok=True)
        (ring / f"3/{split}.txt").write_text(line)
    kept = [word for text in SETTINGS if "refine.passes" not in text for word in ("--set", text)]
    code, _, err = call("run", "--stream", "ring", "--out", "RUN", *kept, "--set", "refine.validate_steps=1")
    assert code == 0, err
    assert "update 3: nothing to train; ranked" in err
    assert "update 3 has no validation facts" not in err
