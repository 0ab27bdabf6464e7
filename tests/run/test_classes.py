"""Newcomers that start from the classes of a file, under every host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.tiny_run import each_step, tiny_config, tiny_stream

from meor.errors import ConfigError, InputError, MeorError, RunError
from meor.hosts import HOSTS
from meor.run.classes import class_remark, classes_hash, classes_of
from meor.run.config import Config
from meor.run.prepare import grown, update_of
from meor.run.session import resume, start
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.training.host import Update


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Every entity is even or odd, some are round, and e99 is in no stream."""
    path = tmp_path / "classes.tsv"
    lines = [f"e{number}\t{('even', 'odd')[number % 2]}" for number in (*range(40), 99)]
    path.write_text("\n".join([*lines, *(f"e{number}\tround" for number in range(0, 40, 10))]) + "\n")
    return path


def schema(file: Path | str, *sets: str) -> Config:
    return tiny_config("refine.newcomer_init=schema", f"refine.classes={file}", *sets)


def initial_rows(config: Config, stream: Stream, view: RunView) -> np.ndarray:
    update = update_of(config, stream, 1)
    return grown(config, stream, view.model(0), update, view.model(0)).entity.numpy()[update.n_old :]


@pytest.mark.parametrize("host", HOSTS)
def test_newcomers_of_every_host_start_near_the_mean_of_their_classes(
    host: str, file: Path, tmp_path: Path
) -> None:
    stream, given = tiny_stream(), (f"host.name={host}", "evaluation.updates=[1]")
    config = schema(file, *given)
    start(config, tmp_path / "run", stream=stream, resources=each_step(tmp_path / "cache"))
    view = RunView.open(tmp_path / "run")
    assert view.complete
    base = view.model(0).entity.numpy()
    rows, others = (
        initial_rows(each, stream, view)
        for each in (config, tiny_config(*given, "refine.newcomer_init=base"))
    )
    even, odd = base[::2], base[1::2]
    newcomer = Update.of(stream, 1).n_old
    for number, row in enumerate(rows):
        mine, theirs = (even, odd) if (newcomer + number) % 2 == 0 else (odd, even)
        if (newcomer + number) % 10:
            assert np.abs(row - mine.mean(0)).max() < mine.std(0).max()
            assert not np.allclose(row, theirs.mean(0), atol=1e-6)
        assert not np.allclose(row, others[number])


@pytest.mark.parametrize("scheme", ["matched", "neighbours"])
@pytest.mark.parametrize("host", HOSTS)
def test_other_informed_starts_serve_every_host(host: str, scheme: str, tmp_path: Path) -> None:
    stream, given = tiny_stream(), (f"host.name={host}", "evaluation.updates=[1]")
    config = tiny_config(*given, f"refine.newcomer_init={scheme}")
    start(config, tmp_path / "run", stream=stream, resources=each_step(tmp_path / "cache"))
    view = RunView.open(tmp_path / "run")
    assert view.complete
    plain = initial_rows(tiny_config(*given, "refine.newcomer_init=base"), stream, view)
    assert not np.allclose(initial_rows(config, stream, view), plain)


def test_what_the_file_says_is_read_by_label_and_each_class_once(file: Path) -> None:
    stream = tiny_stream()
    with file.open("a") as more:
        more.write("e1\todd\n")
    classes = classes_of(schema(file), stream)
    assert classes is not None
    ids = [stream.entities.id(label) for label in ("e0", "e1", "e39")]
    assert [list(classes[id]) for id in ids] == [["even", "round"], ["odd"], ["odd"]]
    assert len(classes) == 40
    assert classes_of(tiny_config(), stream) is None


def test_the_content_of_the_file_decides_the_fingerprint_and_not_its_place(
    file: Path, tmp_path: Path
) -> None:
    moved, changed = tmp_path / "moved.tsv", tmp_path / "changed.tsv"
    moved.write_bytes(file.read_bytes())
    changed.write_bytes(file.read_bytes() + b"e3\tround\n")
    found = []
    for path in (file, moved, changed):
        config = schema(path)
        told = classes_hash(config)
        found.append(
            (
                config.fingerprint("s", None, told),
                config.replay_fingerprint("s", ["a"], {}, told),
            )
        )
    assert found[0] == found[1]
    assert all(mine != other for mine, other in zip(found[0], found[2], strict=True))
    plain = tiny_config()
    assert plain.fingerprint("s", None, classes_hash(plain)) == plain.fingerprint("s")
    assert "classes" not in plain.to_yaml()


def test_a_run_whose_classes_have_changed_is_not_gone_on_with(file: Path, tmp_path: Path) -> None:
    stream, run = tiny_stream(), tmp_path / "run"
    start(schema(file), run, stream=stream, resources=each_step(tmp_path / "cache"))
    (run / "endpoints.json").unlink()
    with file.open("a") as more:
        more.write("e3\tround\n")
    with pytest.raises(RunError, match="other classes"):
        resume(run, stream=stream, resources=each_step(tmp_path / "cache"))


def test_the_config_names_the_file_in_full(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = schema(file.name)
    assert config.refine.classes == str(file)
    assert Config.resolve(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(
    ("text", "problem", "kind"),
    [
        (None, r"classes.tsv: is not a file. Name a tab-separated text file", InputError),
        ("e1 even\n", r"line 1: 1 columns instead of 2. Write entity TAB class", InputError),
        ("e1\teven\ne2\t\n", r"line 2: the class is empty", InputError),
        ("x1\teven\n", r"no newcomer of ring shares a class with an entity of snapshot 0", ConfigError),
        ("e1\todd\ne30\teven\n", r"no newcomer of ring shares a class", ConfigError),
    ],
)
def test_a_file_that_does_not_serve_is_refused_before_a_folder_is_made(
    text: str | None, problem: str, kind: type[MeorError], tmp_path: Path
) -> None:
    path = tmp_path / "classes.tsv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(kind, match=problem):
        start(schema(path), tmp_path / "run", stream=tiny_stream(), resources=each_step(tmp_path / "cache"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("sets", [("refine.newcomer_init=schema",), ("refine.classes=x.tsv",)])
def test_classes_and_the_scheme_that_reads_them_belong_together(sets: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="belong together: give both or neither"):
        tiny_config(*sets)


def test_how_many_start_from_their_classes_is_said(file: Path) -> None:
    assert class_remark(schema(file), tiny_stream()) == "16 of 16 newcomers start from their classes."
    file.write_text("e0\teven\ne24\teven\ne25\tunheard of\n")
    told = class_remark(schema(file), tiny_stream())
    assert told == "1 of 16 newcomers start from their classes; snapshot 0 knows no class of the others."
    assert class_remark(tiny_config(), tiny_stream()) == ""
