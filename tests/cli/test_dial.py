from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.tiny_run import each_step, tiny_config, tiny_stream
from typer.testing import CliRunner

from meor.cli import app
from meor.run.session import start
from meor.run.view import RunView
from meor.stream.files import write_stream


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("dialled")
    write_stream(tiny_stream(), here / "ring")
    start(tiny_config(stream=here / "ring"), here / "a", resources=each_step(here / "cache"))
    return here / "a"


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["dial", *arguments], env={"COLUMNS": "80"})
    return result.exit_code, result.stdout, result.stderr


def test_the_table_fits_eighty_columns_and_the_picture_is_whole(run: Path) -> None:
    code, out, err = call(str(run))
    assert code == 0, err
    assert all(
        len(line) <= 80 for line in out.splitlines() if "meor dial" not in line and "Picture" not in line
    )
    assert "as trained" in out
    assert len([line for line in out.splitlines() if line.startswith("│")]) <= 15
    assert "update 2 of 2" in err
    picture = ElementTree.parse(run / "dial.svg")
    curves = Counter(path.get("class") for path in picture.findall(".//{*}path"))
    # once in the legend, and once in each panel: H_cur and A_QN are in both
    assert curves == {"curve old": 3, "curve new soft": 3, "curve old soft": 2, "curve new": 2}


def test_json_holds_every_point_and_a_kept_run_is_written(run: Path, tmp_path: Path) -> None:
    options = ("--quiet", "--json", "--scales", "2,1,.5", "--picture", str(tmp_path / "new" / "x.svg"))
    code, out, err = call(str(run), *options)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [point["scale"] for point in found["points"]] == [0.5, 1.0, 2.0]
    assert found["filter_splits"] == ["train", "valid"]
    assert (tmp_path / "new" / "x.svg").is_file()
    code, out, err = call(str(run), "--keep", "2", "--out", str(tmp_path / "b"), "--json")
    assert code == 0, err
    assert json.loads(out)["endpoints"] == RunView.open(tmp_path / "b").endpoints()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--scales", "1:2"), "neither LOW:HIGH:POINTS"),
        (("--scales", "2:1:5"), "neither LOW:HIGH:POINTS"),
        (("--scales", "a,b"), "neither LOW:HIGH:POINTS"),
        (("--scales", "1,1e9"), "is no scale"),
        (("--keep", "1"), "belong together"),
        (("--split", "nothing"), "nothing"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(run: Path, options: tuple[str, ...], said: str) -> None:
    code, _, err = call(str(run), "--quiet", *options)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
